"""What becomes of clusters: the node that stays, its values, and where the edges of the others go.

Decides on tables of the nodes and edges concerned, and reads nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from numpy.typing import NDArray

from omnigraph.catalog import EdgeType, NodeType
from omnigraph.compute.types import Column
from omnigraph.resolve.clusters import CLUSTER, MEMBER
from omnigraph.resolve.rules import Rules, ValueWord

OP, FROM, TO = "#op", "#from", "#to"
"""Columns of events; no property can have such a name."""
UPDATE, DELETE = "update", "delete"
SURVIVOR = "survivor"

EdgeRows = Sequence[tuple[EdgeType, pa.Table]]
"""Edges by type, as tables of `id`, `src`, `dst` and what their `@unique` constraints name."""

_STAYS, _RANK = "#stays", "#rank"


class EdgeMoves(Struct, frozen=True, kw_only=True):
    """What happens to the edges of one type. `events` are rows for a load with mode `apply`."""

    events: pa.Table
    redirected: int
    collapsed: int
    """Edges deleted because another one has the same unique values now."""
    loops: int
    """Edges deleted because they led from a node to itself now."""


class MergePlan(Struct, frozen=True, kw_only=True):
    """A merge of clusters as events. `survivors` has the id that each node becomes."""

    survivors: pa.Table
    nodes: pa.Table
    edges: Mapping[str, EdgeMoves] = field(default_factory=dict)

    @property
    def merged(self) -> int:
        """How many nodes go."""
        moved = pc.not_equal(self.survivors[MEMBER], self.survivors[SURVIVOR])
        return int(pc.sum(moved).as_py() or 0)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be merged."""
        return not self.merged


def degrees(members: pa.Table, node: NodeType, edges: EdgeRows) -> NDArray[np.int64]:
    """Return how many ends of edges each member has."""
    counts = np.zeros(members.num_rows, dtype=np.int64)
    ids = members[MEMBER].combine_chunks()
    for edge, rows in edges:
        for column, end in (("src", edge.source), ("dst", edge.target)):
            if end == node.name:
                at = pc.index_in(rows[column].combine_chunks(), value_set=ids).drop_null()
                counts += np.bincount(at.to_numpy(), minlength=len(counts))
    return counts


