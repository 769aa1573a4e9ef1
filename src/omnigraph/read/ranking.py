"""Ranks the rows a pattern left: by distance, by text score, or by both fused.

Every ranking becomes a column of the pseudo-variable `#rank`, so that it can be returned, sorted by
and aggregated like any other. Ties inside a ranking go by id.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from omnigraph.catalog import NodeType
from omnigraph.catalog.model import LiteralValue
from omnigraph.errors import QueryError
from omnigraph.plan.expression import (
    INT,
    SCORE,
    Bm25,
    Expression,
    Metric,
    Nearest,
    PropertyOf,
    Rrf,
)
from omnigraph.plan.read import ReadPlan, SortKey
from omnigraph.read.arrays import Mask, Rows, Scores
from omnigraph.read.frame import Frame, Source
from omnigraph.read.search import COMPUTED, Constant, SearchColumns, transform_plan, words_of
from omnigraph.read.vectors import as_query, nullable
from omnigraph.read.words import meaningful
from omnigraph.store import Pin

Embed = Callable[[Nearest, str, int], Scores]
"""Turns the text of a `nearest` into a vector of the property's size."""

RANK = "#rank"
_PIN = Pin(
    table_key=RANK, incarnation=0, path=RANK, version=0, row_count=0, transaction_uuid="", seq=0
)


class Ranker(Struct, frozen=True):
    """Computes the rankings of one query."""

    columns: SearchColumns
    constant: Constant
    embed: Embed

    def rank(self, plan: ReadPlan, frame: Frame) -> tuple[ReadPlan, Frame]:
        """Return a plan whose rankings are columns, and the rows that have a place in it."""
        run = _Run(self, plan, frame)
        ranking = plan.ranking
        if isinstance(ranking, Nearest):
            run.measure(ranking)
        # Fused places are places among all candidates, so every ranking comes before the cut.
        plan = replace(transform_plan(plan, run.replaced), ranking=None)
        if ranking is None:
            return plan, run.finished()
        scores = run.scores(ranking)
        best_first = not isinstance(ranking, Nearest)
        key = SortKey(expression=run.reference(ranking), descending=best_first)
        ties = run.arm_keys(ranking) if isinstance(ranking, Rrf) else ()
        run.keep(_best(scores, ranking, run.depth))
        return replace(plan, sort_keys=(key, *plan.sort_keys, *ties)), run.finished()


def query_vector(ranking: Nearest, value: LiteralValue, size: int, embed: Embed) -> Scores:
    """Return the vector that a `nearest` asks for, checked; a text is embedded."""
    query = embed(ranking, value, size) if isinstance(value, str) else as_query(value)
    if query.shape != (size,):
        raise QueryError(f"expected {size} values for Vector({size}), got {len(query)}")
    if not np.isfinite(query).all():
        raise QueryError("a query vector must hold finite 32-bit numbers")
    if ranking.metric is Metric.COSINE and not query.any():
        raise QueryError("a query vector of zeros has no direction, which `cosine` compares")
    return query


def _best(scores: Scores, ranking: Nearest | Bm25 | Rrf, depth: int | None) -> Rows:
    """Return the rows with a score; only the best of them, and their equals, if that suffices."""
    ranked = np.nonzero(~np.isnan(scores))[0]
    if depth is None or depth >= len(ranked):
        return ranked
    if depth == 0:
        return ranked[:0]
    values = scores[ranked] if isinstance(ranking, Nearest) else -scores[ranked]
    best: Mask = values <= np.partition(values, depth - 1)[depth - 1]
    return ranked[best]


