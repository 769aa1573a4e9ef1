"""Options that graph commands share, and how they find their graph."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from omnigraph.cli.complete_names import branch_names
from omnigraph.cli.helper import warm_graph
from omnigraph.cli.operator import load_operator
from omnigraph.cli.places import (
    find_place,
    is_local,
    is_served,
    named_scope,
    note_scope,
    split_served,
)
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    from omnigraph.graph import Graph, GraphApi
    from omnigraph.remote import RemoteGraph
    from omnigraph.values.words import DurabilityWord

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")


class GivenPlace(NamedTuple):
    """Where a graph is, as a command line says it: by an argument, or by an option."""

    uri: str | None
    store: str | None
    uri_option: str | None

    def resolve(self) -> str:
        """Return the one place that was named, or configured. Raises for none and for several."""
        return resolve_uri(*self)


def uri_argument(command: Callable[..., T]) -> Callable[..., T]:
    """Add the graph's place on storage, as an argument or as `--store` / `--uri`.

    The command gets what was given as `place_given`.
    """

    @functools.wraps(command)
    def run(
        *arguments: object,
        uri: str | None,
        store: str | None,
        uri_option: str | None,
        **options: object,
    ) -> T:
        given = GivenPlace(uri, store, uri_option)
        return command(*arguments, place_given=given, **options)

    run = click.argument("uri", required=False)(run)
    run = click.option("--store", help="Location of the graph (same as URI).")(run)
    return click.option("--uri", "uri_option", hidden=True)(profile_option(run))


def stored_argument(command: Callable[..., T]) -> Callable[..., T]:
    """Add the graph's place for maintenance: on storage, or as a graph of a cluster."""
    return cluster_options(uri_argument(command))


def cluster_options(command: F) -> F:
    """Add which graph of which cluster is meant; `find_place` and `find_cluster` see it."""
    command = click.option(
        "--graph",
        metavar="ID",
        help="Graph of the cluster, if there are several.",
        expose_value=False,
        callback=note_scope,
    )(command)
    return click.option(
        "--cluster",
        metavar="DIR|URI|NAME",
        help="A cluster, as it was applied.",
        expose_value=False,
        callback=note_scope,
    )(command)


def graph_argument(command: Callable[..., T]) -> Callable[..., T]:
    """Add the graph's place, on storage or on a server."""
    return served_options(uri_argument(command))


def served_options(command: F) -> F:
    """Add where a served graph is. The command itself does not see these: `resolve_uri` does."""
    command = click.option(
        "--graph",
        metavar="ID",
        help="Graph of the server.",
        expose_value=False,
        callback=note_scope,
    )(command)
    return server_option(command)


def server_option(command: F) -> F:
    """Add `--server`."""
    return click.option(
        "--server",
        metavar="NAME|URL",
        help="Use a served graph: a configured name, or an address.",
        expose_value=False,
        callback=note_scope,
    )(command)


def store_options(command: F) -> F:
    """Add the graph's place for commands whose arguments mean something else."""
    command = click.option("--store", help="Location of the graph.")(command)
    return served_options(profile_option(command))


def profile_option(command: F) -> F:
    """Add `--profile`."""
    return click.option(
        "--profile",
        metavar="NAME",
        help="Use the graph of a configured profile.",
        expose_value=False,
        callback=note_scope,
    )(command)


