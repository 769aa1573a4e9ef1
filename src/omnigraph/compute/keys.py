"""Values as keys of groups: equal values have equal keys."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.types import Column, Value


def group_key(values: Value) -> Value:
    """Return a column Arrow can group by, equal exactly where the values are; null stays null."""
    if pa.types.is_floating(values.type):
        # Both zeros are one value, and so are all patterns of not-a-number.
        nan = pa.scalar(math.nan, values.type)
        return pc.if_else(pc.is_nan(values), nan, pc.add(values, pa.scalar(0.0, values.type)))
    if pa.types.is_fixed_size_list(values.type):
        return group_key(pc.cast(values, pa.list_(values.type.value_type)))
    if pa.types.is_list(values.type):
        return _list_codes(values)
    return values


def _list_codes(lists: Column) -> pa.Array:
    """Return a number per distinct list: Arrow groups by bytes, so lists are spelled as bytes."""
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    items = group_key(pc.list_flatten(lists))
    letters = np.asarray(pc.dictionary_encode(items, null_encoding="encode").indices, np.int32)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0), np.int64)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths * letters.itemsize)])
    words = pa.Array.from_buffers(
        pa.large_binary(), len(lists), [None, pa.py_buffer(ends), pa.py_buffer(letters)]
    )
    codes = np.asarray(pc.dictionary_encode(words).indices)
    return pa.array(codes, mask=np.asarray(pc.is_null(lists)))
