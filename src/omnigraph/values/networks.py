"""Graphs of other libraries, made of nodes and edges: networkx and igraph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from omnigraph.extras import needed

Properties = Mapping[str, object]
TYPE = "type"
Network = Any
"""A class of a package that need not be there."""


class Vertex(Struct, frozen=True):
    """A node on its way out."""

    type: str
    id: str
    properties: Properties


class Arc(Struct, frozen=True):
    """An edge on its way out; its ends are nodes, each named by its type and id."""

    type: str
    id: str
    source: tuple[str, str]
    target: tuple[str, str]
    properties: Properties


def type_attribute(taken: Iterable[str]) -> str:
    """Return the attribute that holds the type: `type`, or a longer name if that is taken."""
    names, attribute = set(taken), TYPE
    while attribute in names:
        attribute += "_"
    return attribute


def networkx_graph(vertices: Iterable[Vertex], arcs: Iterable[Arc], type_attr: str) -> Network:
    """Return a `networkx.MultiDiGraph`. Nodes are keyed by type and id, and so are edges."""
    networkx = needed("networkx", "to_networkx()", extra="networkx")
    graph = networkx.MultiDiGraph(type_attr=type_attr)
    graph.add_nodes_from(
        ((item.type, item.id), {type_attr: item.type, "id": item.id, **item.properties})
        for item in vertices
    )
    graph.add_edges_from(
        (
            item.source,
            item.target,
            (item.type, item.id),
            {type_attr: item.type, "id": item.id, **item.properties},
        )
        for item in arcs
    )
    return graph


def igraph_graph(vertices: Iterable[Vertex], arcs: Iterable[Arc], type_attr: str) -> Network:
    """Return a directed `igraph.Graph`; `vs.find(type=..., id=...)` finds a vertex."""
    igraph = needed("igraph", "to_igraph()", extra="igraph")
    nodes, edges = list(vertices), list(arcs)
    numbers = {(item.type, item.id): number for number, item in enumerate(nodes)}
    ends = [(numbers[item.source], numbers[item.target]) for item in edges]
    graph = igraph.Graph(n=len(nodes), edges=ends, directed=True)
    graph["type_attr"] = type_attr
    for name, values in _columns(nodes, type_attr):
        graph.vs[name] = values
    for name, values in _columns(edges, type_attr):
        graph.es[name] = values
    return graph


def _columns(items: list[Vertex] | list[Arc], type_attr: str) -> Iterator[tuple[str, list[object]]]:
    yield type_attr, [item.type for item in items]
    yield "id", [item.id for item in items]
    for name in dict.fromkeys(name for item in items for name in item.properties):
        yield name, [item.properties.get(name) for item in items]
