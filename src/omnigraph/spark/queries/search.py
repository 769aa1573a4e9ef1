"""Search inside a query on Spark.

Text predicates and distances are computed by workers from the rows they read, with the same code
as in one process, so both engines agree to the last bit and neither texts nor vectors enter Java.
Rankings by words need the statistics of all texts before the first score, and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from msgspec import structs

from omnigraph.catalog.model import LiteralValue
from omnigraph.errors import BadRequestError
from omnigraph.plan.expression import (
    SCORE,
    Bm25,
    Expression,
    IsNull,
    Metric,
    Nearest,
    ObjectOf,
    PropertyOf,
    Rrf,
    TextMatch,
    walk,
)
from omnigraph.plan.read import Expand, ExpandInto, ReadPlan, SortKey, Step
from omnigraph.read.arrays import Scores
from omnigraph.read.ranking import RANK, Embed, query_vector
from omnigraph.read.reads import all_steps
from omnigraph.read.search import COMPUTED, TextQuery, text_query, transform_plan
from omnigraph.read.segments import Segment
from omnigraph.read.text import TextColumn, build_text_segment
from omnigraph.read.vectors import build_vector_segment, distances_of, nullable
from omnigraph.spark.frames import Scan
from omnigraph.spark.queries.rows import Joins, Rows, col
from omnigraph.spark.queries.tables import Computed, Tables
from omnigraph.store import read_fragments

_DISTANCES = "id string, distance double"


def check_supported(plan: ReadPlan) -> None:
    """Refuse rankings, paths and columns that this engine does not compute."""
    if any(has_path(step) for step in all_steps(plan.steps)):
        raise BadRequestError(
            f"query '{plan.name}' names a path, which does not run on Spark",
            hint="run it with engine='local'",
        )
    parts: list[Expression] = [column.expression for column in plan.columns]
    parts += [key.expression for key in plan.sort_keys]
    parts += [] if plan.ranking is None else [plan.ranking]
    for expression in parts:
        for part in walk(expression):
            if isinstance(part, ObjectOf):
                raise BadRequestError(
                    f"'{plan.name}' returns an entity as a whole, which does not run on Spark",
                    hint="name its properties, or run it with engine='local'",
                )
            if isinstance(part, Bm25 | Rrf):
                word = "bm25" if isinstance(part, Bm25) else "rrf"
                raise BadRequestError(
                    f"query '{plan.name}' ranks by `{word}`, which does not run on Spark",
                    hint="run it with engine='local'",
                )


def has_path(step: Step) -> bool:
    """Whether a step names the path it goes."""
    return isinstance(step, Expand | ExpandInto) and step.path_variable is not None


@dataclass(frozen=True, slots=True)
class Matches:
    """A column that workers compute: true where a text matches, null elsewhere."""

    source: str
    query: TextQuery | None
    sql: str = "boolean"

    def compute(self, texts: pa.Array) -> pa.Array:
        """Return the column for the texts of some rows."""
        if self.query is None:
            return pa.nulls(len(texts), pa.bool_())
        language = self.query.language
        segment = Segment(build_text_segment(texts, language), 0, len(texts), None)
        matches = self.query.matches(TextColumn([segment], language))
        return pa.array(matches, pa.bool_(), mask=~matches)


@dataclass(slots=True)
class Predicates:
    """Text predicates of a plan, by the names of the columns that stand for them."""

    constant: Callable[[Expression], LiteralValue]
    names: dict[TextMatch, str] = field(default_factory=dict)
    columns: dict[str, Computed] = field(default_factory=dict)

    def replaced(self, match: Expression) -> Expression | None:
        """Return a condition on a computed column that means the same as a text predicate."""
        if not isinstance(match, TextMatch):
            return None
        if match not in self.names:
            name = self.names[match] = f"{COMPUTED}{len(self.names)}"
            self.columns[name] = Matches(match.property, text_query(match, self.constant))
        column = PropertyOf(variable=match.variable, property=self.names[match], type=match.type)
        # Null where it does not match: so a variable an optional block left null does not either.
        return IsNull(operand=column, negated=True)


def without_texts(
    plan: ReadPlan, constant: Callable[[Expression], LiteralValue]
) -> tuple[ReadPlan, dict[str, Computed]]:
    """Return a plan whose text predicates are columns, and these columns."""
    predicates = Predicates(constant)
    return transform_plan(plan, predicates.replaced), predicates.columns


# ---- distances ----------------------------------------------------------------------------


def ranked(
    plan: ReadPlan, rows: Rows, tables: Tables, joins: Joins, embed: Embed
) -> tuple[ReadPlan, Rows]:
    """Return a plan whose distances are columns, and rows that have them."""
    run = _Ranking(tables, joins, embed, rows)
    ranking = plan.ranking
    plan = structs.replace(transform_plan(plan, run.replaced), ranking=None)
    if isinstance(ranking, Nearest):
        key = run.replaced(ranking)
        if key is not None:
            plan = structs.replace(plan, sort_keys=(SortKey(expression=key), *plan.sort_keys))
            run.rows = run.rows.kept(tables.expressions.value(key).isNotNull())
    return plan, run.rows


@dataclass(slots=True)
class _Ranking:
    tables: Tables
    joins: Joins
    embed: Embed
    rows: Rows
    known: dict[Nearest, PropertyOf] = field(default_factory=dict)

    def replaced(self, expression: Expression) -> Expression | None:
        """Return the column of a distance."""
        if not isinstance(expression, Nearest):
            return None
        if expression not in self.known:
            name = f"{COMPUTED}score{len(self.known)}"
            self._measure(expression, name)
            self.known[expression] = PropertyOf(variable=RANK, property=name, type=SCORE)
        return self.known[expression]

    def _measure(self, ranking: Nearest, name: str) -> None:
        from pyspark.sql import functions as F

        tables = self.tables
        target = tables.names.of(RANK, name)
        entity = tables.catalog.nodes[tables.reads.types[ranking.variable]]
        size = entity.properties[ranking.property].type.vector_dim or 0
        value = tables.expressions.constant(ranking.query)
        if value is None:
            frame = self.rows.frame.withColumn(target, F.lit(None).cast("double"))
        else:
            query = query_vector(ranking, value, size, self.embed)
            scan = tables.plan(entity.name, ("id", ranking.property), None)
            read = measuring(scan, query, ranking.metric)
            distances = tables.engine.frame(len(scan.groups), read, _DISTANCES)
            key = tables.names.fresh("measured")
            distances = distances.select(col("id").alias(key), col("distance").alias(target))
            side = Rows(frame=distances, at_most=tables.size(entity))
            on = [(tables.names.of(ranking.variable, "id"), key)]
            frame = self.joins.outer(self.rows, side, on, "left", f"nearest ${ranking.variable}")
            frame = frame.drop(col(key))
        self.rows = self.rows.having(frame, [(RANK, name)], at_most=self.rows.at_most)


def measuring(
    scan: Scan, query: Scores, metric: Metric = Metric.L2
) -> Callable[[int], Iterator[pa.RecordBatch]]:
    """Return what computes, task by task, the distance of every row that has a vector."""

    def measure(task: int) -> Iterator[pa.RecordBatch]:
        for batch in read_fragments(scan.folder, scan.version, scan.groups[task], scan.names):
            segment = build_vector_segment(batch.column(1))
            distances = np.full(batch.num_rows, np.nan)
            known = segment.places >= 0
            distances[known] = distances_of(segment, segment.places[known], query, metric)
            yield pa.RecordBatch.from_arrays(
                [batch.column(0), nullable(distances)], names=["id", "distance"]
            )

    return measure
