"""Types of one snapshot as frames: nodes of a variable, edges between two ends."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from omnigraph.catalog import Catalog, EdgeType, EdgeUnion, Entity, members_of, united
from omnigraph.catalog.model import LiteralValue
from omnigraph.compute import storage_filter
from omnigraph.compute.evaluate import TYPE
from omnigraph.limits import SPARK_MEANT_ROWS_MAX
from omnigraph.plan.expression import Expression, can_overflow, variables_of
from omnigraph.plan.read import Direction
from omnigraph.read.keys import named_id
from omnigraph.read.reads import Reads
from omnigraph.rows import has_blobs
from omnigraph.spark.engine import Engine
from omnigraph.spark.frames import Scan
from omnigraph.spark.queries.degrees import DDL, KEY, WEIGHT, Degrees, Meant, divided
from omnigraph.spark.queries.expressions import Expressions
from omnigraph.spark.queries.rows import Names, Rows, col
from omnigraph.spark.queries.values import Column
from omnigraph.store import Pin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Plan = Callable[[str, Sequence[str], str | None], Scan]
"""Plans the reading of some columns of a type, of the rows that a storage filter keeps."""

_BACK = {Direction.OUT: Direction.IN, Direction.IN: Direction.OUT, Direction.BOTH: Direction.BOTH}


class Computed(Protocol):
    """A column that workers compute of a stored one; plain data."""

    @property
    def source(self) -> str:
        """The stored column."""

    @property
    def sql(self) -> str:
        """The Spark type."""

    def compute(self, values: pa.Array) -> pa.Array:
        """Return the column for some rows."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Edges as rows with a start and an end; the names of both columns."""

    rows: Rows
    start: str
    end: str


