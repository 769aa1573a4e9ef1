"""`omnigraph optimize`, `repair` and `cleanup`."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from omnigraph.cli.exit_codes import FAILURE
from omnigraph.cli.scope import (
    GivenPlace,
    branch_option,
    confirm_elsewhere,
    echo_target,
    engine_options,
    is_spark,
    json_option,
    open_stored,
    print_json,
    quiet_option,
    stored_argument,
)
from omnigraph.errors import BadRequestError
from omnigraph.wording import counted

if TYPE_CHECKING:
    from omnigraph.values.reports import OptimizedTable, OptimizeReport

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _tick(name: str) -> None:
    """Show on a terminal which table was just dealt with."""
    if sys.stderr.isatty():
        click.echo(f"  {name}", err=True)


@click.command()
@stored_argument
@branch_option
@engine_options
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@quiet_option
@json_option
def optimize(
    place_given: GivenPlace,
    branch: str,
    engine: str,
    master: str | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Compact small fragments and index every row. No entity changes; writers may go on."""
    place = place_given.resolve()
    on_spark = is_spark(engine, master, place)
    echo_target("optimize", place, quiet=quiet or dry_run)
    with open_stored(place) as graph:
        if dry_run:
            report = graph.optimize(branch, dry_run=True)
        elif on_spark:
            from omnigraph import spark

            report = spark.optimize(graph, branch, master=master, progress=_tick)
        else:
            report = graph.optimize(branch, progress=_tick)
    if as_json:
        print_json(report.to_json())
        return
    if dry_run:
        _tell_plan(report)
        return
    for item in report.tables:
        if item.skipped is not None:
            click.echo(f"{item.table_key}: skipped, {item.skipped}")
        elif item.committed:
            click.echo(f"{item.table_key}: {_compacted(item)}indexes cover all rows")
    if report.commit is None:
        click.echo("nothing to do")


def _tell_plan(report: OptimizeReport) -> None:
    """Print what an optimize would do."""
    idle = True
    for item in report.tables:
        if item.skipped is not None:
            click.echo(f"{item.table_key}: would be skipped, {item.skipped}")
        if item.fragments_removed:
            idle = False
            fragments = counted(item.fragments_removed, "fragment")
            click.echo(f"{item.table_key}: {fragments} would become {item.fragments_added}")
        if item.pending_indexes:
            idle = False
            columns = ", ".join(str(index["column"]) for index in item.pending_indexes)
            click.echo(f"{item.table_key}: all rows would be indexed by {columns}")
    if idle:
        click.echo("nothing to do")


def _compacted(item: OptimizedTable) -> str:
    if not item.fragments_removed:
        return ""
    before = counted(item.fragments_removed, "fragment")
    return f"compacted {before} into {item.fragments_added}, "


@click.command()
@stored_argument
@branch_option
@click.option("--confirm", is_flag=True, help="Publish what provably changed no row.")
@click.option("--force", is_flag=True, help="With --confirm: publish everything found.")
@click.option("--discard", is_flag=True, help="With --confirm: go back to what is published.")
@quiet_option
@json_option
@click.pass_context
def repair(
    context: click.Context,
    place_given: GivenPlace,
    branch: str,
    confirm: bool,
    force: bool,
    discard: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Find tables that something other than OmniGraph moved. Shows them unless told to act."""
    place = place_given.resolve()
    echo_target("repair", place, quiet=quiet or not confirm)
    with open_stored(place) as graph:
        report = graph.repair(branch, confirm=confirm, force=force, discard=discard)
    if as_json:
        print_json(report.to_json())
    else:
        for item in report.tables:
            if item.action != "no_op":
                click.echo(
                    f"{item.table_key}: published {item.published_version}, newest "
                    f"{item.head_version}, {item.classification}: {item.action} "
                    f"({', '.join(item.operations)})"
                )
        if all(item.action == "no_op" for item in report.tables):
            click.echo("nothing to repair")
    if report.refused:
        context.exit(FAILURE)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)([smhdw]?)", text.strip())
    if match is None:
        raise BadRequestError(
            f"{text!r} is not a length of time", hint="a number with s, m, h, d or w, like 12h"
        )
    return float(int(match.group(1)) * _UNITS[match.group(2)])


@click.command()
@stored_argument
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Versions that stay.")
@click.option("--older-than", metavar="DUR", help="Only older ones go: 30s, 10m, 12h, 7d, 2w.")
@click.option("--confirm", is_flag=True, help="Remove; without it only show what would go.")
@click.option("--yes", is_flag=True, help="Do not ask before removing on an object store.")
@quiet_option
@json_option
def cleanup(
    place_given: GivenPlace,
    keep: int | None,
    older_than: str | None,
    confirm: bool,
    yes: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Remove old versions and the files only they used.

    Without --keep and --older-than the newest 100 versions of each branch stay, and all of the
    last seven days. What branches, tags and merges need stays, and so does what was current in
    the last ten minutes. Time travel ends at the oldest version kept.
    """
    place = place_given.resolve()
    if confirm:
        confirm_elsewhere("removing old versions", place, yes=yes, as_json=as_json)
    echo_target("cleanup", place, quiet=quiet or not confirm)
    with open_stored(place) as graph:
        report = graph.cleanup(
            keep=keep, older_than=_seconds(older_than), dry_run=not confirm, progress=_tick
        )
    if as_json:
        print_json(report.to_json())
        return
    word = "removed" if confirm else "would remove"
    for item in report.tables:
        if item.error is not None:
            click.echo(f"{item.table_key}: {item.error}")
        elif item.old_versions_removed or item.bytes_removed:
            click.echo(
                f"{item.table_key}: {word} {counted(item.old_versions_removed, 'version')}, "
                f"{counted(item.bytes_removed, 'byte')}"
            )
    versions = counted(report.versions, "version")
    click.echo(f"{word} {versions}, {counted(report.bytes, 'byte')} in all")
    if not confirm:
        click.echo("nothing was removed; repeat with --confirm", err=True)
