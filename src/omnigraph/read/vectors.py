"""Distances between a query vector and the vectors of a column: exact, Euclidean (L2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.limits import VECTOR_BLOCK_VALUES
from omnigraph.read.segments import Segment

Array = Any


@dataclass(frozen=True, slots=True)
class VectorSegment:
    """The vectors of some rows: row `i` has `matrix[places[i]]`, or none where that is -1."""

    matrix: Array
    places: Array

    @property
    def size_bytes(self) -> int:
        """Memory it holds."""
        return int(self.matrix.nbytes + self.places.nbytes)


def build_vector_segment(vectors: Any) -> VectorSegment:
    """Return the vectors of a fixed-size list column as one matrix."""
    width = vectors.type.list_size
    valid = pc.is_valid(vectors)
    present = vectors.filter(valid).flatten().to_numpy(zero_copy_only=False)
    matrix = np.ascontiguousarray(present, dtype=np.float32).reshape(-1, width)
    flags = valid.to_numpy(zero_copy_only=False)
    places = np.where(flags, np.cumsum(flags) - 1, -1).astype(np.int32)
    return VectorSegment(matrix, places)


def distances(segments: list[Segment[VectorSegment]], rows: Array, query: Array) -> Array:
    """Return the distance of some rows of a table version, NaN where a row has no vector."""
    found = np.full(len(rows), np.nan)
    for item in segments:
        inside = np.nonzero((rows >= item.start) & (rows < item.start + item.rows))[0]
        if len(inside):
            places = item.live(item.value.places)[rows[inside] - item.start]
            known = places >= 0
            found[inside[known]] = _distances(item.value.matrix, places[known], query)
    return found


def _distances(matrix: Array, places: Array, query: Array) -> Array:
    """Compute in 64 bits and row by row, so that a distance depends on nothing but its vectors."""
    found = np.empty(len(places))
    step = max(1, VECTOR_BLOCK_VALUES // max(1, matrix.shape[1]))
    for start in range(0, len(places), step):
        block = matrix[places[start : start + step]].astype(np.float64)
        block -= query
        found[start : start + step] = np.einsum("ij,ij->i", block, block)
    return np.sqrt(found)


def as_query(values: Any) -> Array:
    """Return a query vector rounded to 32 bits, as stored vectors are."""
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float64).astype(np.float32).astype(np.float64)


def nullable(values: Array) -> Any:
    """Return scores as an Arrow column, null where there is none."""
    return pa.array(values, pa.float64(), mask=np.isnan(values))
