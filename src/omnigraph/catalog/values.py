"""Converts plain JSON or Python values to values of a schema type.

One rule for parameters and mutations: what is accepted, and what it becomes.
"""

from __future__ import annotations

import datetime
import math
import numbers
import struct
from typing import Any

from omnigraph.catalog.model import LiteralValue
from omnigraph.catalog.temporal import parse_date, parse_datetime
from omnigraph.catalog.types import FLOATS, INTEGERS, PropertyType, Scalar, scalar_range


def convert(value: object, wanted: PropertyType) -> LiteralValue:
    """Convert one value to a type. Raises `ValueError` with the reason."""
    if wanted.is_list:
        items = _sequence(value, wanted)
        plain = _unconverted_items(items, wanted.scalar)
        if plain is not None:
            return plain
        return tuple(_item(item, index, wanted.element) for index, item in enumerate(items))
    if wanted.scalar is Scalar.VECTOR:
        items = _sequence(value, wanted)
        if len(items) != wanted.vector_dim:
            raise ValueError(f"expected {wanted.vector_dim} values for {wanted}, got {len(items)}")
        element = PropertyType(scalar=Scalar.F32)
        return tuple(_item(item, index, element) for index, item in enumerate(items))
    if wanted.scalar in INTEGERS:
        return _integer(value, wanted.scalar)
    if wanted.scalar in FLOATS:
        return _float(value, wanted.scalar)
    if wanted.scalar is Scalar.BOOL:
        if isinstance(value, bool):
            return value
    elif wanted.scalar is Scalar.DATE:
        return _date(value)
    elif wanted.scalar is Scalar.DATETIME:
        return _datetime(value)
    elif isinstance(value, str):
        if not value.isascii():
            _check_unicode(value)
        return value
    raise ValueError(f"expected {wanted}, got {_kind(value)}")


def _unconverted_items(items: list[Any], scalar: Scalar) -> LiteralValue:
    """Return items that are values of a type as they are, else None; one by one takes longer."""
    kinds = set(map(type, items))
    fit = False
    if scalar in INTEGERS and kinds == {int}:
        low, high = scalar_range(scalar)
        fit = low <= min(items) and max(items) <= high
    elif scalar is Scalar.F64 and kinds == {float}:
        fit = all(map(math.isfinite, items))
    elif scalar is Scalar.STRING and kinds == {str}:
        fit = all(map(str.isascii, items))
    return tuple(items) if fit else None


def _check_unicode(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("the text holds half a character and is not valid Unicode") from None


def _sequence(value: object, wanted: PropertyType) -> list[object]:
    if isinstance(value, list | tuple):
        return list(value)
    if hasattr(value, "tolist") and not isinstance(value, str | bytes):
        items = value.tolist()
        if isinstance(items, list):
            return items
    raise ValueError(f"expected a list for {wanted}, got {_kind(value)}")


def _item(value: object, index: int, wanted: PropertyType) -> LiteralValue:
    try:
        return convert(value, wanted)
    except ValueError as error:
        raise ValueError(f"item {index + 1}: {error}") from None


def _integer(value: object, scalar: Scalar) -> int:
    if isinstance(value, str):
        # Decimal text lets clients without 64-bit integers pass them exactly.
        digits = value[1:] if value[:1] in "+-" else value
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
            raise ValueError(f"expected {scalar}, got the text {value[:40]!r}")
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ValueError(f"expected {scalar}, got {_kind(value)}")
    number = int(value)
    low, high = scalar_range(scalar)
    if not low <= number <= high:
        raise ValueError(f"value {_shown(number)} exceeds {scalar}")
    return number


def _float(value: object, scalar: Scalar) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"expected {scalar}, got {_kind(value)}")
    try:
        number = float(value)
        if scalar is Scalar.F32:
            number = float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        raise ValueError(f"value {_shown(value)} exceeds {scalar}") from None
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, got {value}")
    return number


def _shown(value: object) -> str:
    # Python refuses to print numbers of more than 4,300 digits.
    printable = not isinstance(value, int) or abs(value) < 10**400
    return str(value) if printable else "of many digits"


def _date(value: object) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return _datetime(value).date()
    if isinstance(value, datetime.date):
        return value
    if isinstance(value, str):
        return parse_date(value)
    raise ValueError(f"expected a Date such as 2025-03-01, got {_kind(value)}")


def _datetime(value: object) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        try:
            moment = zoned.astimezone(datetime.UTC)
        except OverflowError:
            raise ValueError(f"{value} lies outside the years 1 to 9999 in UTC") from None
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    if isinstance(value, str):
        return parse_datetime(value)
    raise ValueError(f"expected a DateTime such as 2025-03-01T10:00:00Z, got {_kind(value)}")


def _kind(value: object) -> str:
    names = {bool: "a boolean", str: "a string", int: "an integer", float: "a float"}
    if value is None:
        return "null"
    return names.get(type(value), f"a {type(value).__name__}")
