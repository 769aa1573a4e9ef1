"""Commands that create, write and read a graph's data."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict, cast

import click

from omnigraph.cli.complete_names import type_names
from omnigraph.cli.files import form_of_file, from_file, read_text, write_table
from omnigraph.cli.places import is_served
from omnigraph.cli.scope import (
    GivenPlace,
    actor_option,
    at_option,
    branch_option,
    durability_setting,
    echo_target,
    graph_argument,
    json_option,
    one_state,
    open_graph,
    open_served,
    params_options,
    print_json,
    query_and_place,
    read_params,
    refuse_managed,
    store_options,
    write_options,
)
from omnigraph.cli.waiting import Waiting
from omnigraph.wording import counted

if TYPE_CHECKING:
    from omnigraph.graph import MutationResult
    from omnigraph.graph.view import WriteOptions
    from omnigraph.values.words import ExportFormat

    class _Mutation(WriteOptions):
        branch: str

    class _State(TypedDict):
        branch: str | None
        commit: str | None
        version: int | None


_EXPORTS = ("jsonl", "csv", "graphml", "arrow", "parquet")
_FILE_EXPORTS = ("jsonl", "graphml", "arrow", "parquet")
_ONE_TYPE = ("arrow", "parquet")
_OUT = {"csv": "FOLDER", "graphml": "FILE"}


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
            nodes = counted(len(graph.catalog.nodes), "node type")
            edges = counted(len(graph.catalog.edges), "edge type")
            click.echo(f"initialized {graph.uri} ({nodes}, {edges})")


@click.command()
@click.argument("name", required=False)
@click.argument("uri", required=False)
@store_options
@click.option("--query", "query_path", metavar="FILE", help="Query file (.gq).")
@click.option("-e", "--query-string", "text", metavar="GQ", help="Query text.")
@params_options
@branch_option
@actor_option
@click.option("--dry-run", is_flag=True, help="Check everything and count, write nothing.")
@write_options
@json_option
def mutate(
    name: str | None,
    uri: str | None,
    store: str | None,
    query_path: str | None,
    text: str | None,
    params: str | None,
    params_file: str | None,
    pairs: tuple[str, ...],
    branch: str,
    actor: str | None,
    dry_run: bool,
    if_commit: str | None,
    operation_id: str | None,
    message: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run a mutation query as one commit.

    NAME picks a query when the source holds several, URI is the graph. On a server and without a
    source, NAME is a stored query.
    """
    if query_path is not None and text is not None:
        raise click.UsageError("give --query FILE or -e GQ, not both")
    name, place = query_and_place(name, uri, store)
    stored = query_path is None and text is None
    if stored and (name is None or not is_served(place)):
        raise click.UsageError("give --query FILE or -e GQ; stored queries are on servers")
    values = read_params(params, params_file, pairs)
    options: _Mutation = {
        "branch": branch,
        "expected_head": if_commit,
        "operation_id": operation_id,
        "message": message,
        "dry_run": dry_run,
    }
    echo_target("mutate", place, quiet=quiet)
    if stored:
        with open_served(place, actor=actor) as served:
            answer = served.call(str(name), values, expect_mutation=True, **options)
            result = cast("MutationResult", answer)
    else:
        with from_file(query_path), open_graph(place, actor=actor) as graph:
            source = text if text is not None else read_text(str(query_path))
            result = graph.mutate(source, values, name=name, **options)
    if as_json:
        print_json(result.to_json())
        return
    show_mutation(result, branch, dry_run=dry_run)


def show_mutation(result: MutationResult, branch: str, *, dry_run: bool = False) -> None:
    """Tell what a mutation did."""
    by = f" by {result.actor_id}" if result.actor_id else ""
    if result.repeated:
        click.echo(f"already changed {branch} via {result.query_name}, by this operation id")
    else:
        done = "would change" if dry_run else "changed"
        nodes = counted(result.affected_nodes or 0, "node")
        edges = counted(result.affected_edges or 0, "edge")
        click.echo(f"{done} {branch} via {result.query_name}: {nodes}, {edges}{by}")
    if dry_run:
        click.echo("dry run; nothing was written")
    elif result.commit is None:
        click.echo("nothing changed; no commit was made")
    else:
        click.echo(f"commit {result.commit.graph_commit_id}")


