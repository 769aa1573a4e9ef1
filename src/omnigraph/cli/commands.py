"""The commands of the program: where each is written, and what the list of them says of it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Listed(NamedTuple):
    """A command as `omnigraph --help` shows it, which is done without importing it."""

    target: str
    """Its module in `omnigraph.cli`, and its name there."""
    help: str = ""
    """The beginning of its help text; nothing for one that is not listed."""


COMMANDS: Final = {
    "alias": Listed(
        "served:alias",
        "Run a stored query under a name of your own, with its usual parameters.",
    ),
    "blob": Listed("blob:blob", "Read blobs without reading their table."),
    "branch": Listed("branch:branch", "Work on isolated branches and merge them."),
    "change": Listed("older:change"),
    "changes": Listed("changes:changes", "Follow the changes of a branch, commit by commit."),
    "check": Listed("lint:check"),
    "cleanup": Listed("maintain:cleanup", "Remove old versions and the files only they used."),
    "cluster": Listed(
        "cluster:cluster",
        "Describe graphs, their queries and policies in a file, and make it so.",
    ),
    "commit": Listed("commit:commit", "Look at the history of a graph."),
    "completion": Listed(
        "completion:completion",
        "Print the script that completes commands, options, branches and types in a shell.",
    ),
    "diff": Listed("changes:diff", "Show what turns one state into another."),
    "doctor": Listed(
        "doctor:doctor",
        "Check the installation and a graph: versions, rights, disk, interrupted writes, indexes.",
    ),
    "dump": Listed(
        "dump:dump",
        "Write a whole graph, with branches, tags and history, into one archive.",
    ),
    "ensure-indices": Listed(
        "indexes:ensure_indices",
        "Build the indexes the schema declares and the graph lacks.",
    ),
    "export": Listed(
        "data:export",
        "Write every entity as JSONL, nodes before edges, from one snapshot.",
    ),
    "fmt": Listed("fmt:fmt", "Format schema (.pg) and query (.gq) files in place."),
    "graphs": Listed("served:graphs", "Look at the graphs of a server."),
    "ingest": Listed("older:ingest"),
    "init": Listed("data:init", "Create a graph from a schema."),
    "lint": Listed(
        "lint:lint",
        "Check a query file against a schema file, or against the schema of a graph.",
    ),
    "load": Listed(
        "load:load",
        "Load nodes and edges as one commit; nothing is written if anything is wrong.",
    ),
    "login": Listed(
        "served:login",
        "Keep the token of a configured server, readable by you alone.",
    ),
    "logout": Listed("served:logout", "Forget the token of a server."),
    "lsp": Listed(
        "lsp:lsp",
        "Serve an editor, over the Language Server Protocol, on standard input and output.",
    ),
    "mcp": Listed("mcp:mcp", "Serve a graph to agents, over the Model Context Protocol."),
    "mutate": Listed("data:mutate", "Run a mutation query as one commit."),
    "optimize": Listed("maintain:optimize", "Compact small fragments and index every row."),
    "pipeline": Listed("pipeline:pipeline", "Load, check and merge as one file declares it."),
    "policy": Listed("policy:policy", "Look at policies: who may do what."),
    "profile": Listed("served:profile", "Look at configured profiles."),
    "queries": Listed("queries:queries", "Look at the stored queries of a cluster or a server."),
    "query": Listed("query:query", "Run a read query."),
    "read": Listed("older:read"),
    "recover": Listed(
        "recover:recover",
        "Resolve interrupted writes and show the record of recoveries.",
    ),
    "repair": Listed("maintain:repair", "Find tables that something other than OmniGraph moved."),
    "resolve": Listed(
        "resolve:resolve",
        "Find nodes that are the same thing, and propose to merge them on a branch.",
    ),
    "restore": Listed("dump:restore", "Make a graph out of an archive that `dump` wrote."),
    "schema": Listed("schema:schema", "Show, compare and change schemas."),
    "serve": Listed("serve:serve", "Serve graphs over HTTP."),
    "shell": Listed(
        "shell:shell",
        "Type queries at a prompt, with completion and history; .help shows what can be typed.",
    ),
    "snapshot": Listed("data:snapshot", "Show which version of every table is published."),
    "studio": Listed("studio:studio", "See a graph, its history and its merges in a browser."),
    "tag": Listed("branch:tag", "Give names to states that never move."),
    "version": Listed(
        "version:version",
        "Print the release and the storage format it reads and writes.",
    ),
    "warm": Listed("warm:warm", "Keep a graph open for the commands of this user."),
}