def survivors(
    members: pa.Table, rules: Rules, nodes: pa.Table, counts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each member the row of the one that stays; rows of all arguments are the same."""
    keys = [(CLUSTER, "ascending")]
    table = members
    if rules.survivor == "most_edges":
        table = table.append_column(_RANK, pa.array(counts))
    elif rules.survivor == "newest":
        table = table.append_column(_RANK, nodes[rules.newest_by])
    if _RANK in table.column_names:
        keys.append((_RANK, "descending"))
    firsts = _first_of_each(table, [*keys, (MEMBER, "ascending")])
    # The firsts stand in the order of their clusters, one for each.
    return firsts[np.unique(members[CLUSTER].to_numpy(), return_inverse=True)[1]]


def merge_plan(
    node: NodeType, rules: Rules, members: pa.Table, nodes: pa.Table, edges: EdgeRows
) -> MergePlan:
    """Return the merge of clusters.

    `members` has the clusters to merge, by id; `nodes` the rows of the same nodes in that order,
    `edges` all edges that begin or end at one of them.
    """
    stays = survivors(members, rules, nodes, degrees(members, node, edges))
    ids = members[MEMBER].combine_chunks()
    mapped = pa.table({MEMBER: ids, SURVIVOR: ids.take(pa.array(stays))})
    moves = {edge.name: _moves(edge, node, rows, mapped) for edge, rows in edges}
    return MergePlan(
        survivors=mapped,
        nodes=_node_events(node, rules, members, nodes, stays),
        edges={name: item for name, item in moves.items() if item.events.num_rows},
    )


# ---- nodes ----------------------------------------------------------------------------------


def _node_events(
    node: NodeType, rules: Rules, members: pa.Table, nodes: pa.Table, stays: NDArray[np.int64]
) -> pa.Table:
    """Return deletions of the nodes that go, and new values of those that stay."""
    own = np.arange(members.num_rows)
    gone, kept = np.flatnonzero(stays != own), np.flatnonzero(stays == own)
    naming = list(node.key) or [MEMBER]
    deleted = nodes.select(naming).take(pa.array(gone))
    columns = {OP: pa.array([DELETE] * len(gone), pa.string())}
    columns |= dict(zip(naming, deleted.columns, strict=True))
    taken = _taken(node, rules, members, nodes, stays)
    if not taken:
        return pa.table(columns)
    values = {name: nodes[name].combine_chunks().take(rows) for name, rows in taken.items()}
    updated = nodes.select(naming).take(pa.array(kept))
    puts = {OP: pa.array([UPDATE] * len(kept), pa.string())}
    puts |= dict(zip(naming, updated.columns, strict=True)) | values
    columns |= {name: pa.nulls(len(gone), item.type) for name, item in values.items()}
    return pa.concat_tables([pa.table(puts), pa.table(columns)])


def _taken(
    node: NodeType, rules: Rules, members: pa.Table, nodes: pa.Table, stays: NDArray[np.int64]
) -> dict[str, pa.Array]:
    """Return, by property, the row from which each survivor, by id, takes its value."""
    own = np.arange(members.num_rows)
    kept = np.flatnonzero(stays == own)
    table = members.append_column(_STAYS, pa.array(stays == own))
    origins: dict[str, pa.Array] = {}
    for name, rule in rules.value_rules(node).items():
        table_of_rule = table
        if rule == "longest":
            table_of_rule = table.append_column(_RANK, _lengths(nodes[name]))
        elif rule == "newest":
            table_of_rule = table.append_column(_RANK, nodes[rules.newest_by])
        rows = _from_each(table_of_rule, nodes[name], rule)
        # A cluster in which no member has a value keeps its survivor's null.
        origins[name] = pa.array(np.where(rows[stays[kept]] < 0, kept, rows[stays[kept]]))
    for name, declared in node.properties.items():
        source = None if declared.embedding is None else declared.embedding.source
        if source in origins:
            origins[name] = origins[source]
    return origins


def _from_each(table: pa.Table, column: pa.ChunkedArray, rule: ValueWord) -> NDArray[np.int64]:
    """Return for each row the first one of its cluster that has a value, -1 if none has."""
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    known = table.take(pa.array(rows))
    keys = [(CLUSTER, "ascending"), (_STAYS, "descending"), (MEMBER, "ascending")]
    if rule == "newest":
        keys = [(CLUSTER, "ascending"), (_RANK, "descending"), (MEMBER, "ascending")]
    elif rule == "longest":
        keys.insert(1, (_RANK, "descending"))
    firsts = rows[_first_of_each(known, keys)]
    clusters = table[CLUSTER].to_numpy()
    by_cluster = np.full(int(clusters.max(initial=-1)) + 1, -1)
    by_cluster[clusters[firsts]] = firsts
    first_rows: NDArray[np.int64] = by_cluster[clusters]
    return first_rows


def _first_of_each(table: pa.Table, keys: Sequence[tuple[str, str]]) -> NDArray[np.int64]:
    """Return the first row of each cluster in an order that begins with the cluster."""
    order = pc.sort_indices(table, sort_keys=list(keys)).to_numpy()
    clusters = table[CLUSTER].to_numpy()[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = clusters[1:] != clusters[:-1]
    rows: NDArray[np.int64] = order[first].astype(np.int64)
    return rows


def _lengths(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return pc.utf8_length(column) if is_text else pc.list_value_length(column)


# ---- edges ----------------------------------------------------------------------------------


def _moves(edge: EdgeType, node: NodeType, rows: pa.Table, mapped: pa.Table) -> EdgeMoves:
    ids = mapped[MEMBER].combine_chunks()
    target = mapped[SURVIVOR].combine_chunks()
    after = rows
    for number, (column, end) in enumerate((("src", edge.source), ("dst", edge.target)), start=1):
        if end == node.name:
            at = pc.index_in(rows[column].combine_chunks(), value_set=ids)
            moved_to = pc.coalesce(target.take(at), rows[column].combine_chunks())
            after = after.set_column(number, column, moved_to)
    moved = _differs(rows, after, "src") | _differs(rows, after, "dst")
    loops = moved & ~_differs_within(after) & _differs_within(rows)
    if edge.source != edge.target:
        loops = np.zeros(len(moved), dtype=bool)
    collapsed = _repeated(edge, after, moved, ~loops)
    changed = np.flatnonzero(moved & ~loops & ~collapsed)
    gone = np.flatnonzero(loops | collapsed)
    puts = after.select(["id", "src", "dst"]).take(pa.array(changed))
    return EdgeMoves(
        events=pa.table(
            {
                OP: pa.array([UPDATE] * len(changed) + [DELETE] * len(gone), pa.string()),
                "id": _joined(puts["id"], rows["id"].take(pa.array(gone))),
                FROM: _joined(puts["src"], pa.nulls(len(gone), pa.string())),
                TO: _joined(puts["dst"], pa.nulls(len(gone), pa.string())),
            }
        ),
        redirected=len(changed),
        collapsed=int(collapsed.sum()),
        loops=int(loops.sum()),
    )


def _repeated(
    edge: EdgeType, after: pa.Table, moved: NDArray[np.bool_], kept: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Tell which edges go because of `@unique`.

    Of equal ones an edge stays that was there before, else the one with the lowest id. Each
    constraint looks at what the ones before it left.
    """
    gone = np.zeros(after.num_rows, dtype=bool)
    for constraint in edge.uniques:
        if not {"src", "dst"} & set(constraint.columns):
            continue
        rows = np.flatnonzero(kept & ~gone)
        codes = [_codes(after[name].take(pa.array(rows))) for name in constraint.columns]
        known = np.all([item >= 0 for item in codes], axis=0)
        rows, codes = rows[known], [item[known] for item in codes]
        ids = _ranks(after["id"].take(pa.array(rows)))
        order = np.lexsort([ids, moved[rows], *codes])
        same = np.ones(max(len(order) - 1, 0), dtype=bool)
        for item in codes:
            same &= item[order][1:] == item[order][:-1]
        gone[rows[order[1:][same]]] = True
    return gone


def _codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    encoded = column.combine_chunks().dictionary_encode().indices.fill_null(-1)
    codes: NDArray[np.int64] = encoded.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _ranks(ids: pa.ChunkedArray) -> NDArray[np.int64]:
    order = pc.sort_indices(ids).to_numpy()
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _differs(before: pa.Table, after: pa.Table, column: str) -> NDArray[np.bool_]:
    return _flags(pc.not_equal(before[column], after[column]))


def _differs_within(rows: pa.Table) -> NDArray[np.bool_]:
    return _flags(pc.not_equal(rows["src"], rows["dst"]))


def _flags(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = column.combine_chunks().to_numpy(zero_copy_only=False)
    return flags


def _joined(first: Column, second: Column) -> pa.Array:
    return pa.concat_arrays([_whole(first), _whole(second)])


def _whole(column: Column) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
