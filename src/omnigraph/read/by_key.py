"""Answers small questions about one node named by its key from memory, without the steps of a plan.

These are its properties, those of its neighbours, and how many nodes are so many hops away. The
result is the one the steps would give. What is not in memory is left to them: they know whether to
read a table or to fetch a row of it.
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
from omnigraph.plan.expression import (
    Aggregate,
    AggregateFunction,
    Expression,
    IdOf,
    PropertyOf,
)
from omnigraph.plan.read import Direction, Expand, NodeScan, OutputColumn, ReadPlan, Step
from omnigraph.read.arrays import Rows
from omnigraph.read.columns import KEYS, KeyMap, TableColumns
from omnigraph.read.frame import check_rows
from omnigraph.read.keys import id_named_by, identifies
from omnigraph.read.running import checkpoint, reserve
from omnigraph.read.topology import Topologies, Topology
from omnigraph.read.walk import distinct_nodes
from omnigraph.store import Pin

_NO_NODE = np.empty(0, dtype=np.int32)


class Memory(Struct, frozen=True):
    """What a query finds in memory, and the values it is asked with."""

    tables: TableColumns
    topologies: Topologies
    pins: Mapping[str, Pin]
    parameters: Mapping[str, LiteralValue]
    now: datetime.datetime


class NamedNode(Struct, frozen=True):
    """A node that is asked for: its table, and the id it must have."""

    table_key: str
    id: Expression

    def number(self, memory: Memory) -> int | None:
        """Return its place in the table, -1 where there is none; None if that is not known."""
        id = constant_value(self.id, memory.parameters, memory.now)
        keys = memory.tables.known(memory.pins[self.table_key], KEYS)
        if not isinstance(id, str) or not isinstance(keys, KeyMap):
            return None
        checkpoint()
        return keys.find(id)


class Hop(Struct, frozen=True):
    """One hop over edges of one type, to any node."""

    edge: EdgeType
    direction: Direction

    def topology(self, memory: Memory) -> Topology | None:
        """Return the edges, if they are in memory."""
        edge, pins = self.edge, memory.pins
        ends = (pins[f"node:{edge.source}"], pins[f"node:{edge.target}"])
        return memory.topologies.known(pins[edge.table_key], *ends)

    def from_one(self, topology: Topology, number: int) -> Rows:
        """Return the different neighbours of a node."""
        if number < 0:
            return _NO_NODE
        adjacency = topology.by_pair[self.direction]
        return adjacency.targets[adjacency.offsets[number] : adjacency.offsets[number + 1]]

    def from_all(self, topology: Topology, nodes: Rows) -> Rows:
        """Return the different neighbours of some nodes."""
        is_back = self.direction is Direction.IN
        size = topology.source_count if is_back else topology.target_count
        return distinct_nodes(topology.by_pair[self.direction].neighbours(nodes), size)


class RowByKey(Struct, frozen=True):
    """Asks for properties of one node."""

    node: NamedNode
    columns: tuple[str, ...]
    shown: pa.Schema
    types: tuple[pa.DataType, ...]

    def answer(self, memory: Memory) -> pa.Table | None:
        """Return the row, or no row; None when the steps of the plan must find it."""
        number = self.node.number(memory)
        if number is None:
            return None
        pin = memory.pins[self.node.table_key]
        arrays: list[pa.Array] = []
        for name, type in zip(self.columns, self.types, strict=True):
            values = memory.tables.known(pin, name)
            if values is None or not values.type.equals(type):
                return None
            arrays.append(values)
        whole = pa.RecordBatch.from_arrays(arrays, schema=self.shown)
        row = whole.slice(0, 0) if number < 0 else whole.slice(number, 1)
        # Copied, as a result must not hold on to whole columns; several times faster than `take`.
        return pa.Table.from_batches([pa.concat_batches([row])])


class NeighboursByKey(Struct, frozen=True):
    """Asks for properties of the neighbours of one node.

    A column is one of the neighbour, or else of the node itself.
    """

    row: RowByKey
    hop: Hop
    target_key: str
    is_of_neighbour: tuple[bool, ...]

    def answer(self, memory: Memory) -> pa.Table | None:
        """Return the rows; None when the steps of the plan must find them."""
        row, pins = self.row, memory.pins
        number, topology = row.node.number(memory), self.hop.topology(memory)
        if number is None or topology is None:
            return None
        near = pa.array(self.hop.from_one(topology, number))
        check_rows(len(near))
        reserve(len(near) * ROW_BYTES * 2)
        arrays: list[pa.Array] = []
        for name, type, is_near in zip(row.columns, row.types, self.is_of_neighbour, strict=True):
            table_key = self.target_key if is_near else row.node.table_key
            values = memory.tables.known(pins[table_key], name)
            if values is None or not values.type.equals(type):
                return None
            rows = near if is_near else pa.array(np.full(len(near), number, dtype=np.int64))
            arrays.append(values.take(rows))
        return pa.Table.from_arrays(arrays, schema=row.shown)


class ReachedByKey(Struct, frozen=True):
    """Asks how many different nodes some hops from one node lead to."""

    node: NamedNode
    first: Hop
    others: tuple[Hop, ...]
    name: str
    type: pa.DataType

    def answer(self, memory: Memory) -> pa.Table | None:
        """Return the number; None when the steps of the plan must find it."""
        number, topology = self.node.number(memory), self.first.topology(memory)
        if number is None or topology is None:
            return None
        nodes = self.first.from_one(topology, number)
        for hop in self.others:
            topology = hop.topology(memory)
            if topology is None:
                return None
            nodes = hop.from_all(topology, nodes)
        return pa.table({self.name: pa.array([len(nodes)], self.type)})


ByKey = RowByKey | NeighboursByKey | ReachedByKey


# ---- what a plan asks for -----------------------------------------------------------------


def plan_by_key(plan: ReadPlan, catalog: Catalog) -> ByKey | None:
    """Return what a plan asks for, if that can be answered without its steps."""
    is_whole = plan.limit is None and plan.offset is None and plan.ranking is None
    if not is_whole or plan.sort_keys or any(column.hidden for column in plan.columns):
        return None
    scan, *hops = plan.steps or (None,)
    if not isinstance(scan, NodeScan) or scan.condition is None:
        return None
    entity = catalog.nodes[scan.type_name]
    id = id_named_by(entity, scan.condition)
    if id is None:
        return None
    node = NamedNode(entity.table_key, id)
    if plan.grouped:
        return _reached(plan, catalog, node)
    if not hops:
        names = [_stored_name(item, scan.variable) for item in plan.columns]
        return _row(plan, node, names)
    return None if plan.distinct or len(hops) > 1 else _neighbours(plan, catalog, node)


def _row(plan: ReadPlan, node: NamedNode, names: list[str | None]) -> RowByKey | None:
    if None in names:
        return None
    fields = [pa.field(item.name, arrow_type(item.type)) for item in plan.columns]
    columns = tuple(name for name in names if name is not None)
    return RowByKey(node, columns, pa.schema(fields), tuple(field.type for field in fields))


def _neighbours(plan: ReadPlan, catalog: Catalog, node: NamedNode) -> NeighboursByKey | None:
    scan, expand = plan.steps
    if not isinstance(scan, NodeScan) or not _is_plain_hop(expand):
        return None
    near = [_stored_name(item, expand.target) for item in plan.columns]
    own = [_stored_name(item, scan.variable) for item in plan.columns]
    row = _row(plan, node, [one or other for one, other in zip(near, own, strict=True)])
    if row is None:
        return None
    return NeighboursByKey(
        row,
        Hop(catalog.edges[expand.edges[0]], expand.direction),
        target_key=catalog.nodes[expand.target_type].table_key,
        is_of_neighbour=tuple(name is not None for name in near),
    )


def _reached(plan: ReadPlan, catalog: Catalog, node: NamedNode) -> ReachedByKey | None:
    """Return what a plan asks for, if it counts the different nodes that some hops lead to."""
    scan, *steps = plan.steps
    if len(plan.columns) != 1 or not steps or not isinstance(scan, NodeScan):
        return None
    hops: list[Hop] = []
    last, last_type = scan.variable, scan.type_name
    for step in steps:
        if not _is_plain_hop(step) or step.source != last:
            return None
        hops.append(Hop(catalog.edges[step.edges[0]], step.direction))
        last, last_type = step.target, step.target_type
    (column,) = plan.columns
    counted = column.expression
    if not isinstance(counted, Aggregate) or counted.function is not AggregateFunction.COUNT:
        return None
    argument = counted.argument
    if not isinstance(argument, IdOf | PropertyOf) or argument.variable != last:
        return None
    if not counted.distinct or not identifies(catalog.nodes[last_type], argument):
        return None
    return ReachedByKey(node, hops[0], tuple(hops[1:]), column.name, arrow_type(column.type))


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
