"""Turns plain values, and foreign Arrow columns, into columns of a schema type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import FLOATS, INTEGERS, PropertyType, Scalar, scalar_range
from omnigraph.catalog.temporal import parse_date, parse_datetime
from omnigraph.compute.types import arrow_type
from omnigraph.errors import ExternalBlobPolicyError
from omnigraph.write.blobs import decode_blob

Report = Callable[[int, str], None]


def column_array(values: Sequence[Any], declared: PropertyType, report: Report) -> Any:
    """Return values (already of the right JSON kinds) as a column; bad ones go to `report`.

    A reported value becomes null so that the rest can be looked at too.
    """
    wanted = arrow_type(declared)
    converter = _converter(declared)
    if converter is not None:
        values = [_convert(converter, v, i, report) for i, v in enumerate(values)]
    try:
        return pa.array(values, wanted)
    except (pa.ArrowInvalid, OverflowError, pa.ArrowTypeError, UnicodeEncodeError):
        return pa.array(_each(values, declared, wanted, report), wanted)


def _converter(declared: PropertyType) -> Callable[[Any], Any] | None:
    found: Callable[[Any], Any] | None = None
    if declared.scalar is Scalar.DATE:
        found = _date
    elif declared.scalar is Scalar.DATETIME:
        found = _datetime
    elif declared.scalar is Scalar.BLOB:
        found = decode_blob
    elif declared.scalar is Scalar.VECTOR:
        size = declared.vector_dim
        return lambda value: _vector(value, size)
    if found is None or not declared.is_list:
        return found
    inner = found
    return lambda value: [inner(item) for item in value]


def _convert(converter: Callable[[Any], Any], value: Any, row: int, report: Report) -> Any:
    if value is None:
        return None
    try:
        return converter(value)
    except (ValueError, OverflowError) as error:
        report(row, str(error))
    except ExternalBlobPolicyError as error:
        report(row, error.message)
    return None


def _date(value: Any) -> Any:
    return parse_date(value) if isinstance(value, str) else value


def _datetime(value: Any) -> Any:
    return parse_datetime(value) if isinstance(value, str) else value


def _vector(value: Any, size: int) -> Any:
    if len(value) != size:
        raise ValueError(f"expected {size} values for Vector({size}), got {len(value)}")
    if not all(math.isfinite(item) and abs(item) <= 3.4028235677973366e38 for item in value):
        raise ValueError("a vector must hold finite 32-bit numbers")
    return value


def _each(values: Sequence[Any], declared: PropertyType, wanted: Any, report: Report) -> list[Any]:
    """Convert one by one, to find which values do not fit."""
    found: list[Any] = []
    for row, value in enumerate(values):
        try:
            pa.array([value], wanted)
        except (pa.ArrowInvalid, OverflowError, pa.ArrowTypeError, UnicodeEncodeError):
            report(row, _misfit(value, declared))
            value = None
        found.append(value)
    return found


def _misfit(value: Any, declared: PropertyType) -> str:
    if declared.scalar in INTEGERS and isinstance(value, int):
        low, high = scalar_range(declared.scalar)
        return f"{value} is outside the range of {declared.scalar} ({low} to {high})"
    if declared.scalar in FLOATS:
        return f"{value} is outside the range of {declared.scalar}"
    return f"expected {declared}"


def cast_column(column: Any, declared: PropertyType, report: Report) -> Any:
    """Cast a foreign Arrow column to a schema type without losing anything."""
    wanted = arrow_type(declared)
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if declared.is_list and pa.types.is_list(flat.type) and flat.flatten().null_count:
        holes = pc.list_parent_indices(flat).filter(pc.is_null(flat.flatten()))
        report(int(holes[0].as_py()), "a list must not hold null")
        return pa.nulls(len(flat), wanted)
    if flat.type.equals(wanted):
        return flat
    if pa.types.is_dictionary(flat.type):
        flat = flat.dictionary_decode()
    parse_text = pa.types.is_string(flat.type) or pa.types.is_large_string(flat.type)
    textual = declared.scalar in (Scalar.DATE, Scalar.DATETIME, Scalar.BLOB)
    if pa.types.is_null(flat.type):
        return pa.nulls(len(flat), wanted)
    if parse_text and textual:
        return column_array(flat.to_pylist(), declared, report)
    if declared.scalar is Scalar.VECTOR:
        return column_array(flat.to_pylist(), declared, report)
    if not _castable(flat.type, declared):
        report(0, f"a column of {flat.type} cannot be loaded as {declared}")
        return pa.nulls(len(flat), wanted)
    try:
        return pc.cast(flat, wanted, safe=declared.scalar is not Scalar.F32)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values = flat.to_pylist()
        if declared.scalar in INTEGERS and not declared.is_list:
            values = [_whole(value, row, report) for row, value in enumerate(values)]
        return column_array(values, declared, report)


def _whole(value: Any, row: int, report: Report) -> Any:
    if not isinstance(value, float):
        return value if value is None else int(value)
    if math.isnan(value):
        return None
    if not math.isfinite(value) or value != int(value):
        report(row, f"{value} is not an integer")
        return None
    return int(value)


def _castable(found: Any, declared: PropertyType) -> bool:
    """Whether values of an Arrow type can mean values of a schema type at all."""
    if declared.is_list:
        return bool(pa.types.is_list(found) or pa.types.is_large_list(found))
    scalar = declared.scalar
    if scalar is Scalar.STRING:
        return bool(
            pa.types.is_string(found)
            or pa.types.is_large_string(found)
            or pa.types.is_string_view(found)
        )
    if scalar is Scalar.BOOL:
        return bool(pa.types.is_boolean(found))
    if scalar in INTEGERS:
        # Spark knows no unsigned integers; it holds them as whole decimals.
        whole = pa.types.is_decimal(found) and found.scale == 0
        return bool(pa.types.is_integer(found) or pa.types.is_floating(found) or whole)
    if scalar in FLOATS:
        return bool(pa.types.is_integer(found) or pa.types.is_floating(found))
    if scalar in (Scalar.DATE, Scalar.DATETIME):
        return bool(pa.types.is_temporal(found) or pa.types.is_integer(found))
    return bool(pa.types.is_binary(found) or pa.types.is_large_binary(found))
