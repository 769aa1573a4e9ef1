"""Answers selective queries on cold tables from a small part of the graph.

A pattern whose scans all name a node by its id touches few rows. These are fetched hop by hop
through the indexes on ids and endpoints, and the query then runs on them as if they were the whole
graph: every match of the pattern lies in that part, and nothing in it is not in the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from omnigraph.catalog import Catalog, EdgeType, EdgeUnion, members_of, united
from omnigraph.limits import PROBE_FRONTIER_MAX, PROBE_HOPS_MAX, PROBE_KEYS_MAX
from omnigraph.plan.expression import Expression, PropertyOf, walk
from omnigraph.plan.read import (
    AntiJoin,
    Apply,
    Direction,
    Expand,
    ExpandInto,
    Filter,
    Join,
    NodeScan,
    OptionalJoin,
    ReadPlan,
    Step,
)
from omnigraph.read.columns import KeyMap
from omnigraph.read.context import Context
from omnigraph.read.keys import can_name_id, named_id
from omnigraph.read.topology import Ends, Topology, node_numbers, united_topology
from omnigraph.store import Pin, Tables, count
from omnigraph.store.tables.keys import id_filter

Ids = frozenset[str]


class TooWide(Exception):
    """The part of the graph a pattern touches is too large to be fetched by index."""


class ProbePlan(Struct, frozen=True):
    """What a plan reads, if it can be probed: node and edge types, and columns of each table."""

    nodes: tuple[str, ...]
    edges: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]


def plan_probe(plan: ReadPlan, catalog: Catalog) -> ProbePlan | None:
    """Return what a probe of a plan has to fetch; None when some scan names no id."""
    tables: dict[str, tuple[str, ...]] = {}
    expressions: list[Expression | None] = [column.expression for column in plan.columns]
    expressions += [key.expression for key in plan.sort_keys]
    if plan.ranking is not None or not _collect(plan.steps, catalog, tables, expressions):
        return None
    columns: dict[str, set[str]] = {}
    for expression in expressions:
        for part in () if expression is None else walk(expression):
            if isinstance(part, PropertyOf) and part.variable in tables:
                for table_key in tables[part.variable]:
                    columns.setdefault(table_key, set()).add(part.property)
    return ProbePlan(
        nodes=plan.reads_nodes,
        edges=plan.reads_edges,
        columns={key: tuple(sorted(names)) for key, names in columns.items()},
    )


def _collect(
    steps: tuple[Step, ...],
    catalog: Catalog,
    tables: dict[str, tuple[str, ...]],
    expressions: list[Expression | None],
) -> bool:
    """Note the table of every variable and every expression; False when it cannot be probed."""
    for step in steps:
        match step:
            case NodeScan():
                entity = catalog.nodes[step.type_name]
                if step.condition is None or not can_name_id(entity, step.condition):
                    return False
                tables[step.variable] = (entity.table_key,)
                expressions.append(step.condition)
            case Filter():
                expressions.append(step.condition)
            case Expand() | ExpandInto():
                if step.max_hops > PROBE_HOPS_MAX:
                    return False
                if isinstance(step, Expand):
                    tables[step.target] = (f"node:{step.target_type}",)
                    expressions.append(step.target_condition)
                if step.edge_variable is not None:
                    tables[step.edge_variable] = tuple(f"edge:{name}" for name in step.edges)
                expressions.append(step.edge_condition)
            case AntiJoin() | OptionalJoin() | Join() | Apply():
                if not _collect(step.steps, catalog, tables, expressions):
                    return False
                if isinstance(step, Join):
                    expressions.append(step.condition)
                if isinstance(step, Apply):
                    expressions.append(step.aggregate)
    return True


class LocalColumns:
    """Columns of the fetched rows, in place of those of whole tables."""

    def __init__(self, rows: Mapping[str, pa.Table]) -> None:
        self._rows = rows

    def column(self, pin: Pin, name: str) -> pa.Array:
        """Return one column."""
        return self._rows[pin.path][name].combine_chunks()

    def size(self, pin: Pin) -> int:
        """Return the number of rows."""
        return int(self._rows[pin.path].num_rows)

    def keys(self, pin: Pin) -> KeyMap:
        """Return the map from ids to positions."""
        return KeyMap(self.column(pin, "id"))


class LocalTopologies:
    """Topologies of the fetched edges."""

    def __init__(self, columns: LocalColumns) -> None:
        self._columns = columns
        self._made: dict[str, Topology] = {}

    def united(self, edge: EdgeUnion, pins: Mapping[str, Pin]) -> Topology:
        """Return the topology of edges of several types as one."""
        if edge.name not in self._made:
            parts = [
                self.get(
                    member,
                    pins[member.table_key],
                    pins[f"node:{member.source}"],
                    pins[f"node:{member.target}"],
                )
                for member in edge.members
            ]
            self._made[edge.name] = united_topology(edge, parts)
        return self._made[edge.name]

    def get(self, edge: EdgeType, pin: Pin, source: Pin, target: Pin) -> Topology:
        """Return the topology of an edge type."""
        if edge.name not in self._made:
            starts, ends = (
                node_numbers(self._columns.column(pin, name), self._columns.column(node, "id"))
                for name, node in (("src", source), ("dst", target))
            )
            whole = (starts >= 0) & (ends >= 0)
            edges = np.flatnonzero(whole).astype(np.int32)
            self._made[edge.name] = Topology(
                Ends(starts[whole], ends[whole], edges),
                source_count=self._columns.size(source),
                target_count=self._columns.size(target),
                rows=len(starts),
            )
        return self._made[edge.name]


def probe(context: Context, tables: Tables, plan: ReadPlan, wanted: ProbePlan) -> Context:
    """Return the context of the part of the graph a plan touches. Raises `TooWide`."""
    return _Probe(context, tables, wanted).run(plan.steps)


class _Probe:
    def __init__(self, context: Context, tables: Tables, wanted: ProbePlan) -> None:
        self._context = context
        self._tables = tables
        self._wanted = wanted
        self._rows: dict[str, pa.Table] = {}
        self._nodes: dict[str, set[str]] = {}

    def run(self, steps: tuple[Step, ...]) -> Context:
        count("probed_queries")
        self._steps(steps, {})
        edges = {f"edge:{name}" for name in self._wanted.edges}
        for name in self._wanted.nodes:
            key = f"node:{name}"
            self._fetch(key, "id", self._nodes.get(key, set()))
        rows: dict[str, pa.Table] = {}
        for key in edges | {f"node:{name}" for name in self._wanted.nodes}:
            pin = self._context.pins[key]
            table = self._rows.get(pin.path)
            rows[pin.path] = self._empty(key) if table is None else _distinct_rows(table)
        columns = LocalColumns(rows)
        return replace(self._context, columns=columns, topologies=LocalTopologies(columns))

    def _steps(self, steps: tuple[Step, ...], reached: dict[str, Ids]) -> None:
        for step in steps:
            match step:
                case NodeScan():
                    reached[step.variable] = self._scan(step)
                case Expand():
                    ids = self._expand(step, reached[step.source])
                    reached[step.target] = ids
                case ExpandInto():
                    self._expand(step, reached[step.source])
                case AntiJoin() | OptionalJoin() | Join() | Apply():
                    self._steps(step.steps, reached)
                case Filter():
                    pass

    def _scan(self, step: NodeScan) -> Ids:
        source = self._context.node(step.type_name)
        values = (self._context.parameters, self._context.now)
        condition = step.condition
        named = None if condition is None else named_id(source.entity, condition, *values)
        if named is None:
            # A null parameter: the condition holds for no row.
            return frozenset()
        self._nodes.setdefault(source.entity.table_key, set()).add(named[0])
        return frozenset([named[0]])

    def _expand(self, step: Expand | ExpandInto, starts: Ids) -> Ids:
        edge = united([self._context.catalog.edges[name] for name in step.edges])
        frontier, seen, ids = starts, set(starts), set[str]()
        for _hop in range(step.max_hops):
            new: set[str] = set()
            for table_key, near, far in _sides(edge, step.direction):
                rows = self._fetch(table_key, near, frontier)
                new.update(rows[far].to_pylist())
            ids |= new
            frontier = frozenset(new - seen)
            seen |= new
        self._nodes.setdefault(f"node:{edge.source}", set())
        self._nodes.setdefault(f"node:{edge.target}", set())
        other = edge.target if step.direction is not Direction.IN else edge.source
        self._nodes[f"node:{other}"] |= ids
        if len(ids) > PROBE_FRONTIER_MAX:
            raise TooWide
        return frozenset(ids)

    def _fetch(self, table_key: str, column: str, ids: Iterable[str]) -> pa.Table:
        """Return the rows whose column is one of the ids, and take them into the part."""
        wanted = sorted(ids)
        if len(wanted) > min(PROBE_FRONTIER_MAX, PROBE_KEYS_MAX):
            raise TooWide
        if not wanted:
            return self._empty(table_key)
        pin = self._context.pins[table_key]
        table = self._tables.open(pin.path, pin.version)
        rows = table.scan(columns=self._names(table_key), where=id_filter(column, wanted))
        known = self._rows.get(pin.path)
        self._rows[pin.path] = rows if known is None else pa.concat_tables([known, rows])
        return rows

    def _names(self, table_key: str) -> list[str]:
        ends = ("id", "src", "dst") if table_key.startswith("edge:") else ("id",)
        return list(dict.fromkeys([*ends, *self._wanted.columns.get(table_key, ())]))

    def _empty(self, table_key: str) -> pa.Table:
        pin = self._context.pins[table_key]
        schema = self._tables.open(pin.path, pin.version).schema
        fields = [schema.field(name) for name in self._names(table_key)]
        return pa.schema(fields).empty_table()


def _sides(edge: EdgeType, direction: Direction) -> Iterator[tuple[str, str, str]]:
    """Yield the tables a hop is looked up in, by which column, and where the other end is."""
    for member in members_of(edge):
        turned = isinstance(edge, EdgeUnion) and edge.is_turned(member)
        if direction is not (Direction.OUT if turned else Direction.IN):
            yield member.table_key, "src", "dst"
        if direction is not (Direction.IN if turned else Direction.OUT):
            yield member.table_key, "dst", "src"


def _distinct_rows(rows: pa.Table) -> pa.Table:
    """Return each row once, though several hops may have fetched it."""
    seen: set[str] = set()
    first = []
    for index, id in enumerate(rows["id"].to_pylist()):
        if id not in seen:
            seen.add(id)
            first.append(index)
    return rows if len(first) == rows.num_rows else rows.take(pa.array(first, pa.int64()))
