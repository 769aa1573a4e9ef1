"""`omnigraph diff`, `omnigraph changes ...`, and what a commit changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

import click

from omnigraph.cli.complete_names import type_names
from omnigraph.cli.scope import (
    GivenPlace,
    branch_option,
    graph_argument,
    json_option,
    open_graph,
    print_json,
)
from omnigraph.cli.value_text import property_types, value_text
from omnigraph.wording import counted, printable

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.graph.changes import ChangeBlock
    from omnigraph.ops.diff import EntityChange
    from omnigraph.values.words import ChangeOp, EntityKind

F = TypeVar("F", bound=Callable[..., object])
SIGNS = {"insert": "+", "update": "~", "delete": "-"}


def filter_options(command: F) -> F:
    """Add the options that narrow changes down."""
    command = click.option(
        "--kind", "kinds", multiple=True, type=click.Choice(["node", "edge"]), help="Only these."
    )(command)
    command = click.option(
        "--type", "types", multiple=True, help="Only these types.", shell_complete=type_names
    )(command)
    return click.option(
        "--op",
        "ops",
        multiple=True,
        type=click.Choice(["insert", "update", "delete"]),
        help="Only these operations.",
    )(command)


@click.command()
@click.argument("before")
@click.argument("after")
@graph_argument
@filter_options
@click.option("--stat", is_flag=True, help="Only count changes by type.")
@json_option
def diff(
    before: str,
    after: str,
    place_given: GivenPlace,
    kinds: tuple[EntityKind, ...],
    types: tuple[str, ...],
    ops: tuple[ChangeOp, ...],
    stat: bool,
    as_json: bool,
) -> None:
    """Show what turns one state into another.

    A state is a branch, tag, commit or how its id begins, a graph version, branch@version, a date,
    main@{5 minutes ago}; HEAD~2 and dev^ are parents.
    """
    place = place_given.resolve()
    with open_graph(place, mode="ro") as graph:
        differences = graph.diff(before, after, kinds=kinds, types=types, ops=ops)
        catalog = graph.catalog
    if as_json:
        print_json({"counts": differences.counts()} if stat else differences.to_json())
        return
    if stat:
        for name, counts in differences.counts().items():
            click.echo(f"{name}: +{counts['insert']} ~{counts['update']} -{counts['delete']}")
    else:
        show_changes(differences, catalog)
    if not len(differences):
        click.echo("(no differences)")


def show_changes(changes: Iterable[EntityChange], catalog: Catalog) -> None:
    """Print changes, one entity after the other."""
    for item in changes:
        types = property_types(catalog, item.type_name)
        head = f"{SIGNS[item.op]} {item.op} {item.kind} {item.type_name} {item.id}"
        click.echo(printable(head))
        ends = [_ends(image) for image in (item.before, item.after) if image is not None]
        if ends and ends[0]:
            click.echo(printable(f"    {' => '.join(dict.fromkeys(ends))}"))
        for name, (old, new) in item.changed_properties().items():
            if item.op == "update":
                shown = f"{value_text(old, types.get(name))} -> {value_text(new, types.get(name))}"
            else:
                shown = value_text(new if item.op == "insert" else old, types.get(name))
            click.echo(f"    {name}: {shown}")


def _ends(image: Mapping[str, object]) -> str:
    ends = image.get("endpoints")
    return f"{ends['from']} -> {ends['to']}" if isinstance(ends, dict) else ""


def first_line(message: str) -> str:
    """Return how a message begins, for a line of a list."""
    first, *more = message.strip().splitlines()
    return printable(first if not more else f"{first} …")


def show_block(block: ChangeBlock, catalog: Catalog) -> None:
    """Print a commit and what it changed."""
    commit = block.commit
    moment = commit.created_at.strftime("%Y-%m-%d %H:%M:%S")
    click.echo(
        f"commit {commit.graph_commit_id}  v{commit.manifest_version}  {moment}  "
        f"{commit.kind}  {commit.actor_id or '-'}"
    )
    for line in (commit.message or "").splitlines():
        click.echo(printable(f"    {line}"))
    show_changes(block.changes, catalog)
    if not block.changes:
        click.echo("(no entity changed)")


@click.group()
def changes() -> None:
    """Follow the changes of a branch, commit by commit."""


@changes.command("poll")
@graph_argument
@branch_option
@click.option("--cursor", help="Where the last poll ended.")
@click.option(
    "--start",
    metavar="now|beginning|after:ID",
    help="Where to begin without a cursor (now).",
)
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True)
@filter_options
@json_option
def poll(
    place_given: GivenPlace,
    branch: str,
    cursor: str | None,
    start: str | None,
    limit: int,
    kinds: tuple[EntityKind, ...],
    types: tuple[str, ...],
    ops: tuple[ChangeOp, ...],
    as_json: bool,
) -> None:
    """Show the commits since a cursor, and the cursor to go on from."""
    if cursor is not None and start is not None:
        raise click.UsageError("give --cursor or --start, not both")
    place = place_given.resolve()
    blocks: list[ChangeBlock] = []
    token: str | None = None
    with open_graph(place, mode="ro") as graph:
        while True:
            page = graph.feed.poll(
                start or "now",
                cursor=cursor,
                page_token=token,
                branch=branch,
                limit=limit,
                kinds=kinds,
                types=types,
                ops=ops,
            )
            blocks += page.blocks
            token = page.next_page_token
            if token is None:
                break
        catalog = graph.catalog
    if as_json:
        bodies = [block.to_json() for block in blocks]
        print_json({"blocks": bodies, "cursor": page.cursor, "caught_up": page.caught_up})
        return
    for block in blocks:
        show_block(block, catalog)
    if not blocks:
        click.echo("(no new commits)")
    click.echo(f"cursor: {page.cursor}")
    click.echo(f"caught_up: {str(page.caught_up).lower()}")


@changes.command("baseline")
@graph_argument
@branch_option
@filter_options
@click.option("--out", required=True, metavar="FILE", help="JSONL file to write.")
@json_option
def baseline(
    place_given: GivenPlace,
    branch: str,
    kinds: tuple[EntityKind, ...],
    types: tuple[str, ...],
    ops: tuple[ChangeOp, ...],
    out: str,
    as_json: bool,
) -> None:
    """Write a whole snapshot, and the cursor that follows it: for polls with the same filters."""
    place = place_given.resolve()
    with open_graph(place, mode="ro") as graph:
        snapshot = graph.feed.baseline(out, branch=branch, kinds=kinds, types=types, ops=ops)
    if as_json:
        print_json(snapshot.to_json())
        return
    click.echo(f"{out}: {counted(snapshot.entities, 'entity', 'entities')}")
    click.echo(f"snapshot_commit_id: {snapshot.snapshot_commit_id}")
    click.echo(f"resume_cursor: {snapshot.resume_cursor}")
