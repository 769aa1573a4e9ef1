"""Help for what people type out of habit: commands of git and SQL, files without an option."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HISTORY = "`omnigraph commit list` shows the history"
_NO_CURRENT = (
    "no branch is the current one: name it with --branch; `omnigraph branch list` lists them"
)
_WRITE = "`omnigraph mutate` runs a query that writes; `omnigraph load` reads files"
_READ = "`omnigraph query` runs a query; `omnigraph shell` takes them line by line"
_TYPES = "`omnigraph schema show` shows the types, `omnigraph snapshot` the tables"

COMMANDS = {
    "add": _WRITE,
    "backup": "`omnigraph dump` writes an archive, `omnigraph restore` reads it",
    "blame": "`omnigraph commit blame TYPE ID` shows which commits wrote an entity",
    "branches": "`omnigraph branch list` lists the branches",
    "checkout": _NO_CURRENT,
    "cherry-pick": "`omnigraph commit pick ID` repeats a commit on a branch",
    "clone": "`omnigraph dump` and `omnigraph restore` copy a graph with its history",
    "console": _READ,
    "create": "`omnigraph init PATH --schema FILE` makes a graph",
    "delete": _WRITE,
    "describe": _TYPES,
    "format": "`omnigraph fmt` formats .pg and .gq files",
    "history": _HISTORY,
    "import": "`omnigraph load` reads files",
    "insert": _WRITE,
    "log": _HISTORY,
    "ls": _TYPES,
    "merge": "`omnigraph branch merge SOURCE` merges a branch",
    "new": "`omnigraph init PATH --schema FILE` makes a graph",
    "repl": _READ,
    "reset": "`omnigraph commit revert ID` undoes a commit with a new one",
    "revert": "`omnigraph commit revert ID` undoes a commit with a new one",
    "run": _READ,
    "select": _READ,
    "server": "`omnigraph serve` serves graphs over HTTP",
    "show": "`omnigraph commit show ID` shows a commit, `omnigraph schema show` the schema",
    "start": "`omnigraph serve` serves graphs over HTTP",
    "status": "`omnigraph doctor` looks at a graph, `omnigraph branch list` lists its branches",
    "switch": _NO_CURRENT,
    "tables": _TYPES,
    "tags": "`omnigraph tag list` lists the tags",
    "update": _WRITE,
}
OPTIONS = {
    ("query", "--limit"): "a query says it itself: `return { ... } limit 10`",
    ("query", "--file"): "give the file with --query",
    ("query", "-q"): "give the file with --query, or the text with -e",
    ("serve", "--port"): "give the address and port with --bind, such as 127.0.0.1:8080",
    ("serve", "--host"): "give the address and port with --bind, such as 127.0.0.1:8080",
    ("commit", "-m"): "each write is a commit: give -m to `mutate`, `load` or `branch merge`",
    ("load", "--file"): "give the file with --data",
    ("load", "--format"): "the ending of a file says in which format it is",
}
_EXTRA = re.compile(r"unexpected extra arguments? \((.+)\)")


def usage_help(message: str, arguments: Sequence[str]) -> str | None:
    """Return help for a refused command line; None if it looks like no known habit."""
    words = [item for item in arguments if not item.startswith("-")]
    command = words[0] if words else ""
    if message.startswith("No such command"):
        return COMMANDS.get(command) or COMMANDS.get(words[1] if len(words) > 1 else "")
    if message.startswith("No such option"):
        flags = {item.partition("=")[0] for item in arguments if item.startswith("-")}
        known = (
            text for (name, flag), text in OPTIONS.items() if name == command and flag in flags
        )
        return next(known, None)
    if command == "load":
        return _load_help(message)
    return None


def _load_help(message: str) -> str | None:
    """Return help for files that stand where the graph is named."""
    extra = _EXTRA.search(message)
    if extra is not None:
        return f"give each file with --data: --data {extra.group(1).split()[0]}"
    return "give each file with --data" if "'--data'" in message else None
