"""The quick way to the nearest rows gives what computing every distance gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.limits import NEAREST_ROWS_MIN
from omnigraph.plan.expression import Metric
from omnigraph.read.segments import Segment
from omnigraph.read.vectors import VectorColumn, as_query, build_vector_segment

Array = Any


def column(parts: list[Array], nulls: list[Array]) -> VectorColumn:
    segments: list[Any] = []
    start = 0
    for matrix, missing in zip(parts, nulls, strict=True):
        rows = [None if gone else row.tolist() for row, gone in zip(matrix, missing, strict=True)]
        vectors = pa.array(rows, pa.list_(pa.float32(), matrix.shape[1]))
        segments.append(Segment(build_vector_segment(vectors), start, len(rows), None))
        start += len(rows)
    return VectorColumn(segments)


def nearest_ids(distances: Array, depth: int) -> list[int]:
    known = np.nonzero(~np.isnan(distances))[0]
    order = known[np.lexsort((known, distances[known]))]
    return [int(row) for row in order[:depth]]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("shift", [0.0, 1000.0])
@pytest.mark.parametrize("metric", Metric)
def test_nearest_is_exact(seed: int, shift: float, metric: Metric) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 40))
    sizes = [NEAREST_ROWS_MIN, int(rng.integers(1, 900))]
    # Coarse values make many distances equal; a far-off origin makes single precision poor.
    parts = [
        (np.round(rng.normal(size=(size, width)) * 4) / 4 + shift).astype(np.float32)
        for size in sizes
    ]
    nulls = [rng.random(size) < 0.1 for size in sizes]
    found = column(parts, nulls)
    rows = np.arange(sum(sizes))
    if seed % 3 == 0:
        rows = np.sort(rng.choice(rows, NEAREST_ROWS_MIN + 1, replace=False))
    query = as_query(rng.normal(size=width) + shift)
    whole = found.distances(rows, query, metric)
    for depth in (0, 1, 7, 100):
        quick = found.nearest(rows, query, metric, depth=depth)
        assert nearest_ids(quick, depth) == nearest_ids(whole, depth)
        known = ~np.isnan(quick)
        assert (quick[known] == whole[known]).all()


@pytest.mark.parametrize("metric", Metric)
def test_nearest_needs_few_full_distances(metric: Metric) -> None:
    rng = np.random.default_rng(1)
    found = column([rng.normal(size=(8192, 16)).astype(np.float32)], [np.zeros(8192, dtype=bool)])
    quick = found.nearest(np.arange(8192), as_query(rng.normal(size=16)), metric, depth=10)
    assert 10 <= np.count_nonzero(~np.isnan(quick)) < 20


def test_each_metric_by_its_definition() -> None:
    found = column(
        [np.array([[3, 4], [0, 2], [-3, -4], [0, 0]], dtype=np.float32)], [np.zeros(4, dtype=bool)]
    )
    rows, query = np.arange(4), as_query([3, 4])
    assert found.distances(rows, query, Metric.L2) == pytest.approx([0, 13**0.5, 10, 5])
    assert found.distances(rows, query, Metric.DOT) == pytest.approx([-24, -7, 26, 1])
    cosine = found.distances(rows, query, Metric.COSINE)
    assert cosine[:3] == pytest.approx([0, 0.2, 2])
    # Without a direction there is no angle.
    assert np.isnan(cosine[3])


def test_huge_numbers_are_compared_in_full() -> None:
    matrix = np.full((NEAREST_ROWS_MIN + 1, 4), 3e38, dtype=np.float32)
    matrix[5] = 0
    found = column([matrix], [np.zeros(len(matrix), dtype=bool)])
    quick = found.nearest(np.arange(len(matrix)), as_query([3e38, 3e38, 3e38, 3e38]), depth=2)
    assert nearest_ids(quick, 2) == [0, 1]
    assert quick[5] == pytest.approx(6e38)


def test_a_column_without_vectors_has_no_neighbours() -> None:
    rows = NEAREST_ROWS_MIN + 1
    found = column([np.zeros((rows, 2), dtype=np.float32)], [np.ones(rows, dtype=bool)])
    assert np.isnan(found.nearest(np.arange(rows), as_query([0, 0]), depth=3)).all()
