"""Rows compared value by value."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.rows.images import equal_values, row_changes

VALUES = {
    "text": (pa.string(), st.text(max_size=3)),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), st.floats(width=64)),
    "small": (pa.float32(), st.floats(width=32)),
    "flag": (pa.bool_(), st.booleans()),
    "bytes": (pa.binary(), st.binary(max_size=3)),
    "day": (pa.date32(), st.dates()),
    "texts": (pa.list_(pa.string()), st.lists(st.none() | st.text(max_size=2), max_size=3)),
    "vector": (pa.list_(pa.float32(), 2), st.lists(st.floats(width=32), min_size=2, max_size=2)),
}


def same(left: object, right: object, kind: str) -> bool:
    if left is None or right is None:
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(same(a, b, kind) for a, b in pairs)
    if isinstance(left, float) and isinstance(right, float):
        code = "f" if kind in ("small", "vector") else "d"
        return struct.pack(code, left) == struct.pack(code, right)
    return left == right


@pytest.mark.parametrize("kind", VALUES)
@given(st.data())
def test_values_are_compared_exactly(kind: str, data: st.DataObject) -> None:
    arrow, values = VALUES[kind]
    pool = data.draw(st.lists(st.none() | values, min_size=1, max_size=3))
    picked = st.lists(st.sampled_from(pool), min_size=6, max_size=6)
    left, right = data.draw(picked), data.draw(picked)
    found = equal_values(pa.array(left, arrow), pa.array(right, arrow))
    assert found.tolist() == [same(a, b, kind) for a, b in zip(left, right, strict=True)]


def test_lists_are_not_their_text() -> None:
    texts = pa.list_(pa.string())
    left = pa.array([["a, b"], [], None, [None]], texts)
    right = pa.array([["a", "b"], None, None, []], texts)
    assert equal_values(left, right).tolist() == [False, False, True, False]


def test_changes_between_two_sets_of_rows() -> None:
    before = pa.table({"id": ["a", "b", "c"], "v": [1, 2, 3]})
    after = pa.table({"id": ["c", "d", "b"], "v": [3, 4, 20]})
    found = row_changes(before, after)
    assert found.inserted.to_pylist() == [{"id": "d", "v": 4}]
    assert found.deleted.to_pylist() == [{"id": "a", "v": 1}]
    assert (found.old.to_pylist(), found.new.to_pylist()) == (
        [{"id": "b", "v": 2}],
        [{"id": "b", "v": 20}],
    )
