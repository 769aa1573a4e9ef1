"""Options that graph commands share, and how they find their graph."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    from omnigraph.graph import Graph

F = TypeVar("F", bound=Callable[..., Any])


def uri_argument(command: F) -> F:
    """Add the graph's place, as an argument or as `--store` / `--uri`."""
    command = click.argument("uri", required=False)(command)
    command = click.option("--store", help="Where the graph lives (same as URI).")(command)
    return click.option("--uri", "uri_option", hidden=True)(command)


def json_option(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def actor_option(command: F) -> F:
    """Add `--as`."""
    return click.option("--as", "actor", metavar="ACTOR", help="Who the commit is by.")(command)


def branch_option(command: F) -> F:
    """Add `--branch`."""
    return click.option("--branch", default="main", show_default=True, help="Branch.")(command)


def write_options(command: F) -> F:
    """Add the options of every write."""
    command = click.option(
        "--if-commit", metavar="ID", help="Only if this commit is the branch's head (else exit 4)."
    )(command)
    command = click.option(
        "--operation-id",
        metavar="ID",
        help="Your id for this write; repeating it returns the first outcome.",
    )(command)
    return click.option("--quiet", is_flag=True, help="Do not echo the write target.")(command)


def resolve_uri(uri: str | None, store: str | None, uri_option: str | None) -> str:
    """Return the one place that was named. Raises for none, several, or a server."""
    named = [value for value in (uri, store, uri_option) if value]
    if not named:
        raise click.UsageError("name a graph: give its path, or --store PATH")
    if len(named) > 1:
        raise click.UsageError("name the graph once: a path, or --store")
    if named[0].startswith(("http://", "https://")):
        raise BadRequestError(f"{named[0]} names a server; this command needs a path")
    return named[0]


def open_graph(uri: str, *, mode: str = "rw", actor: str | None = None) -> Graph:
    """Open a graph for a command; what it is not told follows the environment."""
    import omnigraph as og
    from omnigraph.embed import embedder_from

    return og.open(
        uri,
        mode="ro" if mode == "ro" else "rw",
        actor=actor or os.environ.get("OMNIGRAPH_ACTOR") or None,
        durability=durability_setting(),
        embedder=embedder_from(os.environ),
        policy=os.environ.get("OMNIGRAPH_POLICY") or None,
    )


def refuse_managed(uri: str) -> None:
    """Refuse to change what a cluster says about a graph past the cluster."""
    root = os.path.dirname(os.path.dirname(os.path.realpath(uri.removeprefix("file://"))))
    if os.path.isfile(os.path.join(root, "__cluster", "state.json")):
        raise BadRequestError(
            f"{uri} belongs to a cluster", hint="edit its files and run `omnigraph cluster apply`"
        )


def durability_setting() -> str:
    """Return the durability the environment asks for."""
    durability = os.environ.get("OMNIGRAPH_DURABILITY", "full")
    if durability not in ("full", "none"):
        raise BadRequestError(f"OMNIGRAPH_DURABILITY must be full or none, not {durability!r}")
    return durability


def echo_target(verb: str, uri: str, *, quiet: bool) -> None:
    """Tell on stderr what is about to be written to."""
    if not quiet:
        click.echo(f"omnigraph {verb} -> {uri} (direct, local)", err=True)


def print_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def read_params(params: str | None, params_file: str | None) -> dict[str, object]:
    """Return the parameters given as JSON text or in a file."""
    from omnigraph.cli.files import read_text

    if params is not None and params_file is not None:
        raise click.UsageError("give --params or --params-file, not both")
    text = params if params is not None else read_text(params_file) if params_file else "{}"
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadRequestError(f"the parameters are not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadRequestError("the parameters must be a JSON object")
    return found
