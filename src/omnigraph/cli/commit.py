"""`omnigraph commit ...`."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import click

from omnigraph.cli.scope import (
    branch_option,
    json_option,
    open_graph,
    print_json,
    resolve_uri,
    uri_argument,
)
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    from omnigraph.manifest import GraphCommit


@click.group()
def commit() -> None:
    """Look at the history of a graph."""


def _time(text: str | None, name: str) -> datetime.datetime | None:
    from omnigraph.catalog.temporal import parse_datetime

    if text is None:
        return None
    try:
        return parse_datetime(text)
    except ValueError as error:
        raise BadRequestError(f"{name}: {error}") from error


@commit.command("list")
@uri_argument
@branch_option
@click.option("--filter", "filters", multiple=True, metavar="actor=ID", help="Keep only these.")
@click.option("--since", metavar="TIME", help="Not older than this instant.")
@click.option("--until", metavar="TIME", help="Not newer than this instant.")
@click.option("--limit", type=click.IntRange(min=0), help="At most this many.")
@json_option
def list_commits(
    uri: str | None,
    store: str | None,
    uri_option: str | None,
    branch: str,
    filters: tuple[str, ...],
    since: str | None,
    until: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List commits, newest first."""
    actor: str | None = None
    for text in filters:
        name, separator, value = text.partition("=")
        if name != "actor" or not separator or not value:
            raise BadRequestError(f"unknown filter {text!r}", hint="the filter is actor=ID")
        actor = value
    place = resolve_uri(uri, store, uri_option)
    with open_graph(place, mode="ro") as graph:
        found = graph.commits.list(
            branch,
            actor=actor,
            since=_time(since, "--since"),
            until=_time(until, "--until"),
            limit=limit,
        )
    if as_json:
        print_json({"commits": [item.to_json() for item in found]})
        return
    for item in found:
        click.echo(_line(item))
    if not found:
        click.echo("(no commits)")


def _line(item: GraphCommit) -> str:
    moment = item.created_at.strftime("%Y-%m-%d %H:%M:%S")
    actor = item.actor_id or "-"
    return f"{item.graph_commit_id}  v{item.manifest_version:<6} {moment}  {item.kind:<9} {actor}"


@commit.command("show")
@click.argument("commit_id", metavar="ID")
@uri_argument
@json_option
def show(
    commit_id: str,
    uri: str | None,
    store: str | None,
    uri_option: str | None,
    as_json: bool,
) -> None:
    """Show one commit."""
    place = resolve_uri(uri, store, uri_option)
    with open_graph(place, mode="ro") as graph:
        found = graph.commits.get(commit_id)
        before = graph.snapshot(version=max(found.manifest_version - 1, 1))
        after = graph.snapshot(version=found.manifest_version)
    if as_json:
        print_json(found.to_json())
        return
    for name, value in found.to_json().items():
        if not name.startswith("graph_") or name == "graph_commit_id":
            click.echo(f"{name}: {value}")
    click.echo(f"time: {found.created_at.isoformat()}")
    for key, pin in after.tables.items():
        old = before.tables.get(key)
        if old is None or old.version != pin.version:
            rows = pin.row_count - (old.row_count if old else 0)
            click.echo(f"  {key}: {rows:+d} rows (version {pin.version})")
