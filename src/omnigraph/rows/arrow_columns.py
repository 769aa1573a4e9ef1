"""Casts foreign Arrow columns to columns of a schema type, without losing anything.

Whatever does not fit goes to `report` with its row, or with None if it is the column as a whole.
No exception of Arrow leaves this module.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import FLOATS, INTEGERS, PropertyType, Scalar, scalar_range
from omnigraph.catalog.temporal import DAYS_MAX, DAYS_MIN, outside_years
from omnigraph.catalog.types import TEMPORALS
from omnigraph.compute.types import Column, arrow_type
from omnigraph.rows.convert import column_array

Report = Callable[[int | None, str], None]
_DAY = 86_400
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_REFUSED = (pa.ArrowException, OverflowError, TypeError, ValueError)


def cast_column(column: Column, declared: PropertyType, report: Report) -> pa.Array:
    """Cast a foreign Arrow column to a schema type; a reported value becomes null."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(flat, pa.ExtensionArray):
        flat = flat.storage
    wanted = arrow_type(declared)
    if pa.types.is_null(flat.type):
        return pa.nulls(len(flat), wanted)
    if pa.types.is_dictionary(flat.type):
        flat = flat.dictionary_decode()
    if pa.types.is_float16(flat.type):
        # Arrow computes nothing with these, and the next width holds them all.
        flat = pc.cast(flat, pa.float32())
    if not _castable(flat.type, declared):
        report(None, f"a column of {flat.type} cannot be loaded as {declared}")
        return pa.nulls(len(flat), wanted)
    if declared.is_list:
        return _lists(flat, declared, report)
    if declared.scalar is Scalar.VECTOR:
        return _vectors(flat, declared, report)
    return _scalars(flat, declared, report)


