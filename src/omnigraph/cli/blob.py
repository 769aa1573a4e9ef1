"""`omnigraph blob`: reads single blobs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

import click

from omnigraph.cli.complete_names import branch_names
from omnigraph.cli.files import writing
from omnigraph.cli.scope import (
    GivenPlace,
    at_option,
    graph_argument,
    json_option,
    one_state,
    open_graph,
    print_json,
)

_CHUNK_BYTES = 1 << 20

if TYPE_CHECKING:
    from omnigraph.values.words import EntityKind


@click.group()
def blob() -> None:
    """Read blobs without reading their table."""


def _selector(command: Callable[..., None]) -> Callable[..., None]:
    command = click.option("--snapshot", metavar="COMMIT", help="Read at this commit.")(command)
    command = at_option(command)
    command = click.option("--branch", help="Branch (main).", shell_complete=branch_names)(command)
    command = graph_argument(command)
    command = click.argument("prop", metavar="PROPERTY")(command)
    command = click.argument("entity_id", metavar="ID")(command)
    command = click.argument("type_name", metavar="TYPE")(command)
    return click.argument("entity", type=click.Choice(["node", "edge"]), metavar="node|edge")(
        command
    )


@blob.command()
@_selector
@json_option
def stat(
    entity: EntityKind,
    type_name: str,
    entity_id: str,
    prop: str,
    place_given: GivenPlace,
    branch: str | None,
    at_state: str | None,
    snapshot: str | None,
    as_json: bool,
) -> None:
    """Describe a blob: its size, or the address of an external one."""
    one_state(at=at_state, snapshot=snapshot)
    snapshot = at_state or snapshot
    with open_graph(place_given.resolve(), mode="ro") as graph:
        info = graph.blobs.stat(entity, type_name, entity_id, prop, branch=branch, commit=snapshot)
    if as_json:
        print_json(info.to_json())
        return
    lines = {"kind": info.kind, "size": info.size, "etag": info.etag, "uri": info.uri}
    for name, value in {**lines, "snapshot": info.resolved_snapshot}.items():
        if value is not None:
            click.echo(f"{name}: {value}")


@blob.command()
@_selector
@click.option("--offset", type=click.IntRange(min=0), help="First byte (0).")
@click.option("--length", type=click.IntRange(min=1), help="Number of bytes (to the end).")
@click.option("--out", metavar="FILE", help="Write to a file instead of standard output.")
def get(
    entity: EntityKind,
    type_name: str,
    entity_id: str,
    prop: str,
    place_given: GivenPlace,
    branch: str | None,
    at_state: str | None,
    snapshot: str | None,
    offset: int | None,
    length: int | None,
    out: str | None,
) -> None:
    """Write the bytes of a blob, or of a part of it."""
    from omnigraph.graph import blob_range

    one_state(at=at_state, snapshot=snapshot)
    snapshot = at_state or snapshot
    with open_graph(place_given.resolve(), mode="ro") as graph:
        selector = (entity, type_name, entity_id, prop)
        info = graph.blobs.stat(*selector, branch=branch, commit=snapshot)
        # The stat's commit, so that both calls see the same value.
        source = graph.blobs.open(*selector, commit=info.resolved_snapshot)
        with source:
            start, end = blob_range(info.size or 0, offset=offset, length=length)
            source.seek(start)
            first = source.read(min(_CHUNK_BYTES, end - start))
            # Whatever could fail has been tried: from here on a file may be replaced.
            if out is None:
                _copy(source, sys.stdout.buffer, first, end - start)
                return
            with writing(out), open(out, "wb") as target:
                _copy(source, target, first, end - start)


def _copy(source: BinaryIO, target: BinaryIO, first: bytes, size: int) -> None:
    target.write(first)
    left = size - len(first)
    while left > 0 and (chunk := source.read(min(_CHUNK_BYTES, left))):
        target.write(chunk)
        left -= len(chunk)
