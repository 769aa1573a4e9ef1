"""Looks at single entities: their neighbours, their past, and pictures of several of them."""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.catalog import Catalog, EdgeType, Entity, NodeType, Scalar
from omnigraph.commits import MAIN, BranchState, GraphCommit
from omnigraph.errors import (
    BadRequestError,
    NotFoundError,
    StorageError,
    StorageFailureKind,
)
from omnigraph.graph.acting import Acting
from omnigraph.graph.describing import label_of
from omnigraph.graph.result import Result, nodes_of
from omnigraph.graph.targets import At
from omnigraph.ops.export import export_rows
from omnigraph.read import QueryControl
from omnigraph.rows.entities import envelopes
from omnigraph.store import Pin, quoted
from omnigraph.values.inspection import (
    NEIGHBOURS_DEFAULT,
    NEIGHBOURS_MAX,
    SUBGRAPH_EDGES_MAX,
    SUBGRAPH_NODES_MAX,
    VERSIONS_DEFAULT,
    EdgeCount,
    EntityHistory,
    EntityVersion,
    Neighbour,
    NeighbourPage,
    PictureEdge,
    PictureNode,
    Subgraph,
)

if TYPE_CHECKING:
    import pyarrow as pa

Direction = Literal["out", "in"]
Data = dict[str, Any]
_LARGE = (Scalar.BLOB, Scalar.VECTOR)


class _Way(Struct, frozen=True, eq=False):
    """One edge type as seen from a node: which way it is walked, and to which type."""

    edge: EdgeType
    direction: Direction

    @property
    def other(self) -> str:
        return self.edge.target if self.direction == "out" else self.edge.source

    def pattern(self, here: str) -> str:
        """Return the clauses that bind `$e` and `$b` around `$a`."""
        word = self.edge.name[0].lower() + self.edge.name[1:]
        walk = f"$a $e: {word} $b" if self.direction == "out" else f"$b $e: {word} $a"
        return f"$a: {here} {{ id: $id }} $b: {self.other} {walk}"