def json_option(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def actor_option(command: F) -> F:
    """Add `--as`."""
    return click.option("--as", "actor", metavar="ACTOR", help="Actor of the commit.")(command)


def quiet_option(command: F) -> F:
    """Add `--quiet`."""
    return click.option("--quiet", is_flag=True, help="Do not echo the write target.")(command)


def branch_option(command: F) -> F:
    """Add `--branch`."""
    return click.option(
        "--branch", default="main", show_default=True, help="Branch.", shell_complete=branch_names
    )(command)


def engine_options(command: F) -> F:
    """Add `--engine` and `--master`, for work that Spark can do."""
    command = click.option(
        "--engine",
        type=click.Choice(["local", "spark"]),
        default="local",
        show_default=True,
        help="Where the work is done: in this process, or by workers on Spark.",
    )(command)
    return click.option("--master", metavar="URL", help="Spark master, such as local[4,4].")(
        command
    )


def is_spark(engine: str, master: str | None, place: str) -> bool:
    """Whether Spark is meant. Refuses what would leave it unused."""
    if engine != "spark" and master is not None:
        raise click.UsageError("--master needs --engine spark")
    if engine == "spark" and is_served(place):
        raise BadRequestError("a server has no Spark", hint="run it where the graph is stored")
    return engine == "spark"


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
    return quiet_option(message_option(command))


def message_option(command: F) -> F:
    """Add `-m`."""
    return click.option("-m", "--message", metavar="TEXT", help="Message of the commit.")(command)


def at_option(command: F) -> F:
    """Add `--at`, which names a state as people write it."""
    return click.option(
        "--at", "at_state", metavar="REV", help="State: HEAD~1, a tag, a commit, main@{yesterday}."
    )(command)


def one_state(**given: object) -> None:
    """Refuse when several flags name a state."""
    named = [f"--{name}" for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise click.UsageError(f"{' and '.join(named)} name a state each: give one")


def resolve_uri(uri: str | None, store: str | None, uri_option: str | None) -> str:
    """Return the one place that was named, or configured. Raises for none and for several."""
    if "" in (uri, store, uri_option):
        raise click.UsageError("the graph's path is empty; is a variable of your shell not set?")
    return find_place([value for value in (uri, store, uri_option) if value])


def query_and_place(name: str | None, uri: str | None, store: str | None) -> tuple[str | None, str]:
    """Return which query `[NAME] [URI]` mean, and the place of the graph.

    One argument alone is the graph if it cannot be the name of a query, or if a graph is in a
    folder of this name and no other graph is named.
    """
    if uri is None and store is None and name is not None and _is_place(name):
        name, uri = None, name
    return name, resolve_uri(uri, store, None)


def _is_place(text: str) -> bool:
    if not text.isidentifier():
        return True
    scope = named_scope()
    named = scope.server or scope.cluster or scope.profile or os.environ.get("OMNIGRAPH_STORE")
    return not named and os.path.isdir(os.path.join(text, "__manifest"))


def open_graph(place: str, *, mode: str = "rw", actor: str | None = None) -> GraphApi:
    """Open a graph for a command, on storage or on a server, where the token decides who acts."""
    if is_served(place):
        return open_served(place, actor=actor)
    return open_stored(place, mode=mode, actor=actor)


def open_reader(place: str) -> GraphApi:
    """Open a graph for a command that only reads: with a helper, if one has it open already."""
    if not is_served(place):
        graph = warm_graph(place, os.environ)
        if graph is not None:
            return graph
    return open_graph(place, mode="ro")


def open_stored(place: str, *, mode: str = "rw", actor: str | None = None) -> Graph:
    """Open a graph on storage.

    Durability, embedder and policy follow the environment, and the actor is the configured one
    when none is named.
    """
    import omnigraph as og
    from omnigraph.embed import embedder_from

    policy = os.environ.get("OMNIGRAPH_POLICY") or None
    if actor is None:
        actor = os.environ.get("OMNIGRAPH_ACTOR") or None
    if actor is None and (mode != "ro" or policy is not None):
        actor = load_operator(os.environ).actor
    return og.open(
        place,
        mode="ro" if mode == "ro" else "rw",
        actor=actor,
        durability=durability_setting(),
        embedder=embedder_from(os.environ),
        policy=policy,
    )


def open_served(place: str, *, actor: str | None = None) -> RemoteGraph:
    """Connect to a served graph with the token that is configured for its server."""
    if actor is not None:
        raise BadRequestError("--as is for graphs on storage; a token decides who acts")
    from omnigraph.limits import CLIENT_TIMEOUT_S
    from omnigraph.remote import RemoteGraph
    from omnigraph.remote.connection import Connection

    url, graph = split_served(place)
    operator = load_operator(os.environ)
    connection = Connection(
        url,
        graph=graph,
        token=operator.token_for(url),
        timeout=CLIENT_TIMEOUT_S,
        login_hint=operator.login_hint(url),
    )
    return RemoteGraph.over(connection)


def refuse_managed(uri: str) -> None:
    """Refuse to change what a cluster says about a graph past the cluster."""
    if is_served(uri):
        return
    from omnigraph.store import locate

    root = locate(uri).root.rsplit("/", 2)[0]
    # A cluster has a prefix of its own: a whole bucket is none.
    is_place = is_local(uri) or root.count("/") > 2
    if is_place and locate(root).files.exists(f"{root}/__cluster/state.json"):
        raise BadRequestError(
            f"{uri} belongs to a cluster", hint="edit its files and run `omnigraph cluster apply`"
        )


def durability_setting() -> DurabilityWord:
    """Return the durability the environment asks for."""
    durability = os.environ.get("OMNIGRAPH_DURABILITY", "full")
    if durability not in ("full", "none"):
        raise BadRequestError(f"OMNIGRAPH_DURABILITY must be full or none, not {durability!r}")
    return "full" if durability == "full" else "none"


def echo_target(verb: str, uri: str, *, quiet: bool) -> None:
    """Tell on stderr what is about to be written to."""
    if not quiet:
        how = f"direct, {'local' if is_local(uri) else 'remote'}"
        how = "served" if is_served(uri) else how
        click.echo(f"omnigraph {verb} -> {uri} ({how})", err=True)


def confirm_elsewhere(what: str, place: str, *, yes: bool, as_json: bool) -> None:
    """Ask before something is destroyed that is not on this machine."""
    if yes or is_local(place):
        return
    if as_json or not sys.stdin.isatty():
        raise BadRequestError(f"{what} of {place} needs consent", hint="pass --yes")
    click.confirm(f"{what} of {place}?", abort=True)


def print_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def params_options(command: F) -> F:
    """Add how parameters are given: one by one, as a JSON object, or in a file."""
    command = click.option(
        "--params-file", metavar="FILE", help="Parameters in a JSON file (or -)."
    )(command)
    command = click.option("--params", metavar="JSON", help="Parameters as a JSON object.")(command)
    return click.option(
        "--param",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="One parameter: JSON where it is JSON, else text (repeatable).",
    )(command)


def literal(text: str) -> object:
    """Return a value typed on the command line: JSON where it is JSON, else text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def read_params(
    params: str | None, params_file: str | None, pairs: Sequence[str] = ()
) -> dict[str, object]:
    """Return the parameters given one by one, as JSON text, or in a file."""
    values = _params_object(params, params_file)
    for pair in pairs:
        name, separator, text = pair.partition("=")
        name = name.removeprefix("$")
        if not separator or not name:
            raise click.UsageError(f"--param {pair!r} is not NAME=VALUE")
        if name in values:
            raise click.UsageError(f"the parameter '{name}' is given twice")
        values[name] = literal(text)
    return values


def _params_object(params: str | None, params_file: str | None) -> dict[str, object]:
    from omnigraph.cli.files import read_text

    if params is not None and params_file is not None:
        raise click.UsageError("give --params or --params-file, not both")
    text = params if params is not None else read_text(params_file) if params_file else "{}"
    try:
        values = json.loads(text)
    except ValueError as error:
        is_file = text.startswith("@") or os.path.isfile(text)
        raise BadRequestError(
            f"the parameters are not valid JSON: {error}",
            hint="for a file, use --params-file"
            if params is not None and is_file
            else "--param NAME=VALUE needs no quoting of JSON",
        ) from error
    if not isinstance(values, dict):
        raise BadRequestError("the parameters must be a JSON object")
    return values