def text_column(column: Column, report: Report) -> pa.Array:
    """Cast a foreign Arrow column to text, as ids are."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    try:
        return pc.cast(flat, pa.string())
    except pa.ArrowNotImplementedError:
        report(None, f"a column of {flat.type} cannot be loaded as ids")
        return pa.nulls(len(flat), pa.string())
    except pa.ArrowException:
        return _one_by_one(flat, pa.string(), report, "not valid UTF-8")


def _castable(kind: pa.DataType, declared: PropertyType) -> bool:
    """Whether values of an Arrow type can mean values of a schema type at all."""
    if declared.is_list:
        listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        return bool(listed and _castable_item(kind.value_type, declared.element))
    if declared.scalar is Scalar.VECTOR:
        listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        if not listed and not pa.types.is_fixed_size_list(kind):
            return False
        return _castable_item(kind.value_type, PropertyType(scalar=Scalar.F32))
    return _castable_item(kind, declared)


def _castable_item(kind: pa.DataType, declared: PropertyType) -> bool:
    scalar = declared.scalar
    if pa.types.is_null(kind):
        return True
    if scalar is Scalar.STRING:
        return _is_text(kind)
    if scalar is Scalar.BOOL:
        return bool(pa.types.is_boolean(kind))
    if scalar in INTEGERS:
        # Spark knows no unsigned integers; it holds them as whole decimals.
        whole = pa.types.is_decimal(kind) and kind.scale == 0
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or whole)
    if scalar in FLOATS:
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
    if scalar in TEMPORALS:
        dated = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        return bool(dated or pa.types.is_integer(kind) or _is_text(kind))
    return _is_text(kind) or _is_bytes(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _lists(flat: pa.Array, declared: PropertyType, report: Report) -> pa.Array:
    """Cast the items of lists as a column of their own, and put them into lists again."""
    items = flat.flatten()
    owners = pc.list_parent_indices(flat)
    element = declared.element
    if items.null_count:
        for row in pc.unique(owners.filter(pc.is_null(items))).to_pylist():
            report(row, "a list must not hold null")
        return pa.nulls(len(flat), arrow_type(declared))

    def report_item(row: int | None, message: str) -> None:
        report(None if row is None else owners[row].as_py(), message)

    if pa.types.is_null(items.type):
        values = pa.nulls(0, arrow_type(element))
    else:
        values = _scalars(items, element, report_item)
    sizes = np.asarray(pc.fill_null(pc.list_value_length(flat), 0), np.int64)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), values, mask=pc.is_null(flat))


def _vectors(flat: pa.Array, declared: PropertyType, report: Report) -> pa.Array:
    wanted = arrow_type(declared)
    items = flat.flatten()
    plain = flat.type.equals(wanted) and not items.null_count
    if plain and pc.all(pc.is_finite(items), min_count=0).as_py():
        return flat
    return column_array(flat.to_pylist(), declared, report)


def _scalars(flat: pa.Array, declared: PropertyType, report: Report) -> pa.Array:
    wanted, scalar = arrow_type(declared), declared.scalar
    if scalar in TEMPORALS and not _is_text(flat.type):
        return _temporal(flat, scalar, report)
    if flat.type.equals(wanted):
        return flat
    if _is_text(flat.type) and scalar is not Scalar.STRING:
        return column_array(_texts(flat, report), declared, report)
    if scalar in INTEGERS and pa.types.is_floating(flat.type):
        flat = _whole(flat, report)
    try:
        return pc.cast(flat, wanted, safe=scalar is not Scalar.F32)
    except pa.ArrowException:
        low, high = scalar_range(scalar) if scalar in INTEGERS else (None, None)
        bounds = "" if low is None else f" ({low} to {high})"
        return _one_by_one(flat, wanted, report, f"{{}} is outside the range of {scalar}{bounds}")


def _texts(flat: pa.Array, report: Report) -> list[str | None]:
    try:
        return list(flat.to_pylist())
    except UnicodeDecodeError:
        checked = pc.cast(flat, pa.large_binary())
        texts = _one_by_one(checked, pa.large_string(), report, "not valid UTF-8")
        return list(texts.to_pylist())


def _whole(flat: pa.Array, report: Report) -> pa.Array:
    """Return floats without those that are no integer; not-a-number means no value."""
    flat = pc.if_else(pc.is_nan(flat), pa.scalar(None, flat.type), flat)
    wrong = pc.fill_null(
        pc.or_(pc.invert(pc.is_finite(flat)), pc.not_equal(pc.trunc(flat), flat)), False
    )
    for row in pc.indices_nonzero(wrong).to_pylist():
        report(row, f"{flat[row].as_py()} is not an integer")
    return pc.if_else(wrong, pa.scalar(None, flat.type), flat)


def _one_by_one(flat: pa.Array, wanted: pa.DataType, report: Report, words: str) -> pa.Array:
    """Cast a column in halves until only values that cannot be cast are left; these go."""
    try:
        return pc.cast(flat, wanted)
    except _REFUSED:
        pass

    def cast(start: int, size: int) -> list[pa.Array]:
        part = flat.slice(start, size)
        try:
            return [pc.cast(part, wanted)]
        except _REFUSED:
            if size == 1:
                report(start, words.format(part[0]))
                return [pa.nulls(1, wanted)]
        half = size // 2
        return cast(start, half) + cast(start + half, size - half)

    return pa.concat_arrays(cast(0, len(flat)))


def _temporal(flat: pa.Array, scalar: Scalar, report: Report) -> pa.Array:
    """Return days or instants; those outside the years 1 to 9999 are reported."""
    kind = flat.type
    if pa.types.is_integer(kind):
        ticks, unit = (0, "days") if scalar is Scalar.DATE else (10**3, "milliseconds")
        numbers = flat
    elif pa.types.is_date32(kind):
        ticks, unit, numbers = 0, "days", pc.cast(flat, pa.int32())
    else:
        name = "ms" if pa.types.is_date64(kind) else kind.unit
        ticks, unit, numbers = _TICKS[name], _UNITS[name], pc.cast(flat, pa.int64())
    per_day = ticks * _DAY or 1
    low, high = DAYS_MIN * per_day, (DAYS_MAX + 1) * per_day - 1
    plain = np.asarray(pc.fill_null(numbers, 0))
    wrong = (plain < low) | (plain > high)
    for row in np.flatnonzero(wrong).tolist():
        report(row, outside_years(int(plain[row]), low, high, unit))
    if wrong.any():
        flat = pc.if_else(pa.array(wrong), pa.scalar(None, kind), flat)
    values = _as_temporal(flat, scalar)
    if scalar is Scalar.DATE and pa.types.is_timestamp(kind):
        # The date of an instant is that of its zone, perhaps one day further.
        return _temporal(values, scalar, report)
    return values


def _as_temporal(flat: pa.Array, scalar: Scalar) -> pa.Array:
    kind = flat.type
    wanted = arrow_type(PropertyType(scalar=scalar))
    if pa.types.is_integer(kind):
        return pc.cast(pc.cast(flat, pa.int32() if scalar is Scalar.DATE else pa.int64()), wanted)
    if scalar is Scalar.DATETIME and pa.types.is_timestamp(kind) and kind.unit in ("us", "ns"):
        # Further digits are cut off, also before 1970, as those of a text are.
        divisor = _TICKS[kind.unit] // 10**3
        millis = np.asarray(pc.fill_null(pc.cast(flat, pa.int64()), 0)) // divisor
        return pc.cast(pa.array(millis, mask=np.asarray(pc.is_null(flat))), wanted)
    return pc.cast(flat, wanted, safe=False)
