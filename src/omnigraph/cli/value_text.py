"""Stored values as people write them, on one line."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING

from omnigraph.wording import counted, printable

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog, PropertyType

TEXT_SHOWN_MAX = 200
LIST_SHOWN_MAX = 8
VECTOR_SHOWN = 3
BLOB_PREFIX = "base64:"


def property_types(catalog: Catalog, type_name: str) -> dict[str, PropertyType]:
    """Return the declared types of a type's properties; none for a type that is gone."""
    entity = catalog.nodes.get(type_name) or catalog.edges.get(type_name)
    return {} if entity is None else {p.name: p.type for p in entity.properties.values()}


def value_text(value: object, declared: PropertyType | None) -> str:
    """Return a value: days and instants as dates, vectors, blobs and long texts shortened."""
    if value is None:
        return "<null>"
    scalar = "" if declared is None else str(declared.scalar)
    if isinstance(value, list):
        return _list_text(value, scalar)
    return _scalar_text(value, scalar)


def _scalar_text(value: object, scalar: str) -> str:
    try:
        if scalar == "Date" and isinstance(value, int):
            return (datetime.date(1970, 1, 1) + datetime.timedelta(days=value)).isoformat()
        if scalar == "DateTime" and isinstance(value, int):
            moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            moment += datetime.timedelta(milliseconds=value)
            return moment.isoformat(timespec="milliseconds")
    except OverflowError:
        # Outside the years 1 to 9999; the number itself says more than nothing.
        pass
    if scalar == "Blob" and isinstance(value, str):
        return _blob_text(value)
    shown = printable(json.dumps(value, ensure_ascii=False))
    if len(shown) <= TEXT_SHOWN_MAX:
        return shown
    return f"{shown[: TEXT_SHOWN_MAX - 1]}… ({counted(len(str(value)), 'character')})"


def _blob_text(value: str) -> str:
    if not value.startswith(BLOB_PREFIX):
        return json.dumps(value, ensure_ascii=False)  # where an external one lies
    text = value.removeprefix(BLOB_PREFIX)
    size = len(text) * 3 // 4 - text[-2:].count("=")
    return f"<{counted(size, 'byte')}>"


def _list_text(value: list[object], scalar: str) -> str:
    is_vector = scalar == "Vector"
    shown_max = VECTOR_SHOWN if is_vector else LIST_SHOWN_MAX
    inner = "" if is_vector else scalar
    shown = [_number_text(item) if is_vector else _member_text(item, inner) for item in value]
    if len(shown) <= shown_max:
        return f"[{', '.join(shown)}]"
    noun = "number" if is_vector else "value"
    return f"[{', '.join(shown[:shown_max])}, … {counted(len(value), noun)}]"


def _number_text(item: object) -> str:
    return f"{item:.4g}" if isinstance(item, float) else str(item)


def _member_text(item: object, scalar: str) -> str:
    """Return one member of a list."""
    return "<null>" if item is None else _scalar_text(item, scalar)
