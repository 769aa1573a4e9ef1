"""Scores of pairs: how alike two nodes are by each comparison, and altogether.

Everything is computed for many pairs at once. Scores are rounded, so that they are the same
wherever and in whatever company a pair is compared.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.limits import RESOLVE_SCORE_DIGITS, RESOLVE_VECTOR_VALUES
from omnigraph.resolve.blocks import Indexes, find_blocks
from omnigraph.resolve.features import ID, key_column, value_column
from omnigraph.resolve.rules import EDITS, Comparison, MeasureWord, Rules

Scores = NDArray[np.float64]
Compare = Callable[[Indexes, Indexes], Scores]
"""Returns the score of each pair of rows, NaN where a value is missing."""

LEFT, RIGHT, SCORE = "left", "right", "score"


def pairs_schema(rules: Rules) -> pa.Schema:
    """Return the columns of a table of pairs."""
    scores = [pa.field(item.name, pa.float64()) for item in rules.compare]
    ends = [pa.field(LEFT, pa.string()), pa.field(RIGHT, pa.string())]
    return pa.schema([*ends, pa.field(SCORE, pa.float64()), *scores])


def matches(
    features: pa.Table, block: int, rules: Rules
) -> tuple[pa.Table, int, tuple[tuple[str, int], ...]]:
    """Compare the candidates of one block rule among features, which are ordered by id.

    Returns the pairs that match as a table, how many were compared, and the blocks left out.
    """
    blocks = find_blocks(features[key_column(block)], rules.block_nodes_max)
    rows = features.take(pa.array(blocks.order))
    scorer = Scorer(rows, rules)
    ids = rows[ID].combine_chunks()
    parts = [pairs_schema(rules).empty_table()]
    for left, right in blocks.pairs():
        scores, total = scorer.scores(left, right)
        kept = np.flatnonzero(scorer.is_match(scores, total))
        columns = [ids.take(pa.array(left[kept])), ids.take(pa.array(right[kept]))]
        for values in (total, *scores):
            column = values[kept]
            columns.append(pa.array(column, mask=np.isnan(column)))
        parts.append(pa.Table.from_arrays(columns, schema=pairs_schema(rules)))
    return pa.concat_tables(parts), blocks.pair_count, blocks.large


def distinct(pairs: pa.Table) -> pa.Table:
    """Return pairs once each, by their ids; a pair may share several blocks."""
    ordered = pairs.sort_by([(LEFT, "ascending"), (RIGHT, "ascending")]).combine_chunks()
    if ordered.num_rows < 2:
        return ordered
    same = np.ones(ordered.num_rows - 1, dtype=bool)
    for name in (LEFT, RIGHT):
        codes = ordered[name].combine_chunks().dictionary_encode().indices.to_numpy()
        same &= codes[1:] == codes[:-1]
    return ordered.filter(pa.array(np.concatenate([[True], ~same])))


class Scorer:
    """Compares rows of features by rules."""

    def __init__(self, features: pa.Table, rules: Rules) -> None:
        self._rules = rules
        self._weights = np.array([item.weight for item in rules.compare])
        self._compare = [_prepared(features[value_column(item)], item) for item in rules.compare]

    def scores(self, left: Indexes, right: Indexes) -> tuple[list[Scores], Scores]:
        """Return the score of each comparison, and their weighted mean over those that are known.

        A pair of which nothing can be compared has the score 0.
        """
        scores = [compare(left, right) for compare in self._compare]
        scores = [np.round(item, RESOLVE_SCORE_DIGITS) for item in scores]
        total, weight = np.zeros(len(left)), np.zeros(len(left))
        for item, own in zip(scores, self._weights, strict=True):
            known = ~np.isnan(item)
            total += np.where(known, item, 0.0) * own
            weight += known * own
        mean: Scores = np.divide(total, weight, out=np.zeros(len(left)), where=weight > 0)
        return scores, np.round(mean, RESOLVE_SCORE_DIGITS).astype(np.float64)

    def is_match(self, scores: list[Scores], total: Scores) -> NDArray[np.bool_]:
        """Tell which pairs reach every threshold; a missing value reaches none of its own."""
        kept = total >= self._rules.threshold
        for item, values in zip(self._rules.compare, scores, strict=True):
            if item.threshold is not None:
                # NaN is never above anything.
                kept &= values >= item.threshold
        return kept


def _prepared(column: pa.ChunkedArray, item: Comparison) -> Compare:
    values = column.combine_chunks()
    if item.by == "vector":
        return _by_vector(values, item.measure or "cosine")
    return _by_edits(values) if item.by in EDITS else _by_equality(values)


def _by_equality(values: pa.Array) -> Compare:
    codes = values.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)

    def compare(left: Indexes, right: Indexes) -> Scores:
        mine, other = codes[left], codes[right]
        return np.where((mine < 0) | (other < 0), np.nan, mine == other)

    return compare


def _by_edits(values: pa.Array) -> Compare:
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cpdist

    texts = np.array([*values.to_pylist(), None], dtype=object)[:-1]
    missing = values.is_null().to_numpy(zero_copy_only=False)

    def compare(left: Indexes, right: Indexes) -> Scores:
        scores = np.full(len(left), np.nan)
        known = np.flatnonzero(~(missing[left] | missing[right]))
        scores[known] = cpdist(
            texts[left[known]].tolist(),
            texts[right[known]].tolist(),
            scorer=Levenshtein.normalized_similarity,
            dtype=np.float64,
            workers=1,
        )
        return scores

    return compare


def _by_vector(values: pa.FixedSizeListArray, measure: MeasureWord) -> Compare:
    size = values.type.list_size
    missing = values.is_null().to_numpy(zero_copy_only=False)
    filled = values.flatten() if not missing.any() else values.fill_null([0.0] * size).flatten()
    rows = filled.to_numpy(zero_copy_only=False).reshape(len(values), size)
    at_once = max(1, RESOLVE_VECTOR_VALUES // size)

    def some(left: Indexes, right: Indexes) -> Scores:
        mine, other = rows[left].astype(np.float64), rows[right].astype(np.float64)
        if measure == "l2":
            near: Scores = 1.0 / (1.0 + np.sqrt(((mine - other) ** 2).sum(axis=1)))
            return near
        lengths = np.sqrt((mine**2).sum(axis=1) * (other**2).sum(axis=1))
        product = (mine * other).sum(axis=1)
        unknown = np.full(len(left), np.nan)
        cosine: Scores = np.divide(product, lengths, out=unknown, where=lengths > 0)
        return np.clip(cosine, 0.0, 1.0).astype(np.float64)

    def compare(left: Indexes, right: Indexes) -> Scores:
        parts = [
            some(left[at : at + at_once], right[at : at + at_once])
            for at in range(0, len(left), at_once)
        ]
        return np.where(missing[left] | missing[right], np.nan, np.concatenate(parts))

    return compare
