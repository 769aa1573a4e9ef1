"""Columns as texts, for formats that hold nothing else: CSV and GraphML."""

from __future__ import annotations

import datetime
import math

import msgspec
import pyarrow.compute as pc

from omnigraph.catalog import FLOATS, Scalar
from omnigraph.compute import python_values
from omnigraph.compute.types import Column
from omnigraph.errors import QueryError
from omnigraph.rows.blobs import encode_blob


def text_values(column: Column, scalar: Scalar, *, is_list: bool, place: str) -> list[str | None]:
    """Return a column as the texts that a load of CSV reads back exactly; null is None.

    Lists and vectors are JSON, days and instants ISO texts, blobs `base64:...`. `place` names the
    column in the error about a number that has no text.
    """
    if is_list or scalar is Scalar.VECTOR:
        return [None if item is None else _json(item, place) for item in python_values(column)]
    if scalar in FLOATS:
        if not pc.all(pc.fill_null(pc.is_finite(column), True), min_count=0).as_py():
            raise _not_finite(place)
        return list(pc.cast(column, "string").to_pylist())
    if scalar is Scalar.BLOB:
        return [None if item is None else encode_blob(item) for item in column.to_pylist()]
    return [None if item is None else _text(item) for item in python_values(column)]


def _json(items: list[object], place: str) -> str:
    if any(isinstance(item, float) and not math.isfinite(item) for item in items):
        raise _not_finite(place)
    dated = any(isinstance(item, datetime.date) for item in items)
    return msgspec.json.encode([_text(item) for item in items] if dated else items).decode()


def _text(item: object) -> str:
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, datetime.datetime):
        moment = item.astimezone(datetime.UTC).replace(tzinfo=None)
        return moment.isoformat(timespec="milliseconds") + "Z"
    return item.isoformat() if isinstance(item, datetime.date) else str(item)


def _not_finite(place: str) -> QueryError:
    return QueryError(f"{place} holds a number that text cannot express")
