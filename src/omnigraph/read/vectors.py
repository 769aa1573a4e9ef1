"""Distances between a query vector and the vectors of a column, exact by each metric."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.limits import (
    F32_ROUNDING,
    NEAREST_ROWS_MIN,
    NEAREST_ROWS_SHARE,
    SQUARES_SLACK,
    VECTOR_BLOCK_VALUES,
)
from omnigraph.plan.expression import Metric
from omnigraph.read.arrays import Rows, Scores, Vectors
from omnigraph.read.segments import Segment


class VectorSegment(Struct, frozen=True):
    """The vectors of some rows: row `i` has `matrix[places[i]]`, or none where that is -1.

    `squares` holds the squared length of every vector.
    """

    matrix: Vectors
    places: Rows
    squares: Scores

    @property
    def size_bytes(self) -> int:
        """Memory it holds."""
        return int(self.matrix.nbytes + self.places.nbytes + self.squares.nbytes)


def build_vector_segment(vectors: pa.FixedSizeListArray) -> VectorSegment:
    """Return the vectors of a fixed-size list column as one matrix."""
    width = vectors.type.list_size
    valid = pc.is_valid(vectors)
    present = vectors.filter(valid).flatten().to_numpy(zero_copy_only=False)
    matrix = np.ascontiguousarray(present, dtype=np.float32).reshape(-1, width)
    flags = valid.to_numpy(zero_copy_only=False)
    places = np.where(flags, np.cumsum(flags) - 1, -1).astype(np.int32)
    squares = squares_of(matrix, np.arange(len(matrix)), np.zeros(width))
    return VectorSegment(matrix, places, squares)


class VectorColumn:
    """The vectors of one column of a table version."""

    def __init__(self, segments: list[Segment[VectorSegment]]) -> None:
        self._segments = segments

    def distances(self, rows: Rows, query: Scores, metric: Metric = Metric.L2) -> Scores:
        """Return the distance of some rows, NaN where a row has no vector."""
        distances = np.full(len(rows), np.nan)
        for segment, inside, places in self._parts(rows):
            distances[inside] = distances_of(segment, places, query, metric)
        return distances

    def nearest(
        self, rows: Rows, query: Scores, metric: Metric = Metric.L2, *, depth: int
    ) -> Scores:
        """Return the distances of at least the nearest `depth` of some rows, NaN for others.

        Single precision tells which rows cannot be among them: its error is bounded, so the
        result is the same as if every distance had been computed in full.
        """
        if depth == 0 or len(rows) <= max(NEAREST_ROWS_SHARE * depth, NEAREST_ROWS_MIN):
            return self.distances(rows, query, metric)
        low, high = np.full(len(rows), np.nan), np.full(len(rows), np.inf)
        for segment, inside, places in self._parts(rows):
            low[inside], high[inside] = _bounds(segment, places, query, metric)
            if not np.isfinite(high[inside]).all():
                # Too large for single precision, or without a direction.
                return self.distances(rows, query, metric)
        limit = np.partition(high, depth - 1)[depth - 1]
        chosen = np.nonzero(low <= limit)[0]
        distances = np.full(len(rows), np.nan)
        distances[chosen] = self.distances(rows[chosen], query, metric)
        return distances

    def _parts(self, rows: Rows) -> Iterator[tuple[VectorSegment, Rows, Rows]]:
        """Yield, per segment, which of the rows have a vector in it, and where."""
        for item in self._segments:
            inside = np.nonzero((rows >= item.start) & (rows < item.start + item.rows))[0]
            if len(inside):
                places = item.live(item.value.places)[rows[inside] - item.start]
                known = places >= 0
                yield item.value, inside[known], places[known]


def distances_of(segment: VectorSegment, places: Rows, query: Scores, metric: Metric) -> Scores:
    """Return distances: L2, or 1 less the product of both vectors, or of their directions.

    A vector of length 0 has no direction, and so no distance: NaN.
    """
    if metric is Metric.L2:
        return np.sqrt(squares_of(segment.matrix, places, query))
    products = _products(segment.matrix, places, query)
    if metric is Metric.DOT:
        return 1.0 - products
    lengths = np.sqrt(segment.squares[places] * float(query @ query))
    directed = lengths > 0
    shares = np.full(len(places), np.nan)
    np.divide(products, lengths, out=shares, where=directed)
    return np.clip(1.0 - shares, 0.0, 2.0)


def _products(matrix: Vectors, places: Rows, query: Scores) -> Scores:
    """Return the products with a vector, in 64 bits and row by row as `squares_of` does."""
    products = np.empty(len(places))
    step = max(1, VECTOR_BLOCK_VALUES // max(1, matrix.shape[1]))
    for start in range(0, len(places), step):
        block = matrix[places[start : start + step]].astype(np.float64)
        block *= query
        products[start : start + step] = np.einsum("ij->i", block)
    return products


def squares_of(matrix: Vectors, places: Rows, query: Scores) -> Scores:
    """Return squared distances: in 64 bits and row by row, whatever rows are computed together."""
    squares = np.empty(len(places))
    step = max(1, VECTOR_BLOCK_VALUES // max(1, matrix.shape[1]))
    for start in range(0, len(places), step):
        block = matrix[places[start : start + step]].astype(np.float64)
        block -= query
        squares[start : start + step] = np.einsum("ij,ij->i", block, block)
    return squares


def _bounds(
    segment: VectorSegment, places: Rows, query: Scores, metric: Metric
) -> tuple[Scores, Scores]:
    """Return bounds of something that grows with the distance, from products in 32 bits.

    The error of a product of n terms is at most n * 2^-24 of the lengths' product, in any order of
    summation; twice that covers the rounding of everything else.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        products = (segment.matrix @ query.astype(np.float32)).astype(np.float64)[places]
    squares = segment.squares[places]
    own = float(query @ query)
    lengths = np.sqrt(squares * own)
    if metric is Metric.L2:
        about = squares - 2 * products + own
        slack = 4 * len(query) * F32_ROUNDING * lengths
        slack += SQUARES_SLACK * (squares + own)
        return about - slack, about + slack
    slack = (2 * len(query) * F32_ROUNDING + SQUARES_SLACK) * lengths
    if metric is Metric.DOT:
        # Distances are rounded where 1 is: small products are equal there, and ids decide.
        slack += np.finfo(np.float64).eps
        return -products - slack, -products + slack
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (-products - slack) / lengths, (-products + slack) / lengths
    return low, np.where(lengths > 0, high, np.inf)


def as_query(values: object) -> Scores:
    """Return a query vector rounded to 32 bits, as stored vectors are."""
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float64).astype(np.float32).astype(np.float64)


def nullable(values: Scores) -> pa.Array:
    """Return scores as an Arrow column, null where there is none."""
    return pa.array(values, pa.float64(), mask=np.isnan(values))
