"""Columns as Python values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.types import Column


def python_values(column: Column) -> list[Any]:
    """Return a column as Python values.

    Python has dates of the years 1 to 9999 only. Nothing else can be written; where an older
    release stored another day or instant it is its number, days or milliseconds since 1970.
    """
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        if pa.types.is_list(column.type):
            return [None if item is None else python_values(item) for item in _lists(column)]
        if pa.types.is_struct(column.type):
            return _objects(column)
        if not pa.types.is_date(column.type) and not pa.types.is_timestamp(column.type):
            raise
    numbers = pc.cast(column, pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return [_value(item, number) for item, number in zip(column, numbers.to_pylist(), strict=True)]


def _lists(column: Column) -> list[pa.Array | None]:
    return [item.values for item in column]


def _objects(column: Column) -> list[dict[str, object] | None]:
    names = [field.name for field in column.type]
    fields = [python_values(pc.struct_field(column, name)) for name in names]
    valid = pc.is_valid(column).to_pylist()
    rows = zip(valid, zip(*fields, strict=True), strict=True)
    return [dict(zip(names, row, strict=True)) if there else None for there, row in rows]


def _value(item: pa.Scalar, number: int | None) -> object:
    try:
        return item.as_py()
    except (OverflowError, ValueError):
        return number