class Entities:
    """Single nodes and edges of a graph, and what is around them."""

    def __init__(self, acting: Acting) -> None:
        self._acting = acting
        self._engine = acting.engine

    def neighbours(
        self,
        type_name: str,
        id: str,
        *,
        edge: str | None = None,
        direction: str | None = None,
        limit: int = NEIGHBOURS_DEFAULT,
        page_token: str | None = None,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> NeighbourPage:
        """Return how many edges a node has by type and direction, and a page of its neighbours.

        >>> [item.id for item in graph.entities.neighbours("Person", "ann").neighbours]
        ['t1']

        Args:
            type_name: Type of the node.
            id: Id of the node.
            edge: Only edges of this type.
            direction: Only edges that leave the node (`out`), or reach it (`in`).
            limit: Neighbours on a page; with 0 only the counts are told.
            page_token: Goes on after an earlier page.
            branch: Branch to look at.
            commit: Commit id to look at, instead of the newest state.
            version: Graph version of the branch to look at.
            tag: Tag to look at.
        """
        if not 0 <= limit <= NEIGHBOURS_MAX:
            raise BadRequestError(f"limit must be 0 to {NEIGHBOURS_MAX}, not {limit}")
        if direction not in (None, "out", "in"):
            raise BadRequestError(f"direction must be out or in, not {direction!r}")
        state = self._acting.state(At(branch=branch, commit=commit, version=version, tag=tag))
        catalog = self._catalog(state)
        node = _node_type(catalog, type_name)
        data = self._brief(state, node, [id]).get(id)
        if data is None:
            raise NotFoundError(f"there is no {type_name} '{id}'")
        ways = list(_ways(catalog, type_name))
        if edge is not None and all(way.edge.name != edge for way in ways):
            raise NotFoundError(f"no edge type '{edge}' starts or ends at {type_name}")
        counts = {way: self._count(state, type_name, id, way) for way in ways}
        wanted = {
            way: number
            for way, number in counts.items()
            if edge in (None, way.edge.name) and direction in (None, way.direction)
        }
        page, token = self._page(state, catalog, (type_name, id), wanted, limit, page_token)
        return NeighbourPage(
            graph_commit_id=state.head.graph_commit_id,
            type=type_name,
            id=id,
            label=label_of(node, data),
            counts=tuple(
                EdgeCount(
                    edge=way.edge.name, direction=way.direction, other=way.other, count=number
                )
                for way, number in counts.items()
            ),
            neighbours=tuple(page),
            next_page_token=token,
        )

    def history(
        self, type_name: str, id: str, branch: str = MAIN, *, limit: int = VERSIONS_DEFAULT
    ) -> EntityHistory:
        """Return the changes of an entity on a branch, newest first, with who made them.

        >>> [item.op for item in graph.entities.history("Task", "t2", "dev").versions]
        ['update', 'insert']
        """
        if limit < 1:
            raise BadRequestError(f"limit must be at least 1, not {limit}")
        # No list is longer, and nothing counts further.
        limit = min(limit, sys.maxsize - 1)
        changes = list(islice(self._changes(type_name, id, branch), limit + 1))
        complete = len(changes) <= limit and all(change is not None for change in changes)
        kept = [change for change in changes[:limit] if change is not None]
        return EntityHistory(type=type_name, id=id, versions=tuple(kept), complete=complete)

    def subgraph(
        self,
        nodes: Iterable[Sequence[str]] | Result,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> Subgraph:
        """Return some nodes, each given as type and id, and all edges between them.

        >>> picture = graph.entities.subgraph([("Person", "ann"), ("Task", "t1")])
        >>> [item.edge for item in picture.edges]
        ['Owns']

        The rows of a query stand for the nodes they return. Nodes that do not exist are left out,
        and so are blobs and vectors.
        """
        at = At(branch=branch, commit=commit, version=version, tag=tag)
        named = nodes_of(nodes) if isinstance(nodes, Result) else nodes
        return self._subgraph(self._acting.state(at), named)

    def _subgraph(self, state: BranchState, nodes: Iterable[Sequence[str]]) -> Subgraph:
        catalog = self._catalog(state)
        chosen = list(dict.fromkeys(map(_type_and_id, nodes)))
        wanted: dict[str, list[str]] = {}
        for type_name, id_ in chosen[:SUBGRAPH_NODES_MAX]:
            wanted.setdefault(type_name, []).append(id_)
        by_type: dict[str, dict[str, Data]] = {}
        for type_name, ids in wanted.items():
            by_type[type_name] = self._brief(state, _node_type(catalog, type_name), ids)
        edges = list(islice(self._between(state, catalog, by_type), SUBGRAPH_EDGES_MAX + 1))
        return Subgraph(
            graph_commit_id=state.head.graph_commit_id,
            nodes=tuple(
                PictureNode(type=name, id=id_, label=label_of(catalog.nodes[name], data), data=data)
                for name, rows in by_type.items()
                for id_, data in rows.items()
            ),
            edges=tuple(edges[:SUBGRAPH_EDGES_MAX]),
            truncated=len(chosen) > SUBGRAPH_NODES_MAX or len(edges) > SUBGRAPH_EDGES_MAX,
        )

    # ---- parts ----------------------------------------------------------------------------

    def _catalog(self, state: BranchState) -> Catalog:
        return self._engine.schema_of(state.head.schema_hash).catalog

    def _ask(self, state: BranchState, source: str, params: Mapping[str, object]) -> pa.Table:
        return self._engine.run(source, params, None, state, QueryControl())[1]

    def _count(self, state: BranchState, here: str, id: str, way: _Way) -> int:
        text = f"query n($id: String) {{ match {{ {way.pattern(here)} }}"
        table = self._ask(state, f"{text} return {{ count(*) as n }} }}", {"id": id})
        return int(table["n"][0].as_py())

    def _page(
        self,
        state: BranchState,
        catalog: Catalog,
        start: tuple[str, str],
        ways: Mapping[_Way, int],
        limit: int,
        page_token: str | None,
    ) -> tuple[list[Neighbour], str | None]:
        """Return neighbours from a place on, which counts them over all ways."""
        skip = 0 if page_token is None else _read_place(page_token, state)
        total, room = sum(ways.values()), limit
        neighbours: list[Neighbour] = []
        passed = 0
        for way, number in ways.items():
            first = max(skip - passed, 0)
            passed += number
            if room == 0 or first >= number:
                continue
            part = self._along(state, catalog, start, way, first, room)
            neighbours += part
            room -= len(part)
        reached = skip + len(neighbours)
        if limit == 0 or reached >= total or not neighbours:
            return neighbours, None
        return neighbours, _write_place(reached, state)

    def _along(
        self,
        state: BranchState,
        catalog: Catalog,
        start: tuple[str, str],
        way: _Way,
        offset: int,
        limit: int,
    ) -> list[Neighbour]:
        here, id = start
        text = (
            f"query n($id: String) {{ match {{ {way.pattern(here)} }}"
            " return { $e.id as e, $b.id as b } order { $b.id, $e.id }"
            f" limit {limit} offset {offset} }}"
        )
        table = self._ask(state, text, {"id": id})
        edge_ids, node_ids = table["e"].to_pylist(), table["b"].to_pylist()
        other = catalog.nodes[way.other]
        nodes = self._brief(state, other, node_ids)
        edges = self._brief(state, way.edge, edge_ids)
        return [
            Neighbour(
                edge=way.edge.name,
                direction=way.direction,
                edge_id=edge_id,
                edge_data=edges[edge_id],
                type=other.name,
                id=node_id,
                label=label_of(other, nodes[node_id]),
                data=nodes[node_id],
            )
            for edge_id, node_id in zip(edge_ids, node_ids, strict=True)
        ]

    def _brief(self, state: BranchState, entity: Entity, ids: Sequence[str]) -> dict[str, Data]:
        """Return the properties of entities by id, without those that are large."""
        pin = state.pins.get(entity.table_key)
        if pin is None or not ids:
            return {}
        small = {n: p for n, p in entity.properties.items() if p.type.scalar not in _LARGE}
        brief = replace(entity, properties=small)
        rows = self._rows(pin, brief, f"id IN ({', '.join(map(quoted, ids))})")
        by_id = {data["id"]: data for data in map(_data, envelopes(brief, rows))}
        return {id_: by_id[id_] for id_ in ids if id_ in by_id}

    def _rows(self, pin: Pin, entity: Entity, where: str) -> pa.Table:
        columns = [*entity.implicit_columns, *entity.properties]
        return self._engine.tables.open(pin.path, pin.version).scan(columns=columns, where=where)

    def _between(
        self, state: BranchState, catalog: Catalog, nodes: Mapping[str, Mapping[str, Data]]
    ) -> Iterator[PictureEdge]:
        for edge in catalog.edges.values():
            ends = nodes.get(edge.source), nodes.get(edge.target)
            pin = state.pins.get(edge.table_key)
            if not ends[0] or not ends[1] or pin is None:
                continue
            bare = replace(edge, properties={})
            # The smaller side is looked up; the other one is compared here.
            column, ids = ("src", ends[0]) if len(ends[0]) <= len(ends[1]) else ("dst", ends[1])
            rows = self._rows(pin, bare, f"{column} IN ({', '.join(map(quoted, ids))})")
            for row in rows.sort_by("id").to_pylist():
                if row["src"] in ends[0] and row["dst"] in ends[1]:
                    yield PictureEdge(
                        edge=edge.name,
                        id=row["id"],
                        source_type=edge.source,
                        from_=row["src"],
                        target_type=edge.target,
                        to=row["dst"],
                    )

    def _changes(self, type_name: str, id: str, branch: str) -> Iterator[EntityVersion | None]:
        """Yield the changes of an entity, newest first; None where the past was given up."""
        contract = self._engine.contract
        entity = contract.validate().catalog.entity_named(type_name)
        line = self._acting.readable.get(branch)
        state = line.manifest.capture()
        history = line.manifest.history
        live = state.pins.get(entity.table_key)
        if live is None:
            return
        after: Mapping[str, object] | None = None
        author: GraphCommit | None = None
        for pin in history.pins_back(live.incarnation, state.version):
            then = contract.at(history.head_at(pin.seq).schema_hash).catalog
            try:
                table = self._engine.tables.open(pin.path, pin.version)
                image = next(export_rows(then, pin.table_key, table, only_id=id), None)
            except StorageError as error:
                if error.failure is not StorageFailureKind.NOT_FOUND:
                    raise
                yield None
                return
            if author is not None and image != after:
                yield _version(author, image, after)
            after, author = image, history.author(pin.seq, pin.table_key, id)
        if author is not None and after is not None:
            yield _version(author, None, after)


def _version(
    commit: GraphCommit, before: Mapping[str, object] | None, after: Mapping[str, object] | None
) -> EntityVersion:
    op: Literal["insert", "update", "delete"] = "update"
    if before is None:
        op = "insert"
    elif after is None:
        op = "delete"
    return EntityVersion(
        commit=commit,
        op=op,
        before=None if before is None else dict(before),
        after=None if after is None else dict(after),
    )


def _data(envelope: Mapping[str, Any]) -> Data:
    return dict(envelope["data"])


def _type_and_id(node: Sequence[str]) -> tuple[str, str]:
    if len(node) != 2 or not all(isinstance(part, str) for part in node):
        raise BadRequestError("a node is given as its type and its id")
    return node[0], node[1]


def _node_type(catalog: Catalog, name: str) -> NodeType:
    node = catalog.nodes.get(name)
    if node is None:
        raise NotFoundError(f"unknown node type '{name}'")
    return node


def _ways(catalog: Catalog, type_name: str) -> Iterator[_Way]:
    for edge in catalog.incident_edges(type_name):
        if edge.source == type_name:
            yield _Way(edge, "out")
        if edge.target == type_name:
            yield _Way(edge, "in")


def _write_place(place: int, state: BranchState) -> str:
    text = f"{state.head.graph_commit_id} {place}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_place(token: str, state: BranchState) -> int:
    """Return where a page begins. Raises `BadRequestError` for a page of another state."""
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
        commit, place = text.split()
        start = int(place)
    except (ValueError, binascii.Error):
        raise BadRequestError("the page token is damaged", hint="start again") from None
    if commit != state.head.graph_commit_id or start < 0:
        raise BadRequestError(
            "the page token belongs to another state", hint="name the commit, or start again"
        )
    return start