@click.command()
@graph_argument
@branch_option
@at_option
@click.option("--version", "at_version", type=int, help="Graph version to look at.")
@click.option("--commit", "at_commit", help="Commit to look at.")
@json_option
def snapshot(
    place_given: GivenPlace,
    branch: str,
    at_state: str | None,
    at_version: int | None,
    at_commit: str | None,
    as_json: bool,
) -> None:
    """Show which version of every table is published."""
    one_state(at=at_state, version=at_version, commit=at_commit)
    place = place_given.resolve()
    with open_graph(place, mode="ro") as graph:
        state = graph.snapshot(branch, commit=at_state or at_commit, version=at_version)
    if as_json:
        print_json(state.to_json())
        return
    click.echo(f"branch {state.branch}")
    click.echo(f"manifest_version {state.version}")
    click.echo(f"internal_schema_version {state.internal_schema_version}")
    click.echo(f"commit {state.commit.graph_commit_id}")
    width = max((len(key) for key in state.tables), default=0)
    for key, pin in state.tables.items():
        click.echo(f"  {key:<{width}}  {pin.row_count:>10} rows  version {pin.version}")


@click.command()
@graph_argument
@branch_option
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="T",
    help="Only this type (repeatable).",
    shell_complete=type_names,
)
@click.option(
    "--table", "tables", multiple=True, metavar="KEY", help="The same, as node:T or edge:T."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_EXPORTS),
    help="As --out ends, else jsonl; csv is a folder; arrow and parquet hold one type.",
)
@click.option("--jsonl", is_flag=True, hidden=True)
@click.option("--out", metavar="PATH", help="Write to a file, or a folder, instead of stdout.")
@at_option
@click.option("--version", "at_version", type=int, help="Graph version to export.")
@click.option("--commit", "at_commit", help="Commit to export.")
def export(
    place_given: GivenPlace,
    branch: str,
    types: tuple[str, ...],
    tables: tuple[str, ...],
    form: str | None,
    jsonl: bool,
    out: str | None,
    at_state: str | None,
    at_version: int | None,
    at_commit: str | None,
) -> None:
    """Write every entity as JSONL, nodes before edges, from one snapshot.

    With --out also as GraphML, or as a folder with a CSV file for each type. One type can be
    written as an Arrow stream or a Parquet file.
    """
    import msgspec

    from omnigraph.ops.export import type_of_table

    if jsonl:
        click.echo("warning: '--jsonl' is the default; leave it out", err=True)
    place = place_given.resolve()
    wanted = [*types, *(type_of_table(key) for key in tables)]
    form = form or ("jsonl" if out is None else form_of_file(out, _FILE_EXPORTS))
    if form in _ONE_TYPE and (len(wanted) != 1 or (form == "parquet" and out is None)):
        raise click.UsageError(f"--format {form} needs one --type, and parquet --out FILE")
    if form in ("csv", "graphml") and out is None:
        raise click.UsageError(f"--format {form} needs --out {_OUT[form]}")
    one_state(at=at_state, version=at_version, commit=at_commit)
    commit = at_state or at_commit
    state: _State = {"branch": branch, "commit": commit, "version": at_version}
    with open_graph(place, mode="ro") as graph:
        if form in _ONE_TYPE:
            table = graph.export_table(wanted[0], **state)
            write_table(table, form, out)
            return
        if out is not None:
            with Waiting(f"writing {out}"):
                written = graph.export(
                    out, format=cast("ExportFormat", form), types=wanted, **state
                )
            words = ("line", "lines") if form == "jsonl" else ("entity", "entities")
            rows = counted(written, *words) if isinstance(written, int) else words[1]
            click.echo(f"wrote {rows} to {out}", err=True)
            return
        envelopes = graph.export(types=wanted, **state)
        if isinstance(envelopes, int):
            return
        encoder = msgspec.json.Encoder()
        stream = sys.stdout.buffer
        for envelope in envelopes:
            stream.write(encoder.encode(envelope) + b"\n")
        stream.flush()
