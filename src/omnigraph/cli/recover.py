"""`omnigraph recover`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.scope import GivenPlace, json_option, open_stored, print_json, stored_argument

if TYPE_CHECKING:
    from omnigraph.commits import PendingWrite, RecoveryRecord


@click.command()
@stored_argument
@click.option("--list", "only_list", is_flag=True, help="Change nothing; show what there is.")
@json_option
def recover(place_given: GivenPlace, only_list: bool, as_json: bool) -> None:
    """Resolve interrupted writes and show the record of recoveries.

    Opening a graph for writing does the same; this command only shows it. A write that is
    still under way in a living process is listed and left alone.
    """
    place = place_given.resolve()
    with open_stored(place, mode="ro" if only_list else "rw") as graph:
        resolved = [str(verdict) for verdict in graph.maintenance.recovered]
        pending = graph.maintenance.pending_writes()
        records = graph.maintenance.recoveries()
    if as_json:
        print_json(
            {
                "resolved": resolved,
                "pending": [item.to_json() for item in pending],
                "recoveries": [item.to_json() for item in records],
            }
        )
        return
    if not only_list:
        click.echo(f"resolved now: {', '.join(resolved) if resolved else 'nothing to resolve'}")
    for item in pending:
        click.echo(_pending_line(item))
    if not pending:
        click.echo("pending: none")
    click.echo(f"recoveries: {len(records)}")
    for record in records:
        click.echo(_record_line(record))


def _pending_line(item: PendingWrite) -> str:
    state = "under way" if item.alive else "interrupted"
    what = item.writer_kind or "unreadable"
    tables = ", ".join(item.tables) or "no tables yet"
    name = item.operation_id or item.slot
    return f"pending: {what} by {item.actor_id or '-'}, {state}, {tables} ({name})"


def _record_line(item: RecoveryRecord) -> str:
    moment = item.created_at.strftime("%Y-%m-%d %H:%M:%S")
    tables = ", ".join(
        f"{table.table_key} {table.from_version} -> {table.to_version}" for table in item.tables
    )
    actor = item.recovery_for_actor or "-"
    kind = str(item.recovery_kind)
    return f"  {moment}  {kind:<13} {item.writer_kind:<8} {actor}  {tables}  {item.operation_id}"
