"""Finds out how far rows are from a query vector, in the way that suits the column's size.

A column is kept in memory and compared exactly. From `ANN_BYTES_MIN` on, few candidates are read
by themselves, and a whole type is searched through its vector index if it has one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ResourceLimitError
from omnigraph.limits import (
    ANN_BYTES_MIN,
    ANN_SPARE_ROWS,
    ANN_SPARE_SHARE,
    RESIDENT_BYTES_MAX,
    TAKE_SHARE,
)
from omnigraph.plan.expression import Metric
from omnigraph.read.arrays import Rows, Scores
from omnigraph.read.columns import ResidentCache, TableColumns
from omnigraph.read.segments import Segment, Segments
from omnigraph.read.vectors import VectorColumn, build_vector_segment
from omnigraph.store import Pin, Tables, nearest_rows


class Neighbours:
    """Distances over the vector columns of one graph."""

    def __init__(self, tables: Tables, cache: ResidentCache) -> None:
        self._tables = tables
        self._columns = TableColumns(tables, cache)
        self._segments = Segments(tables, cache)

    def distances(
        self,
        pin: Pin,
        name: str,
        rows: Rows,
        query: Scores,
        metric: Metric,
        *,
        depth: int | None,
    ) -> Scores:
        """Return the distance of some rows, in ascending order, NaN where there is no vector.

        With a depth, at least that many nearest rows have theirs, and others may have NaN.
        """
        size_bytes = np.dtype(np.float32).itemsize * len(query) * pin.row_count
        if size_bytes >= ANN_BYTES_MIN:
            if len(rows) * TAKE_SHARE <= pin.row_count:
                return self._of_few(pin, name, rows, query, metric)
            whole_type = len(rows) == pin.row_count and rows[0] == 0
            # The index was built for one metric.
            if whole_type and depth is not None and metric is Metric.L2:
                distances = self._through_index(pin, name, query, depth)
                if distances is not None:
                    return distances
            if size_bytes > RESIDENT_BYTES_MAX:
                raise ResourceLimitError(
                    resource="vectors of one column in bytes",
                    limit=RESIDENT_BYTES_MAX,
                    actual=size_bytes,
                    hint="narrow the pattern, or build the vector index and rank all by l2",
                )
        column = VectorColumn(self._segments.get(pin, name, "vectors", build_vector_segment))
        if depth is None:
            return column.distances(rows, query, metric)
        return column.nearest(rows, query, metric, depth=depth)

    def _of_few(self, pin: Pin, name: str, rows: Rows, query: Scores, metric: Metric) -> Scores:
        """Read only the vectors that are asked for."""
        distances = np.full(len(rows), np.nan)
        bound = rows >= 0
        if bound.any():
            table = self._tables.open(pin.path, pin.version)
            vectors = table.take(rows[bound], columns=[name])[name]
            distances[bound] = _all_distances(vectors.combine_chunks(), query, metric)
        return distances

    def _through_index(self, pin: Pin, name: str, query: Scores, depth: int) -> Scores | None:
        """Ask the vector index, without reading the column; None when there is no index."""
        table = self._tables.open(pin.path, pin.version)
        # More than asked for, so that equal distances at the end are still settled by id.
        near = nearest_rows(table, name, query, limit=ANN_SPARE_SHARE * depth + ANN_SPARE_ROWS)
        if near is None:
            return None
        ids, wanted = self._columns.column(pin, "id"), near["id"].combine_chunks()
        chosen = pc.is_in(ids, value_set=wanted).to_numpy(zero_copy_only=False)
        rows = np.nonzero(chosen)[0]
        order = pc.index_in(ids.take(pa.array(rows)), value_set=wanted)
        distances = np.full(len(ids), np.nan)
        vectors = near[name].combine_chunks().take(order)
        distances[rows] = _all_distances(vectors, query, Metric.L2)
        return distances


def _all_distances(vectors: pa.FixedSizeListArray, query: Scores, metric: Metric) -> Scores:
    segment = Segment(build_vector_segment(vectors), 0, len(vectors), None)
    return VectorColumn([segment]).distances(np.arange(len(vectors)), query, metric)
