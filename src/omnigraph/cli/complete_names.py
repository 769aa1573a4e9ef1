"""Names a graph knows, for the completion of the shell people type commands into.

A completion that fails offers nothing: there is no place where it could tell why.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from omnigraph.errors import OmniGraphError

if TYPE_CHECKING:
    from omnigraph.graph import GraphApi


def branch_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the branches whose names begin so."""
    return _names(ctx, incomplete, lambda graph: graph.branches.list())


def type_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the node and edge types whose names begin so."""
    return _names(ctx, incomplete, lambda graph: [item.name for item in graph.catalog.entities()])


def _names(
    ctx: click.Context, incomplete: str, list_names: Callable[[GraphApi], Iterable[str]]
) -> list[str]:
    from omnigraph.cli.scope import open_reader, resolve_uri

    # Arguments before an option that has no value yet are left over, unnamed.
    arguments = [item.name for item in ctx.command.params if isinstance(item, click.Argument)]
    given = dict(zip(arguments, ctx.args, strict=False))
    given |= {name: value for name, value in ctx.params.items() if value is not None}
    places = [given.get(name) for name in ("uri", "store", "uri_option")]
    try:
        # Warnings would appear in the middle of the line that is being typed.
        with ctx.scope(cleanup=False), contextlib.redirect_stderr(io.StringIO()):
            place = resolve_uri(*places)
            with open_reader(os.path.expanduser(place)) as graph:
                return [name for name in list_names(graph) if name.startswith(incomplete)]
    except (OmniGraphError, click.ClickException, OSError):
        return []
