"""`omnigraph resolve`: find nodes that are the same, and propose to merge them on a branch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from omnigraph.cli.complete_names import branch_names
from omnigraph.cli.scope import (
    GivenPlace,
    actor_option,
    engine_options,
    graph_argument,
    is_spark,
    json_option,
    message_option,
    open_stored,
    print_json,
)
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    from omnigraph.resolve import Resolved


@click.command()
@graph_argument
@click.option("--rules", "file", required=True, metavar="FILE", help="TOML file with the rules.")
@click.option("--branch", metavar="NAME", help="Branch to propose the merge on; made if missing.")
@click.option(
    "--from",
    "source",
    default="main",
    show_default=True,
    help="Branch to look at.",
    shell_complete=branch_names,
)
@click.option("--dry-run", is_flag=True, help="Validate the merged state, and write nothing.")
@click.option("--out", metavar="FOLDER", help="Write pairs, clusters and skipped as Parquet files.")
@click.option("--show", default=10, show_default=True, help="Clusters to print.")
@click.option(
    "--operation-id",
    metavar="ID",
    help="Your id for this write; repeating it returns the first outcome.",
)
@engine_options
@message_option
@actor_option
@json_option
def resolve(
    place_given: GivenPlace,
    file: str,
    branch: str | None,
    source: str,
    dry_run: bool,
    out: str | None,
    show: int,
    operation_id: str | None,
    engine: str,
    master: str | None,
    message: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Find nodes that are the same thing, and propose to merge them on a branch."""
    if branch is None and not dry_run:
        raise click.UsageError("name a --branch to propose the merge on, or use --dry-run")
    place = place_given.resolve()
    on_spark = is_spark(engine, master, place)
    from omnigraph.resolve import propose, read_rules, text
    from omnigraph.resolve import resolve as find

    rules = read_rules(file)
    with open_stored(place, actor=actor) as graph:
        resolved = find(
            graph, rules, branch=source, engine="spark" if on_spark else "local", master=master
        )
        if out is not None:
            _write(resolved, out)
        report = propose(
            graph,
            resolved,
            branch=branch or source,
            operation_id=operation_id,
            message=message,
            actor=actor,
            dry_run=dry_run,
        )
    if as_json:
        print_json(report.to_json())
    else:
        click.echo(text(resolved, report, clusters=show))


def _write(resolved: Resolved, folder: str) -> None:
    import pyarrow.parquet as pq

    tables = {"pairs": resolved.pairs, "clusters": resolved.clusters, "skipped": resolved.skipped}
    try:
        os.makedirs(folder, exist_ok=True)
        for name, table in tables.items():
            pq.write_table(table, os.path.join(folder, f"{name}.parquet"))
    except OSError as error:
        raise BadRequestError(f"cannot write to {folder}: {error.strerror or error}") from error
