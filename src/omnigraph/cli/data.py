"""Commands that create, write and read a graph's data."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import click

from omnigraph.cli.files import read_text
from omnigraph.cli.scope import (
    actor_option,
    branch_option,
    confirm_elsewhere,
    durability_setting,
    echo_target,
    graph_argument,
    json_option,
    open_graph,
    print_json,
    read_params,
    refuse_managed,
    resolve_uri,
    store_options,
    write_options,
)


@click.command()
@click.argument("uri")
@click.option("--schema", "schema_path", required=True, metavar="FILE", help="Schema (.pg).")
@click.option("--force", is_flag=True, help="Replace schema files left there without a graph.")
@json_option
def init(uri: str, schema_path: str, force: bool, as_json: bool) -> None:
    """Create a graph from a schema."""
    import omnigraph as og
    from omnigraph.lang import compile_schema

    refuse_managed(uri)
    text = read_text(schema_path)
    compiled = compile_schema(text, name=schema_path)
    for warning in compiled.warnings:
        click.echo(warning.render(), err=True)
    with og.init(uri, text, force=force, durability=durability_setting()) as graph:
        if as_json:
            version = og.INTERNAL_SCHEMA_VERSION
            print_json({"uri": graph.uri, "internal_schema_version": version})
        else:
            types = len(graph.catalog.nodes), len(graph.catalog.edges)
            click.echo(f"initialized {graph.uri} ({types[0]} node types, {types[1]} edge types)")


@click.command()
@graph_argument
@click.option("--data", required=True, metavar="FILE", help="JSONL file to load.")
@click.option(
    "--mode",
    required=True,
    type=click.Choice(["append", "merge", "overwrite"]),
    help="append: ids must be new; merge: replace by id; overwrite: replace types present.",
)
@branch_option
@click.option("--from", "base", metavar="BRANCH", help="Make the branch from this one if missing.")
@click.option("--dry-run", is_flag=True, help="Check everything, write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before an overwrite on a server.")
@actor_option
@write_options
@json_option
def load(
    uri: str | None,
    store: str | None,
    uri_option: str | None,
    data: str,
    mode: str,
    branch: str,
    base: str | None,
    dry_run: bool,
    yes: bool,
    actor: str | None,
    if_commit: str | None,
    operation_id: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Load nodes and edges from JSONL as one commit; nothing is written if anything is wrong."""
    place = resolve_uri(uri, store, uri_option)
    if mode == "overwrite" and not dry_run:
        confirm_elsewhere("overwriting data", place, yes=yes, as_json=as_json)
    echo_target("load", place, quiet=quiet or dry_run)
    with open_graph(place, actor=actor) as graph, _Progress(data) as progress:
        result = graph.load(
            data,
            mode=mode,
            branch=branch,
            create_from=base,
            expected_head=if_commit,
            operation_id=operation_id,
            dry_run=dry_run,
            progress=progress.update,
        )
    if as_json:
        print_json({"uri": place, **result.to_json()})
        return
    verb = "checked" if dry_run else "already loaded" if result.repeated else "loaded"
    nodes, edges = sum(result.nodes.values()), sum(result.edges.values())
    click.echo(f"{verb} {place} branch {branch} ({mode}): {nodes} nodes, {edges} edges")
    for kind, counts in (("node", result.nodes), ("edge", result.edges)):
        for name, rows in counts.items():
            click.echo(f"  {kind}:{name:<24} {rows:>10}")
    if not result.total_entities:
        click.echo("warning: the input holds no entities; nothing was committed", err=True)
    if result.branch_created:
        click.echo(f"branch {branch} created from {base}")
    if result.commit is not None:
        click.echo(f"commit {result.commit.graph_commit_id}")


