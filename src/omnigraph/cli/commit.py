"""`omnigraph commit ...`."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import click

from omnigraph.cli.changes import filter_options, first_line, show_block
from omnigraph.cli.complete_names import type_names
from omnigraph.cli.scope import (
    GivenPlace,
    actor_option,
    branch_option,
    graph_argument,
    json_option,
    message_option,
    open_graph,
    print_json,
)
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.wording import printable

if TYPE_CHECKING:
    from omnigraph.commits import GraphCommit
    from omnigraph.values.words import ChangeOp, EntityKind, SideWord


@click.group()
def commit() -> None:
    """Look at the history of a graph."""


def _time(text: str | None, name: str) -> datetime.datetime | None:
    if text is None:
        return None
    from omnigraph.catalog.temporal import parse_datetime

    try:
        return parse_datetime(text)
    except ValueError as error:
        raise BadRequestError(f"{name}: {error}") from error


@commit.command("list")
@graph_argument
@branch_option
@click.option("--filter", "filters", multiple=True, metavar="actor=ID", help="Keep only these.")
@click.option("--since", metavar="TIME", help="Not older than this instant.")
@click.option("--until", metavar="TIME", help="Not newer than this instant.")
@click.option("--limit", type=click.IntRange(min=0), help="At most this many.")
@click.option("--draw", "drawn", is_flag=True, help="Draw how branches parted and merged.")
@json_option
def list_commits(
    place_given: GivenPlace,
    branch: str,
    filters: tuple[str, ...],
    since: str | None,
    until: str | None,
    limit: int | None,
    drawn: bool,
    as_json: bool,
) -> None:
    """List commits, newest first; with --draw those of every branch."""
    actor: str | None = None
    for text in filters:
        name, separator, value = text.partition("=")
        if name != "actor" or not separator or not value:
            raise BadRequestError(f"unknown filter {text!r}", hint="the filter is actor=ID")
        actor = value
    place = place_given.resolve()
    if drawn and not as_json:
        _draw(place, limit)
        return
    with open_graph(place, mode="ro") as graph:
        commits = graph.commits.list(
            branch,
            actor=actor,
            since=_time(since, "--since"),
            until=_time(until, "--until"),
            limit=limit,
        )
    if as_json:
        print_json({"commits": [item.to_json() for item in commits]})
        return
    for item in commits:
        click.echo(commit_line(item))
    if not commits:
        click.echo("(no commits)")


def commit_line(item: GraphCommit) -> str:
    """Return a commit on one line."""
    moment = item.created_at.strftime("%Y-%m-%d %H:%M:%S")
    actor = item.actor_id or "-"
    branch = f"  [{item.branch}]" if item.branch is not None else ""
    said = f"  {first_line(item.message)}" if item.message else ""
    return (
        f"{item.graph_commit_id}  v{item.manifest_version:<6} {moment}  {item.kind:<9} "
        f"{actor}{branch}{said}"
    )


def _draw(place: str, limit: int | None) -> None:
    from omnigraph.cli.history_drawing import draw

    with open_graph(place, mode="ro") as graph:
        heads = {name: graph.commits.head(name) for name in graph.branches.list()}
        known = {c.graph_commit_id: c for name in heads for c in graph.commits.list(name)}
    names: dict[str, list[str]] = {}
    for name, head in heads.items():
        names.setdefault(head.graph_commit_id, []).append(name)
    for number, (prefix, commit) in enumerate(draw(known)):
        if limit is not None and number >= limit:
            break
        marks = (
            f"  <- {', '.join(names[commit.graph_commit_id])}"
            if commit.graph_commit_id in names
            else ""
        )
        click.echo(f"{prefix}  {commit_line(commit)}{marks}")


@commit.command("changes")
@click.argument("commit_id", metavar="ID")
@graph_argument
@filter_options
@click.option("--limit", type=click.IntRange(min=1), help="At most this many changes.")
@click.option("--page-token", metavar="TOKEN", help="Go on where an answer with --limit ended.")
@json_option
def changes(
    commit_id: str,
    place_given: GivenPlace,
    kinds: tuple[EntityKind, ...],
    types: tuple[str, ...],
    ops: tuple[ChangeOp, ...],
    limit: int | None,
    page_token: str | None,
    as_json: bool,
) -> None:
    """Show what a commit changed, with the values before and after."""
    place = place_given.resolve()
    with open_graph(place, mode="ro") as graph:
        block = graph.commits.changes(commit_id, kinds=kinds, types=types, ops=ops)
        catalog = graph.catalog
    block, token = block.page(limit=limit, page_token=page_token)
    if as_json:
        print_json(block.to_json() | token)
        return
    show_block(block, catalog)
    for name, value in token.items():
        click.echo(f"{name}: {value}")


@commit.command("blame")
@click.argument("type_name", metavar="TYPE", shell_complete=type_names)
@click.argument("entity_id", metavar="ID")
@graph_argument
@branch_option
@json_option
def blame(
    type_name: str, entity_id: str, place_given: GivenPlace, branch: str, as_json: bool
) -> None:
    """Show which commit last changed an entity."""
    place = place_given.resolve()
    with open_graph(place, mode="ro") as graph:
        last_commit = graph.commits.last_change(type_name, entity_id, branch)
    if last_commit is None:
        raise NotFoundError(f"{type_name} '{entity_id}' never existed on branch '{branch}'")
    print_json(last_commit.to_json()) if as_json else click.echo(commit_line(last_commit))


def _apply_command(name: str, text: str) -> None:
    @commit.command(name, help=text)
    @click.argument("commit_id", metavar="ID")
    @graph_argument
    @branch_option
    @click.option("--resolve", type=click.Choice(["ours", "theirs"]), help="Decide conflicts.")
    @actor_option
    @click.option("--operation-id", metavar="ID", help="Your id for this write.")
    @message_option
    @json_option
    def command(
        commit_id: str,
        place_given: GivenPlace,
        branch: str,
        resolve: SideWord | None,
        actor: str | None,
        operation_id: str | None,
        message: str | None,
        as_json: bool,
    ) -> None:
        place = place_given.resolve()
        with open_graph(place, actor=actor) as graph:
            apply = graph.branches.revert if name == "revert" else graph.branches.cherry_pick
            made = apply(
                commit_id, branch, resolve=resolve, operation_id=operation_id, message=message
            )
        if as_json:
            print_json({"commit": None if made is None else made.to_json()})
        else:
            click.echo("nothing to change" if made is None else f"commit {made.graph_commit_id}")


_apply_command("revert", "Undo one commit in a new one.")
_apply_command("pick", "Make the changes of one commit on another branch.")


@commit.command("show")
@click.argument("commit_id", metavar="ID")
@graph_argument
@json_option
def show(commit_id: str, place_given: GivenPlace, as_json: bool) -> None:
    """Show one commit."""
    place = place_given.resolve()
    with open_graph(place, mode="ro") as graph:
        graph_commit = graph.commits.get(commit_id)
        after = graph.snapshot(commit=commit_id)
        parent = graph_commit.parent_commit_id
        before = {} if parent is None else graph.snapshot(commit=parent).tables
    if as_json:
        print_json(graph_commit.to_json())
        return
    for name, value in graph_commit.to_json().items():
        if value is not None and (not name.startswith("graph_") or name == "graph_commit_id"):
            click.echo(printable(f"{name}: {value}"))
    click.echo(f"time: {graph_commit.created_at.isoformat()}")
    for key, pin in after.tables.items():
        old = before.get(key)
        if old is None or old.version != pin.version:
            rows = pin.row_count - (old.row_count if old else 0)
            noun = "row" if abs(rows) == 1 else "rows"
            click.echo(f"  {key}: {rows:+d} {noun} (version {pin.version})")
