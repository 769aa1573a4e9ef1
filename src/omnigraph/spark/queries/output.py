"""Rows of a pattern into result columns: grouping, distinct, order, cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import QueryError
from omnigraph.limits import I64_MAX
from omnigraph.plan.expression import (
    Aggregate,
    ColumnOf,
    Expression,
    PropertyOf,
    transform,
)
from omnigraph.plan.read import ReadPlan
from omnigraph.read.tree import aggregates_of
from omnigraph.spark.frames import sql_type
from omnigraph.spark.queries.aggregates import Aggregates
from omnigraph.spark.queries.expressions import Expressions
from omnigraph.spark.queries.rows import Rows, col
from omnigraph.spark.queries.tables import Tables
from omnigraph.spark.queries.values import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_GROUP = "#group"
_LIMIT_MAX = 2**31 - 1
"""The most rows that Spark cuts a frame to."""


def build_output(plan: ReadPlan, rows: Rows, tables: Tables) -> DataFrame:
    """Return the frame of a result, its shown columns named by position: `c0`, `c1` and so on."""
    return _Output(plan, rows, tables).frame()


@dataclass(slots=True)
class _Output:
    plan: ReadPlan
    rows: Rows
    tables: Tables

    @property
    def _expressions(self) -> Expressions:
        return self.tables.expressions

    def frame(self) -> DataFrame:
        """Return the result."""
        plan = self.plan
        extra: list[Column] = []
        if plan.grouped:
            frame = self._grouped()
        else:
            shown = [
                self._expressions.value(item.expression).cast(sql_type(item.type)).alias(f"c{at}")
                for at, item in enumerate(plan.columns)
            ]
            extra = [] if plan.distinct else self._sorted_by()
            frame = self.rows.frame.select(*shown, *extra)
            if plan.distinct:
                frame = frame.distinct()
        frame = self._ordered(frame, ties=len(extra) > 0)
        frame = self._cut(frame)
        kept = [f"c{at}" for at, item in enumerate(plan.columns) if not item.hidden]
        return frame.select(*kept)

    # ---- groups ---------------------------------------------------------------------------

    def _grouped(self) -> DataFrame:
        aggregates = Aggregates(self.rows, self.tables)
        columns = self.plan.columns
        wanted = list(dict.fromkeys(item for c in columns for item in aggregates_of(c.expression)))
        keys = [
            self._expressions.value(item.expression).cast(sql_type(item.type)).alias(f"c{at}")
            for at, item in enumerate(columns)
            if not aggregates_of(item.expression)
        ]
        parts = [part for at, item in enumerate(wanted) for part in aggregates.partials(at, item)]
        grouped = self.rows.frame.groupBy(*keys)
        groups = grouped.agg(*parts) if parts else self.rows.frame.select(*keys).distinct()
        results = {f"r{at}": aggregates.result(at, item) for at, item in enumerate(wanted)}
        done: DataFrame = groups.select(
            *[
                col(f"c{at}")
                for at, item in enumerate(columns)
                if not aggregates_of(item.expression)
            ],
            *[value.alias(name) for name, value in results.items()],
        )
        over = Expressions(lambda _group, name: col(name), self.tables.parameters, self.tables.now)
        return done.select(
            *[
                (
                    over.value(_with_results(item.expression, wanted))
                    if aggregates_of(item.expression)
                    else col(f"c{at}")
                )
                .cast(sql_type(item.type))
                .alias(f"c{at}")
                for at, item in enumerate(columns)
            ]
        )

    # ---- order and cut --------------------------------------------------------------------

    def _sorted_by(self) -> list[Column]:
        """Return the sort keys that are no result columns, and the ids that break ties."""
        plan = self.plan
        if not plan.sort_keys:
            return []
        keys = [
            self._expressions.value(key.expression).alias(f"o{at}")
            for at, key in enumerate(plan.sort_keys)
            if not isinstance(key.expression, ColumnOf)
        ]
        return keys + [
            self.tables.column(name, "id").alias(f"t{at}")
            for at, name in enumerate(sorted(plan.variables))
        ]

    def _ordered(self, frame: DataFrame, *, ties: bool) -> DataFrame:
        keys: list[Column] = []
        for at, key in enumerate(self.plan.sort_keys):
            expression = key.expression
            name = f"c{expression.index}" if isinstance(expression, ColumnOf) else f"o{at}"
            keys.append(
                col(name).desc_nulls_last() if key.descending else col(name).asc_nulls_first()
            )
        if ties:
            keys += [col(f"t{at}").asc_nulls_first() for at in range(len(self.plan.variables))]
        return frame.orderBy(*keys) if keys else frame

    def _cut(self, frame: DataFrame) -> DataFrame:
        start = self._number(self.plan.offset, "offset") or 0
        size = self._number(self.plan.limit, "limit")
        if start > _LIMIT_MAX:
            return frame.limit(0)
        if start:
            frame = frame.offset(start)
        return frame if size is None or size > _LIMIT_MAX else frame.limit(size)

    def _number(self, expression: Expression | None, word: str) -> int | None:
        if expression is None:
            return None
        value = self._expressions.constant(expression)
        if not isinstance(value, int) or value < 0:
            raise QueryError(f"`{word}` must not be negative, got {value}")
        return min(value, I64_MAX)


def _with_results(expression: Expression, wanted: list[Aggregate]) -> Expression:
    """Return an expression with its aggregates replaced by their computed columns."""

    def computed(part: Expression) -> Expression | None:
        if not isinstance(part, Aggregate):
            return None
        return PropertyOf(variable=_GROUP, property=f"r{wanted.index(part)}", type=part.type)

    return transform(expression, computed)
