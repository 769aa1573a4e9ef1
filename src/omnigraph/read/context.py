"""What every step of one query needs."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import numpy as np
from msgspec import Struct, field

from omnigraph.catalog import Catalog, EdgeUnion, united
from omnigraph.catalog.model import LiteralValue
from omnigraph.compute import evaluate_condition
from omnigraph.plan.expression import Expression, variables_of
from omnigraph.read.arrays import Mask, Rows
from omnigraph.read.columns import Columns
from omnigraph.read.frame import Frame, FrameColumns, Source, WholeColumns
from omnigraph.read.keys import named_id
from omnigraph.read.topology import Topology, TopologySource
from omnigraph.store import Pin


class Context(Struct, frozen=True):
    """What every step of one query needs: the snapshot, the values, the caches."""

    catalog: Catalog
    pins: Mapping[str, Pin]
    columns: Columns
    topologies: TopologySource
    parameters: Mapping[str, LiteralValue]
    now: datetime.datetime
    factorise: bool = True
    """Whether ways may be counted instead of listed; the results are the same."""
    parts: dict[int, Frame] = field(default_factory=dict)
    """Rows of parts of the pattern that do not depend on others, made once in a query."""

    def node(self, name: str) -> Source:
        """Return the source of a node type."""
        entity = self.catalog.nodes[name]
        return Source(entity, self.pins[entity.table_key])

    def edge(self, names: tuple[str, ...]) -> Source:
        """Return the source of edges of one type, or of several as one."""
        members = [self.catalog.edges[name] for name in names]
        sources = tuple(Source(edge, self.pins[edge.table_key]) for edge in members)
        if len(sources) == 1:
            return sources[0]
        return Source(united(members), sources[0].pin, members=sources)

    def topology(self, names: tuple[str, ...]) -> Topology:
        """Return the adjacency of edges of one type, or of several as one."""
        edge = united([self.catalog.edges[name] for name in names])
        if isinstance(edge, EdgeUnion):
            return self.topologies.united(edge, self.pins)
        return self.topologies.get(
            edge,
            self.pins[edge.table_key],
            self.pins[f"node:{edge.source}"],
            self.pins[f"node:{edge.target}"],
        )

    def matching(self, source: Source, condition: Expression | None) -> Mask | None:
        """Return which rows of a table satisfy a condition; None for all of them."""
        if condition is None:
            return None
        whole = WholeColumns(source, self.columns)
        return np.asarray(evaluate_condition(condition, whole, self.parameters, self.now))

    def matching_rows(self, source: Source, condition: Expression, rows: Rows) -> Mask:
        """Return which of some rows of a table satisfy a condition on its one variable."""
        name = next(iter(variables_of(condition)), "")
        frame = Frame(len(rows), {name: rows}, {name: source})
        columns = FrameColumns(frame, self.columns)
        return np.asarray(evaluate_condition(condition, columns, self.parameters, self.now))

    def by_key(self, source: Source, condition: Expression) -> Rows | None:
        """Return the row a condition names by its id; None when it names none."""
        named = named_id(source.entity, condition, self.parameters, self.now)
        if named is None:
            return None
        id, rest = named
        number = self.columns.keys(source.pin).find(id)
        if number < 0:
            return np.empty(0, dtype=np.int64)
        rows = np.array([number], dtype=np.int64)
        return rows if rest is None else rows[self.matching_rows(source, rest, rows)]