class _Run:
    """The rankings of one query over one set of rows."""

    def __init__(self, ranker: Ranker, plan: ReadPlan, frame: Frame) -> None:
        self._ranker = ranker
        self._frame = frame
        self._known: dict[Nearest | Bm25 | Rrf, Scores] = {}
        self._places: dict[Nearest | Bm25, Rows] = {}
        self._columns: dict[str, Scores] = {}
        self._queries: dict[tuple[Expression, Metric, int], Scores] = {}
        limit, offset = (self._count(item) for item in (plan.limit, plan.offset))
        # Where rows are merged, the limit says nothing about how many of them matter.
        merged = limit is None or plan.grouped or plan.distinct
        self.depth = None if merged else (limit or 0) + (offset or 0)

    def _count(self, expression: Expression | None) -> int | None:
        value = None if expression is None else self._ranker.constant(expression)
        return value if isinstance(value, int) and value >= 0 else None

    # ---- columns --------------------------------------------------------------------------

    def replaced(self, expression: Expression) -> Expression | None:
        """Return the column that stands for a ranking."""
        if not isinstance(expression, Nearest | Bm25 | Rrf):
            return None
        self.scores(expression)
        return self.reference(expression)

    def reference(self, ranking: Nearest | Bm25 | Rrf) -> PropertyOf:
        """Return the computed column of a ranking."""
        name = f"{COMPUTED}score{list(self._known).index(ranking)}"
        self._columns[name] = self._known[ranking]
        return PropertyOf(variable=RANK, property=name, type=SCORE)

    def arm_keys(self, ranking: Rrf) -> tuple[SortKey, ...]:
        """Return what decides between equal fused scores: the first ranking, then the second."""
        keys: list[SortKey] = []
        for index, arm in enumerate((ranking.first, ranking.second)):
            name = f"{COMPUTED}place{index}"
            places = self._places[arm].astype(np.float64)
            # Not being ranked comes after every place.
            self._columns[name] = np.where(places < 0, np.inf, places)
            column = PropertyOf(variable=RANK, property=name, type=INT)
            keys.append(SortKey(expression=column))
        return tuple(keys)

    def keep(self, rows: Rows) -> None:
        """Go on with these rows only."""
        if len(rows) == self._frame.size:
            return
        self._frame = self._frame.take(rows)
        self._known = {key: values[rows] for key, values in self._known.items()}
        self._places = {key: values[rows] for key, values in self._places.items()}
        self._columns = {key: values[rows] for key, values in self._columns.items()}

    def finished(self) -> Frame:
        """Return the rows with the computed columns attached."""
        for name, values in self._columns.items():
            self._ranker.columns.put(_PIN, name, nullable(values))
        numbers = np.arange(self._frame.size, dtype=np.int64)
        source = Source(NodeType(name=RANK, properties={}), _PIN)
        return self._frame.with_variable(RANK, numbers, source)

    # ---- scores ---------------------------------------------------------------------------

    def scores(self, ranking: Nearest | Bm25 | Rrf) -> Scores:
        """Return the score of every row, NaN where it has none."""
        scores = self._known.get(ranking)
        if scores is None:
            match ranking:
                case Nearest():
                    scores = self._distances(ranking, None)
                case Bm25():
                    scores = self._text_scores(ranking)
                case Rrf():
                    scores = self._fused(ranking)
            self._known[ranking] = scores
        return scores

    def _entities(self, variable: str) -> tuple[Rows, Rows]:
        """Return the distinct nodes a variable stands for, and which of them each row has."""
        distinct, inverse = np.unique(self._frame.numbers[variable], return_inverse=True)
        return distinct, inverse.reshape(-1)

    def measure(self, ranking: Nearest) -> None:
        """Compute the distances of a ranking that cuts the rows: only the nearest matter."""
        self._known[ranking] = self._distances(ranking, self.depth)

    def _distances(self, ranking: Nearest, depth: int | None) -> Scores:
        """Return distances; with a depth, at least those of that many nearest rows."""
        source = self._frame.sources[ranking.variable]
        size = source.entity.properties[ranking.property].type.vector_dim or 0
        query = self._vector(ranking, size)
        if query is None:
            return np.full(self._frame.size, np.nan)
        distinct, inverse = self._entities(ranking.variable)
        distances = self._ranker.columns.neighbours.distances(
            source.pin, ranking.property, distinct, query, ranking.metric, depth=depth
        )
        return distances[inverse]

    def _vector(self, ranking: Nearest, size: int) -> Scores | None:
        """Return the query vector; a text is embedded once, wherever it stands."""
        value = self._ranker.constant(ranking.query)
        if value is None:
            return None
        key = (ranking.query, ranking.metric, size)
        if key not in self._queries:
            self._queries[key] = query_vector(ranking, value, size, self._ranker.embed)
        return self._queries[key]

    def _text_scores(self, ranking: Bm25) -> Scores:
        text = self._ranker.constant(ranking.query)
        if text is None:
            return np.full(self._frame.size, np.nan)
        source = self._frame.sources[ranking.variable]
        language = ranking.language
        words = meaningful(words_of(str(text), "bm25", language), language)
        column = self._ranker.columns.text(source.pin, ranking.property, language)
        scores = column.scores(words)
        numbers = self._frame.numbers[ranking.variable]
        row_scores = np.full(self._frame.size, np.nan)
        bound = numbers >= 0
        row_scores[bound] = scores[numbers[bound]]
        return row_scores

    def _fused(self, ranking: Rrf) -> Scores:
        k = self._ranker.constant(ranking.k)
        if not isinstance(k, int) or k <= 0:
            raise QueryError(f"k of `rrf` must be greater than 0, got {k}")
        total = np.zeros(self._frame.size)
        for arm in (ranking.first, ranking.second):
            places = self._places_of(arm)
            total += np.where(places < 0, 0.0, 1.0 / (k + places + 1.0))
        return np.where(total > 0, total, np.nan)

    def _places_of(self, arm: Nearest | Bm25) -> Rows:
        """Return the place of every row's node in a ranking, from 0; -1 where it is not in it."""
        row_places = self._places.get(arm)
        if row_places is not None:
            return row_places
        known = self._known.get(arm)
        if known is None and isinstance(arm, Nearest):
            # Not kept: as a column of its own the distance is wanted for every row.
            scores = self._distances(arm, self.depth)
        else:
            scores = self.scores(arm)
        distinct, inverse = self._entities(arm.variable)
        first = np.full(len(distinct), np.nan)
        first[inverse] = scores
        ids = self._ranker.columns.column(self._frame.sources[arm.variable].pin, "id")
        # A nearest neighbour beyond what was asked for does not count as one.
        depth = self.depth if isinstance(arm, Nearest) else None
        ranked = _best(first, arm, depth)
        names = pc.rank(ids.take(distinct[ranked]), tiebreaker="first").to_numpy()
        values = first[ranked] if isinstance(arm, Nearest) else -first[ranked]
        order = np.lexsort((names, values))[:depth]
        places = np.full(len(distinct), -1, dtype=np.int64)
        places[ranked[order]] = np.arange(len(order))
        row_places = places[inverse]
        self._places[arm] = row_places
        return row_places