@dataclass(slots=True, kw_only=True)
class Tables:
    """Frames of the types of one snapshot."""

    engine: Engine
    plan: Plan
    catalog: Catalog
    pins: Mapping[str, Pin]
    parameters: Mapping[str, LiteralValue]
    now: datetime.datetime
    names: Names
    reads: Reads
    computed: Mapping[str, Computed] = field(default_factory=dict)
    _made: dict[tuple[str, tuple[str, ...], str | None], DataFrame] = field(default_factory=dict)

    @property
    def expressions(self) -> Expressions:
        """Return the compiler of expressions over the columns of variables."""
        return Expressions(self.column, self.parameters, self.now)

    def column(self, variable: str, name: str) -> Column:
        """Return a column of a variable."""
        return col(self.names.of(variable, name))

    def size(self, entity: Entity) -> int:
        """Return how many rows a type has."""
        return self.pins[entity.table_key].row_count

    def frame(
        self, entity: Entity, columns: Mapping[str, str], condition: Expression | None
    ) -> DataFrame:
        """Return columns of a type under new names, of about the rows that satisfy a condition."""
        where = None
        if condition is not None:
            where = storage_filter(condition, self.parameters, self.now)
        key = (entity.table_key, tuple(columns), where)
        if key not in self._made:
            # Two frames of one scan would be two scans to Spark.
            self._made[key] = self._read(entity, tuple(columns), where)
        frame = self._made[key]
        return frame.select(
            *[col(f"k{at}").alias(name) for at, name in enumerate(columns.values())]
        )

    def _read(self, entity: Entity, columns: tuple[str, ...], where: str | None) -> DataFrame:
        """Return stored and computed columns of a type, named by position: `k0` and so on."""
        computed = {name: self.computed[name] for name in columns if name in self.computed}
        stored = [computed[name].source if name in computed else name for name in columns]
        scan = self.plan(entity.name, tuple(dict.fromkeys(stored)), where)
        kinds = dict(zip(scan.names, scan.sql_types, strict=True))
        shown = [computed[name].sql if name in computed else kinds[name] for name in columns]
        ddl = ", ".join(f"k{at} {kind}" for at, kind in enumerate(shown))
        return self.engine.frame(len(scan.groups), _reading(scan, columns, computed), ddl)

    def node(self, variable: str, type_name: str, condition: Expression | None) -> Rows:
        """Return the nodes a variable may stand for, with what is read of them."""
        from pyspark.sql import functions as F

        entity = self.catalog.nodes[type_name]
        wanted = dict.fromkeys(("id", *self.reads.of(variable)))
        columns = {name: self.names.of(variable, name) for name in wanted if name != TYPE}
        frame = self.frame(entity, columns, condition)
        if TYPE in wanted:
            frame = frame.withColumn(self.names.of(variable, TYPE), F.lit(entity.name))
        at_most = self.size(entity)
        if condition is not None:
            frame = frame.where(self.expressions.condition(condition))
            if named_id(entity, condition, self.parameters, self.now) is not None:
                at_most = 1
        return Rows(
            frame=frame,
            columns=frozenset((variable, name) for name in wanted),
            at_most=at_most,
            bare=variable if condition is None and len(wanted) == 1 else None,
        )

    def is_only_id(self, variable: str) -> bool:
        """Whether nothing but the id of a node is read."""
        return set(self.reads.of(variable)) <= {"id"}

    def edge(self, names: tuple[str, ...]) -> EdgeType:
        """Return the type of edges of one type, or of several as one."""
        return united([self.catalog.edges[name] for name in names])

    def pairs(self, names: tuple[str, ...], direction: Direction) -> Pairs:
        """Return each pair of nodes that an edge joins, once."""
        ends = self.ends(names, direction)
        if direction is not Direction.BOTH and is_unique(self.edge(names)):
            return ends
        frame = ends.rows.frame.distinct()
        return Pairs(ends.rows.having(frame, at_most=ends.rows.at_most), ends.start, ends.end)

    def ends(self, names: tuple[str, ...], direction: Direction) -> Pairs:
        """Return the ends of every edge; one that joins a node with itself may come twice."""
        return self.edges(names, direction, None, None)

    def edges(
        self,
        names: tuple[str, ...],
        direction: Direction,
        variable: str | None,
        condition: Expression | None,
    ) -> Pairs:
        """Return edges with both ends as they are walked, and what is read of the edges."""
        edge = self.edge(names)
        start, end = self.names.fresh("start"), self.names.fresh("end")
        read = () if variable is None else self.reads.of(variable)
        shown = {} if variable is None else {name: self.names.of(variable, name) for name in read}
        frame: Any = None
        for member in members_of(edge):
            turned = isinstance(edge, EdgeUnion) and edge.is_turned(member)
            way = _BACK[direction] if turned else direction
            part = self._walked(member, way, (start, end), shown, condition)
            frame = part if frame is None else frame.unionAll(part)
        if condition is not None:
            frame = frame.where(self.expressions.condition(condition))
        size = sum(self.size(member) for member in members_of(edge))
        size *= 2 if direction is Direction.BOTH else 1
        columns = frozenset() if variable is None else frozenset((variable, n) for n in read)
        return Pairs(Rows(frame=frame, columns=columns, at_most=size), start, end)

    def degrees(
        self,
        names: tuple[str, ...],
        direction: Direction,
        meant: tuple[str, str, Expression] | None,
        *,
        beside: int,
    ) -> tuple[Rows, str] | None:
        """Return nodes with how many edges they have that lead to nodes that are meant.

        These are the variable, the type and the condition of a node; None for any. As many such
        counts are made `beside` each other. A node may come several times, its name is the second
        of the result. None if workers cannot count them.
        """
        wanted = self._meant(*meant) if meant is not None else None
        if direction is Direction.BOTH or (meant is not None and wanted is None):
            return None
        edge = self.edge(names)
        key, weight = self.names.fresh("start"), self.names.fresh("edges")
        tasks = -(-self.engine.parallelism // beside)
        counts: Any = None
        for member in members_of(edge):
            turned = isinstance(edge, EdgeUnion) and edge.is_turned(member)
            way = _BACK[direction] if turned else direction
            start, end = ("dst", "src") if way is Direction.IN else ("src", "dst")
            scan = self.plan(member.name, (start,) if wanted is None else (start, end), None)
            part = Degrees(
                scan=scan,
                start=start,
                groups=divided(scan, tasks),
                held_bytes=self.engine.combine_bytes,
                meant=wanted,
            )
            frame = self.engine.frame(len(part.groups), part.read, DDL)
            frame = frame.select(col(KEY).alias(key), col(WEIGHT).alias(weight))
            counts = frame if counts is None else counts.unionAll(frame)
        size = sum(self.size(member) for member in members_of(edge))
        # Counted as far as a task can: Spark need not try before it shuffles, and must shuffle.
        counts = counts.repartition(col(key))
        return Rows(frame=counts, at_most=size, weight=weight), key

    def _meant(self, variable: str, type_name: str, condition: Expression) -> Meant | None:
        """Return what finds the nodes of a condition in workers; None if they cannot."""
        entity = self.catalog.nodes[type_name]
        columns = dict.fromkeys(("id", *self.reads.of(variable)))
        stored = tuple(name for name in columns if name != TYPE)
        cannot = (
            self.size(entity) > SPARK_MEANT_ROWS_MAX
            or has_blobs(entity)
            or can_overflow(condition)
            or variables_of(condition) != {variable}
            or any(name in self.computed for name in stored)
        )
        if cannot:
            return None
        where = storage_filter(condition, self.parameters, self.now)
        return Meant(
            scan=self.plan(type_name, stored, where),
            variable=variable,
            condition=condition,
            parameters=self.parameters,
            now=self.now,
        )

    def _walked(
        self,
        edge: EdgeType,
        direction: Direction,
        ends: tuple[str, str],
        shown: Mapping[str, str],
        condition: Expression | None,
    ) -> DataFrame:
        """Return edges of one type: both ends as they are walked, and what is shown of them."""
        from pyspark.sql import functions as F

        stored = dict.fromkeys(("src", "dst", *(name for name in shown if name != TYPE)))
        given = {name: self.names.fresh(f"edge {name}") for name in stored}
        frame = self.frame(edge, given, condition)

        def walked(one: str, other: str) -> DataFrame:
            both = [col(given[one]).alias(ends[0]), col(given[other]).alias(ends[1])]
            rest = [
                (F.lit(edge.name) if name == TYPE else col(given[name])).alias(new)
                for name, new in shown.items()
            ]
            return frame.select(*both, *rest)

        edges = walked("dst", "src") if direction is Direction.IN else walked("src", "dst")
        if direction is Direction.BOTH:
            # An edge that joins a node with itself is walked once.
            edges = edges.unionAll(walked("dst", "src").where(col(ends[0]) != col(ends[1])))
        return edges


def is_unique(edge: EdgeType) -> bool:
    """Whether two nodes have one such edge at most."""
    return any(set(item.columns) <= {"src", "dst"} for item in edge.uniques)


def _reading(
    scan: Scan, columns: tuple[str, ...], computed: Mapping[str, Computed]
) -> Callable[[int], Iterator[pa.RecordBatch]]:
    """Return what reads a task of a scan under names that differ in any case."""
    names = [f"k{at}" for at in range(len(columns))]

    def read(task: int) -> Iterator[pa.RecordBatch]:
        for batch in scan.read(task):
            arrays = [
                computed[name].compute(batch.column(computed[name].source))
                if name in computed
                else batch.column(name)
                for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    return read
