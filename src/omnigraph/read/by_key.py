"""Answers "one row by its key", and "its neighbours", from memory, without the steps of a plan.

The result is the one the steps would give. What is not in memory is left to them: they know
whether to read a table or to fetch a row of it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TypeGuard

import numpy as np
import pyarrow as pa
from msgspec import Struct

from omnigraph.catalog import Catalog, EdgeType, Scalar
from omnigraph.catalog.model import LiteralValue
from omnigraph.compute import constant_value
from omnigraph.compute.types import arrow_type
from omnigraph.limits import ROW_BYTES
from omnigraph.plan.expression import Expression, IdOf, PropertyOf
from omnigraph.plan.read import Direction, Expand, NodeScan, OutputColumn, ReadPlan, Step
from omnigraph.read.columns import KEYS, KeyMap, TableColumns
from omnigraph.read.frame import check_rows
from omnigraph.read.keys import id_named_by
from omnigraph.read.running import checkpoint, reserve
from omnigraph.read.topology import Adjacency, Topologies
from omnigraph.store import Pin

_NO_ROW = pa.array([], pa.int64())


class RowByKey(Struct, frozen=True):
    """A row that is asked for: the table, the id it must have, and what is wanted of it."""

    table_key: str
    id: Expression
    columns: tuple[str, ...]
    shown: pa.Schema
    types: tuple[pa.DataType, ...]


def plan_row_by_key(plan: ReadPlan, catalog: Catalog) -> RowByKey | None:
    """Return what a plan asks for, if that is properties of one node named by its key."""
    is_plain = not plan.grouped and plan.limit is None and plan.offset is None
    if not is_plain or plan.ranking is not None or len(plan.steps) != 1:
        return None
    (scan,) = plan.steps
    if not isinstance(scan, NodeScan) or scan.condition is None:
        return None
    entity = catalog.nodes[scan.type_name]
    id = id_named_by(entity, scan.condition)
    wanted = [item for item in plan.columns if not item.hidden]
    names = [_stored_name(item, scan.variable) for item in wanted]
    if id is None or None in names or len(wanted) != len(plan.columns) or plan.sort_keys:
        return None
    fields = [pa.field(item.name, arrow_type(item.type)) for item in wanted]
    columns = tuple(name for name in names if name is not None)
    return _row(entity.table_key, id, columns, fields)


def _row(
    table_key: str, id: Expression, columns: tuple[str, ...], fields: list[pa.Field]
) -> RowByKey:
    types = tuple(field.type for field in fields)
    return RowByKey(table_key, id, columns, pa.schema(fields), types)


class NeighboursByKey(Struct, frozen=True):
    """Neighbours that are asked for: of which node, over which edges, and what is wanted.

    A column is one of the neighbour, or else of the node itself.
    """

    node: RowByKey
    edge: EdgeType
    direction: Direction
    target_key: str
    is_of_neighbour: tuple[bool, ...]


def plan_neighbours_by_key(plan: ReadPlan, catalog: Catalog) -> NeighboursByKey | None:
    """Return what a plan asks for, if that is properties of the neighbours of one named node."""
    is_plain = not (plan.grouped or plan.distinct or plan.sort_keys)
    is_whole = plan.limit is None and plan.offset is None and plan.ranking is None
    if not is_plain or not is_whole or len(plan.steps) != 2:
        return None
    scan, expand = plan.steps
    if not isinstance(scan, NodeScan) or scan.condition is None or not _is_plain_hop(expand):
        return None
    entity = catalog.nodes[scan.type_name]
    id = id_named_by(entity, scan.condition)
    near = [_stored_name(item, expand.target) for item in plan.columns]
    own = [_stored_name(item, scan.variable) for item in plan.columns]
    names = [one or other for one, other in zip(near, own, strict=True)]
    if id is None or None in names:
        return None
    fields = [pa.field(item.name, arrow_type(item.type)) for item in plan.columns]
    columns = tuple(name for name in names if name is not None)
    return NeighboursByKey(
        node=_row(entity.table_key, id, columns, fields),
        edge=catalog.edges[expand.edges[0]],
        direction=expand.direction,
        target_key=catalog.nodes[expand.target_type].table_key,
        is_of_neighbour=tuple(name is not None for name in near),
    )


def _is_plain_hop(step: Step) -> TypeGuard[Expand]:
    """Whether a step is one hop over one type, to any node, of which only the node matters."""
    return (
        isinstance(step, Expand)
        and len(step.edges) == 1
        and (step.min_hops, step.max_hops) == (1, 1)
        and step.edge_variable is None
        and step.path_variable is None
        and step.target_condition is None
    )


def neighbours_by_key(
    wanted: NeighboursByKey,
    tables: TableColumns,
    topologies: Topologies,
    pins: Mapping[str, Pin],
    parameters: Mapping[str, LiteralValue],
    now: datetime.datetime,
) -> pa.Table | None:
    """Return the neighbours as the result; None when the steps of the plan must find them."""
    node, edge = wanted.node, wanted.edge
    pin, target = pins[node.table_key], pins[wanted.target_key]
    id = constant_value(node.id, parameters, now)
    keys = tables.known(pin, KEYS)
    if not isinstance(id, str) or not isinstance(keys, KeyMap):
        return None
    ends = (pins[f"node:{edge.source}"], pins[f"node:{edge.target}"])
    topology = topologies.known(pins[edge.table_key], *ends)
    if topology is None:
        return None
    checkpoint()
    number = keys.find(id)
    found: list[pa.Array] = []
    near = _neighbours(topology.by_pair[wanted.direction], number)
    check_rows(len(near))
    reserve(len(near) * ROW_BYTES * 2)
    for name, type, is_near in zip(node.columns, node.types, wanted.is_of_neighbour, strict=True):
        values = tables.known(target if is_near else pin, name)
        if values is None or not values.type.equals(type):
            return None
        rows = near if is_near else pa.array(np.full(len(near), number, dtype=np.int64))
        found.append(values.take(rows))
    return pa.Table.from_arrays(found, schema=node.shown)


def _neighbours(adjacency: Adjacency, number: int) -> pa.Array:
    if number < 0:
        return _NO_ROW
    low, high = adjacency.offsets[number], adjacency.offsets[number + 1]
    return pa.array(adjacency.targets[low:high])


def _stored_name(column: OutputColumn, variable: str) -> str | None:
    """Return the stored column that a result column shows as it is; None for any other."""
    match column.expression:
        case IdOf() if column.expression.variable == variable:
            return "id"
        case PropertyOf() if column.expression.variable == variable:
            is_blob = column.expression.type.scalar is Scalar.BLOB
            return None if is_blob else column.expression.property
        case _:
            return None


def row_by_key(
    wanted: RowByKey,
    tables: TableColumns,
    pins: Mapping[str, Pin],
    parameters: Mapping[str, LiteralValue],
    now: datetime.datetime,
) -> pa.Table | None:
    """Return the row, or no row, as the result; None when the steps of the plan must find it."""
    pin = pins[wanted.table_key]
    id = constant_value(wanted.id, parameters, now)
    keys = tables.known(pin, KEYS)
    if not isinstance(id, str) or not isinstance(keys, KeyMap):
        return None
    checkpoint()
    number = keys.find(id)
    start, size = (0, 0) if number < 0 else (number, 1)
    found: list[pa.Array] = []
    for name, type in zip(wanted.columns, wanted.types, strict=True):
        values = tables.known(pin, name)
        if values is None or not values.type.equals(type):
            return None
        # Copied, as a result must not hold on to a whole column; several times faster than `take`.
        found.append(pa.concat_arrays([values.slice(start, size)]))
    return pa.Table.from_arrays(found, schema=wanted.shown)
