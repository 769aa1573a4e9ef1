"""Finds the graph a command means: what was named, a profile, or the defaults."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import quote

import click
from msgspec import Struct

from omnigraph.cli.operator import Operator, load_operator
from omnigraph.errors import BadRequestError, OmniGraphError

if TYPE_CHECKING:
    from omnigraph.cluster import ServedGraph

SERVED = "/graphs/"
_META = "omnigraph.scope"


class Named(Struct, frozen=True, kw_only=True):
    """What the flags name.

    `served` says whether the command works over HTTP, `clustered` whether it takes a cluster.
    """

    server: str | None = None
    cluster: str | None = None
    graph: str | None = None
    profile: str | None = None
    served: bool = False
    clustered: bool = False


def note_scope(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Keep a scope flag for `find_place`; it is no argument of the command itself."""
    ctx.meta.setdefault(_META, {})[param.name] = value


def named_scope() -> Named:
    """Return the scope flags of the running command."""
    ctx = click.get_current_context(silent=True)
    flags = {} if ctx is None else ctx.meta.get(_META, {})
    named = {str(k): v for k, v in flags.items()}
    return Named(**named, served="server" in flags, clustered="cluster" in flags)


def is_served(place: str) -> bool:
    """Whether a place is an address of a server."""
    return place.startswith(("http://", "https://"))


def is_local(place: str) -> bool:
    """Whether a place is a folder of this machine."""
    return "://" not in place or place.startswith("file://")


def find_place(paths: list[str]) -> str:
    """Return where the one graph is that was named: a path, or an address.

    Raises for none, several, and for what the command cannot use.
    """
    scope = named_scope()
    explicit = [*paths, *(name for name in (scope.server, scope.cluster) if name)]
    if len(explicit) > 1:
        raise click.UsageError("name the graph once: a path, --store, --server or --cluster")
    if paths:
        if is_served(paths[0]):
            raise BadRequestError(f"{paths[0]} names a server", hint=f"use --server {paths[0]}")
        if scope.graph is not None:
            raise click.UsageError("--graph picks among several; a path is one graph already")
        return paths[0]
    operator = _configuration()
    if scope.server is not None:
        return _served(operator, scope.server, scope.graph)
    if scope.cluster is not None:
        return cluster_graph(operator.cluster_place(scope.cluster), scope.graph).uri
    return _configured(operator, scope)


def _configuration() -> Operator:
    operator = load_operator(os.environ)
    for warning in operator.warnings:
        click.echo(f"warning: {warning}", err=True)
    return operator


def find_cluster() -> str:
    """Return the cluster that was named, by a flag or a profile. Raises when none was."""
    scope, operator = named_scope(), _configuration()
    if scope.cluster is not None:
        return operator.cluster_place(scope.cluster)
    profile = scope.profile or operator.env.get("OMNIGRAPH_PROFILE")
    if profile:
        kind, value = operator.profile(profile)
        if kind == "cluster":
            return operator.cluster_place(value)
    server = ", or a server: --server NAME|URL" if scope.served else ""
    raise click.UsageError(f"name a cluster: --cluster DIR{server}")


def find_server() -> str | None:
    """Return the address of the served graph that was named, by a flag or a profile, if one was."""
    scope = named_scope()
    if scope.server is not None and scope.cluster is not None:
        raise click.UsageError("name a server or a cluster")
    if scope.server is not None:
        return find_place([])
    operator = _configuration()
    profile = scope.profile or operator.env.get("OMNIGRAPH_PROFILE")
    if scope.cluster is not None or not profile:
        return None
    return _configured(operator, scope) if operator.profile(profile)[0] == "server" else None


def cluster_graph(place: str, graph: str | None) -> ServedGraph:
    """Return the graph of a cluster that is meant; a sole one needs no name."""
    from omnigraph.cluster import read_cluster
    from omnigraph.errors import NotFoundError

    graphs = read_cluster(place).graphs
    if graph is not None and graph in graphs:
        return graphs[graph]
    names = ", ".join(graphs) or "none"
    if graph is not None:
        raise NotFoundError(f"the cluster has no graph '{graph}'", hint=f"it has {names}")
    if len(graphs) != 1:
        raise BadRequestError("name a graph with --graph", hint=f"the cluster has {names}")
    return next(iter(graphs.values()))


def _configured(operator: Operator, scope: Named) -> str:
    """Return the place a profile or the defaults name."""
    profile = scope.profile or operator.env.get("OMNIGRAPH_PROFILE")
    graph: object = None
    if store := None if scope.profile else operator.env.get("OMNIGRAPH_STORE"):
        kind, value = ("server" if is_served(store) else "store"), store
    elif profile:
        kind, value = operator.profile(profile)
        graph = operator.profiles[profile].get("default_graph")
    elif "server" in operator.defaults:
        kind, value = "server", str(operator.defaults["server"])
        graph = operator.defaults.get("default_graph")
    elif "store" in operator.defaults:
        kind, value = "store", str(operator.defaults["store"])
    elif os.path.isdir("__manifest"):
        kind, value = "store", "."
    else:
        raise click.UsageError(
            "name a graph: give its path, --store PATH or --server NAME, set OMNIGRAPH_STORE, or "
            "go into its folder"
        )
    if kind == "cluster" and not scope.clustered:
        raise BadRequestError("a cluster is served, not opened", hint="use a server or a store")
    if kind == "cluster":
        named = scope.graph or (None if graph is None else str(graph))
        return cluster_graph(operator.cluster_place(value), named).uri
    if kind == "store":
        if scope.graph is not None:
            raise click.UsageError("--graph needs a server; a store is one graph already")
        return value.removeprefix("file://")
    if not scope.served:
        raise BadRequestError("this command works on storage", hint="give the graph's path")
    return _served(operator, value, scope.graph or (None if graph is None else str(graph)))


def _served(operator: Operator, server: str, graph: str | None) -> str:
    url = operator.server_url(server)
    if graph is None:
        graph = _only_graph(url, operator.token_for(url))
    return url if graph is None else f"{url}{SERVED}{quote(graph, safe='')}"


def _only_graph(url: str, token: str | None) -> str | None:
    """Return the graph of a server that has one; None where it does not tell."""
    from omnigraph.remote.connection import Connection

    connection = Connection(url, graph=None, token=token, timeout=10.0)
    try:
        graph_ids = [str(item["graph_id"]) for item in connection.get("/graphs")["graphs"]]
    except (OmniGraphError, KeyError):
        return None
    finally:
        connection.close()
    if len(graph_ids) == 1:
        return graph_ids[0]
    names = ", ".join(graph_ids) or "none"
    raise BadRequestError(f"{url} serves several graphs", hint=f"name one with --graph: {names}")


def split_served(place: str) -> tuple[str, str | None]:
    """Return the server and the graph of an address."""
    from urllib.parse import unquote

    url, separator, graph = place.rpartition(SERVED)
    return (url, unquote(graph)) if separator and "/" not in graph else (place, None)
