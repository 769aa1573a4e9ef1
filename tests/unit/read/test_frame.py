"""Frames: rows as numbers of what their variables stand for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from omnigraph.catalog import NodeType
from omnigraph.read.columns import TableColumns
from omnigraph.read.frame import Frame, FrameColumns, Source, concatenated
from omnigraph.store import Pin

PIN = Pin(
    table_key="x", incarnation=0, path="x", version=0, row_count=0, transaction_uuid="", seq=0
)


class NoColumns(TableColumns):
    """Tables nothing is read from."""

    def __init__(self) -> None:
        pass


def computed(numbers: list[int], values: list[int]) -> Frame:
    source = Source(NodeType(name="x", properties={}), PIN, pa.array(values, pa.int64()))
    return Frame(len(numbers), {"x": np.array(numbers, dtype=np.int64)}, {"x": source})


def test_concatenated_frames_keep_the_computed_values_of_each() -> None:
    found = concatenated([computed([1, 0, -1], [10, 20]), computed([0], [30]), computed([], [])])
    values = FrameColumns(found, NoColumns()).column("x", "value")
    assert values.to_pylist() == [20, 10, None, 30]


def test_a_computed_value_follows_its_row() -> None:
    frame = computed([0, 1, 2], [10, 20, 30]).take(np.array([2, 2, 0]))
    assert FrameColumns(frame, NoColumns()).column("x", "value").to_pylist() == [30, 30, 10]