class _Progress:
    """A progress bar on stderr, only at a terminal."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._bar: object = None
        self.update: Callable[[int], None] | None = None

    def __enter__(self) -> _Progress:
        if sys.stderr.isatty() and os.path.isfile(self._path):
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            bar = Progress(
                TextColumn("reading"),
                BarColumn(),
                DownloadColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            bar.start()
            task = bar.add_task("reading", total=os.path.getsize(self._path))
            self._bar = bar
            self.update = lambda done: bar.update(task, completed=done)
        return self

    def __exit__(self, *_error: object) -> None:
        stop = getattr(self._bar, "stop", None)
        if stop is not None:
            stop()


@click.command()
@click.argument("name", required=False)
@store_options
@click.option("--query", "query_path", metavar="FILE", help="Query file (.gq).")
@click.option("-e", "--query-string", "text", metavar="GQ", help="Query text.")
@click.option("--params", metavar="JSON", help="Parameters as a JSON object.")
@click.option("--params-file", metavar="FILE", help="Parameters in a JSON file.")
@branch_option
@actor_option
@write_options
@json_option
def mutate(
    name: str | None,
    store: str | None,
    query_path: str | None,
    text: str | None,
    params: str | None,
    params_file: str | None,
    branch: str,
    actor: str | None,
    if_commit: str | None,
    operation_id: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run a mutation query as one commit. NAME picks a query when the source holds several."""
    if (query_path is None) == (text is None):
        raise click.UsageError("give --query FILE or -e GQ")
    source = text if text is not None else read_text(str(query_path))
    place = resolve_uri(None, store, None)
    echo_target("mutate", place, quiet=quiet)
    with open_graph(place, actor=actor) as graph:
        result = graph.mutate(
            source,
            read_params(params, params_file),
            name=name,
            branch=branch,
            expected_head=if_commit,
            operation_id=operation_id,
        )
    if as_json:
        print_json(result.to_json())
        return
    by = f" by {result.actor_id}" if result.actor_id else ""
    if result.repeated:
        click.echo(f"already changed {branch} via {result.query_name}, by this operation id")
    else:
        click.echo(
            f"changed {branch} via {result.query_name}: {result.affected_nodes} nodes, "
            f"{result.affected_edges} edges{by}"
        )
    if result.commit is None:
        click.echo("nothing changed; no commit was made")
    else:
        click.echo(f"commit {result.commit.graph_commit_id}")


@click.command()
@graph_argument
@branch_option
@click.option("--version", "at_version", type=int, help="Graph version to look at.")
@click.option("--commit", "at_commit", help="Commit to look at.")
@json_option
def snapshot(
    uri: str | None,
    store: str | None,
    uri_option: str | None,
    branch: str,
    at_version: int | None,
    at_commit: str | None,
    as_json: bool,
) -> None:
    """Show which version of every table is published."""
    place = resolve_uri(uri, store, uri_option)
    with open_graph(place, mode="ro") as graph:
        found = graph.snapshot(branch, commit=at_commit, version=at_version)
    if as_json:
        print_json(found.to_json())
        return
    click.echo(f"branch {found.branch}")
    click.echo(f"manifest_version {found.version}")
    click.echo(f"internal_schema_version {found.internal_schema_version}")
    click.echo(f"commit {found.commit.graph_commit_id}")
    width = max((len(key) for key in found.tables), default=0)
    for key, pin in found.tables.items():
        click.echo(f"  {key:<{width}}  {pin.row_count:>10} rows  version {pin.version}")


@click.command()
@graph_argument
@branch_option
@click.option("--type", "types", multiple=True, metavar="T", help="Only this type (repeatable).")
@click.option("--out", metavar="FILE", help="Write to a file instead of stdout.")
@click.option("--version", "at_version", type=int, help="Graph version to export.")
@click.option("--commit", "at_commit", help="Commit to export.")
def export(
    uri: str | None,
    store: str | None,
    uri_option: str | None,
    branch: str,
    types: tuple[str, ...],
    out: str | None,
    at_version: int | None,
    at_commit: str | None,
) -> None:
    """Write every entity as JSONL, nodes before edges, from one snapshot."""
    import msgspec

    place = resolve_uri(uri, store, uri_option)
    with open_graph(place, mode="ro") as graph:
        if out is not None:
            lines = graph.export(
                out, branch=branch, types=types, commit=at_commit, version=at_version
            )
            click.echo(f"wrote {lines} lines to {out}", err=True)
            return
        found = graph.export(branch=branch, types=types, commit=at_commit, version=at_version)
        if isinstance(found, int):
            return
        encoder = msgspec.json.Encoder()
        stream = sys.stdout.buffer
        for envelope in found:
            stream.write(encoder.encode(envelope) + b"\n")
        stream.flush()
