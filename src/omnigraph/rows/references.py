"""Checks across tables: endpoints exist, nothing is orphaned, cardinalities hold."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from omnigraph.catalog import Cardinality, EdgeType, NodeType, TypeKind
from omnigraph.compute.key_tables import TextTable
from omnigraph.compute.types import Column
from omnigraph.limits import JOINED_ROWS_MIN
from omnigraph.rows.changes import TableChange, TableChanges
from omnigraph.rows.problems import Problem, Problems, some_rows
from omnigraph.rows.stored import Stored


def check_references(base: Stored, changes: TableChanges, problems: Problems) -> None:
    """Check everything that ties tables together."""
    for change in list(changes.effective()):
        entity = change.entity
        if isinstance(entity, EdgeType):
            _check_endpoints(base, changes, change, entity, problems)
            if entity.cardinality != Cardinality():
                _check_cardinality(base, changes, change, entity, problems)
        elif change.deleted or change.replaced:
            _check_orphans(base, changes, change, entity, problems)


# ---- endpoints ----------------------------------------------------------------------------


def _check_endpoints(
    base: Stored, changes: TableChanges, change: TableChange, edge: EdgeType, problems: Problems
) -> None:
    rows = change.rows()
    if rows is None:
        return
    wanted = {
        column: pc.unique(_elsewhere(changes, type_name, rows[column]))
        for column, type_name in (("src", edge.source), ("dst", edge.target))
    }
    if edge.source == edge.target:
        # Both ends in one look-up.
        wanted["src"] = pc.unique(pa.concat_arrays([wanted["src"], wanted.pop("dst")]))
    missing_by_column = {
        column: _missing_nodes(base, changes, edge.source if column == "src" else edge.target, ids)
        for column, ids in wanted.items()
    }
    for column in ("src", "dst"):
        missing = missing_by_column.get(column, missing_by_column["src"])
        if not missing:
            continue
        wrong = pc.is_in(rows[column], value_set=pa.array(sorted(missing), pa.string()))
        shown = some_rows(rows, wrong, column)
        pairs = zip(shown["id"].to_pylist(), shown[column].to_pylist(), strict=True)
        for entity_id, value in pairs:
            line = problems.line_of(edge.table_key, entity_id)
            problems.add(endpoint_problem(edge, entity_id, column, value, line))


def endpoint_problem(
    edge: EdgeType,
    entity_id: str,
    column: str,
    value: str,
    line: int | None,
    *,
    file: str | None = None,
) -> Problem:
    """Return the problem of a new edge, one of whose ends does not exist."""
    problem = _end_problem(edge, edge.name, entity_id, column, value)
    return replace(problem, line=line, file=file)


def orphan_problem(edge: EdgeType, entity_id: str, column: str, value: str) -> Problem:
    """Return the problem of a committed edge that would lose one of its ends."""
    return _end_problem(edge, f"{edge.name} '{entity_id}'", entity_id, column, value)


def _end_problem(edge: EdgeType, label: str, entity_id: str, column: str, value: str) -> Problem:
    type_name = edge.source if column == "src" else edge.target
    return Problem(
        message=f"{label}: {column} '{value}' not found in {type_name}",
        type_name=edge.name,
        entity_id=entity_id,
        field="from" if column == "src" else "to",
        kind="orphan_edge",
        table_key=edge.table_key,
    )


def _elsewhere(changes: TableChanges, type_name: str, ids: pa.ChunkedArray) -> Column:
    """Return those of the ids that no node of the type has that is written with them."""
    change = changes.get(TypeKind.NODE, type_name)
    rows = None if change is None else change.rows()
    if rows is None:
        return ids
    known = rows["id"].combine_chunks()
    if len(ids) < JOINED_ROWS_MIN:
        return ids.filter(pc.invert(pc.is_in(ids, value_set=known)))
    return ids.filter(pa.array(TextTable(known).find(ids) < 0))


def _missing_nodes(
    base: Stored, changes: TableChanges, type_name: str, wanted: pa.Array
) -> set[str]:
    """Return those of the ids, none of which is written now, that no node of the type has then."""
    node = base.schema.catalog.nodes[type_name]
    change = changes.get(TypeKind.NODE, type_name)
    remaining = wanted.to_pylist()
    if change is not None and change.replaced:
        return set(remaining)
    existing = base.existing_ids(node, remaining)
    if change is not None:
        existing -= set(change.deleted)
    return set(remaining) - existing


# ---- orphans ------------------------------------------------------------------------------


def _check_orphans(
    base: Stored, changes: TableChanges, change: TableChange, node: NodeType, problems: Problems
) -> None:
    removed = _removed_ids(base, change, node)
    if not removed:
        return
    for edge in base.schema.catalog.incident_edges(node.name):
        edge_change = changes.get(TypeKind.EDGE, edge.name)
        if edge_change is not None and edge_change.replaced:
            continue
        handled = [] if edge_change is None else [*edge_change.deleted, *edge_change.ids()]
        for column, type_name in (("src", edge.source), ("dst", edge.target)):
            if type_name != node.name:
                continue
            left = base.edge_ends(edge, column, removed)
            left = left.filter(
                pc.invert(pc.is_in(left["id"], value_set=pa.array(handled, pa.string())))
            )
            for row in left.slice(0, 1000).to_pylist():
                problems.add(orphan_problem(edge, row["id"], column, row[column]))


def _removed_ids(base: Stored, change: TableChange, node: NodeType) -> list[str]:
    if not change.replaced:
        return list(change.deleted)
    if base.row_count(node) == 0:
        return []
    before = base.scan(node, ["id"], None)["id"].combine_chunks()
    after = pa.array(change.ids(), pa.string())
    return list(before.filter(pc.invert(pc.is_in(before, value_set=after))).to_pylist())


# ---- cardinality --------------------------------------------------------------------------


def _check_cardinality(
    base: Stored, changes: TableChanges, change: TableChange, edge: EdgeType, problems: Problems
) -> None:
    counts: Counter[str] = Counter()
    affected: set[str] = set()
    rows = change.rows()
    if rows is not None:
        counts.update(rows["src"].to_pylist())
        affected |= set(counts)
    touched = list(change.deleted)
    if change.changed is not None:
        touched += change.changed["id"].to_pylist()
    if not change.replaced and base.row_count(edge):
        old = [] if not touched else base.rows_where(edge, "id", touched)["src"].to_pylist()
        affected |= set(old)
        committed = base.edge_ends(edge, "src", sorted(affected))
        kept = committed.filter(
            pc.invert(pc.is_in(committed["id"], value_set=pa.array(touched, pa.string())))
        )
        counts.update(kept["src"].to_pylist())
    node_change = changes.get(TypeKind.NODE, edge.source)
    if node_change is not None:
        affected -= set(node_change.deleted)
    for source in sorted(affected):
        problem = cardinality_problem(edge, source, counts[source])
        if problem is not None:
            problems.add(problem)


def cardinality_problem(edge: EdgeType, source: str, number: int) -> Problem | None:
    """Return the problem of a node with this number of edges, None when it may have them."""
    limits = edge.cardinality
    if limits.maximum is not None and number > limits.maximum:
        bound = f"max {limits.maximum}"
    elif number < limits.minimum:
        bound = f"min {limits.minimum}"
    else:
        return None
    plural = "edge" if number == 1 else "edges"
    return Problem(
        message=f"@card violation on edge {edge.name}: source '{source}' has "
        f"{number} {plural} ({bound})",
        type_name=edge.name,
        entity_id=source,
        field="from",
        kind="cardinality_violation",
        table_key=edge.table_key,
    )
