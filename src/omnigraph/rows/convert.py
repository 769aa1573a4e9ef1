"""Turns plain values into columns of a schema type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import pyarrow as pa

from omnigraph.catalog import FLOATS, INTEGERS, PropertyType, Scalar, scalar_range
from omnigraph.catalog.temporal import check_days, check_millis, parse_date, parse_datetime
from omnigraph.compute.types import arrow_type
from omnigraph.errors import ExternalBlobPolicyError
from omnigraph.rows.blobs import decode_blob

Report = Callable[[int, str], None]
_F32_MAX = 3.4028235677973366e38


def column_array(values: Sequence[object], declared: PropertyType, report: Report) -> pa.Array:
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


def _converter(declared: PropertyType) -> Callable[[Any], object] | None:
    convert: Callable[[Any], object] | None = None
    if declared.scalar is Scalar.DATE:
        convert = _date
    elif declared.scalar is Scalar.DATETIME:
        convert = _datetime
    elif declared.scalar is Scalar.BLOB:
        convert = decode_blob
    elif declared.scalar is Scalar.VECTOR:
        size = declared.vector_dim
        return lambda value: _vector(value, size)
    if convert is None or not declared.is_list:
        return convert
    inner = convert
    return lambda value: [inner(item) for item in value]


def _convert(converter: Callable[[Any], object], value: object, row: int, report: Report) -> object:
    if value is None:
        return None
    try:
        return converter(value)
    except (ValueError, OverflowError) as error:
        report(row, str(error))
    except ExternalBlobPolicyError as error:
        report(row, error.message)
    return None


def _date(value: object) -> object:
    if isinstance(value, str):
        return parse_date(value)
    return check_days(value) if isinstance(value, int) else value


def _datetime(value: object) -> object:
    if isinstance(value, str):
        return parse_datetime(value)
    return check_millis(value) if isinstance(value, int) else value


def _is_number(item: object) -> TypeGuard[float]:
    return isinstance(item, int | float) and math.isfinite(item)


def _vector(value: Sequence[object], size: int) -> object:
    if len(value) != size:
        raise ValueError(f"expected {size} values for Vector({size}), got {len(value)}")
    if not all(_is_number(item) and abs(item) <= _F32_MAX for item in value):
        raise ValueError("a vector must hold finite 32-bit numbers")
    return value


def _each(
    values: Sequence[object], declared: PropertyType, wanted: pa.DataType, report: Report
) -> list[object]:
    """Convert one by one, to find which values do not fit."""
    fitting: list[object] = []
    for row, value in enumerate(values):
        try:
            pa.array([value], wanted)
        except (pa.ArrowInvalid, OverflowError, pa.ArrowTypeError, UnicodeEncodeError):
            report(row, _misfit(value, declared))
            value = None
        fitting.append(value)
    return fitting


def _misfit(value: object, declared: PropertyType) -> str:
    if declared.scalar in INTEGERS and isinstance(value, int):
        low, high = scalar_range(declared.scalar)
        return f"{value} is outside the range of {declared.scalar} ({low} to {high})"
    if declared.scalar in FLOATS:
        return f"{value} is outside the range of {declared.scalar}"
    return f"expected {declared}"
