"""Envelopes given as Python values, as the lines of JSON that a load reads."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Iterator, Mapping

from omnigraph.catalog import Catalog, PropertyType, Scalar
from omnigraph.rows.blobs import encode_blob
from omnigraph.rows.problems import Problem

Envelope = Mapping[str, object]
_BYTES = (bytes, bytearray, memoryview)


class EnvelopeWriter:
    """Turns envelopes into lines; `catalog` is asked for only if one holds bytes."""

    def __init__(self, catalog: Callable[[], Catalog]) -> None:
        self._ask = catalog
        self._known: Catalog | None = None
        self._has_bytes = False

    def lines(self, items: Iterable[Envelope]) -> Iterator[bytes | Problem]:
        """Yield each envelope's line, or why it has none."""
        for number, item in enumerate(items, 1):
            self._has_bytes = False
            try:
                text = json.dumps(
                    item, allow_nan=False, ensure_ascii=False, default=self._json_value
                ).encode()
            except (TypeError, ValueError, RecursionError) as error:
                yield Problem(message=f"not expressible as JSON: {error}", line=number)
                continue
            yield (self._misplaced(item, number) if self._has_bytes else None) or text

    def _json_value(self, value: object) -> object:
        if isinstance(value, datetime.date):
            return value.isoformat()
        if isinstance(value, _BYTES):
            self._has_bytes = True
            return encode_blob(bytes(value))
        if hasattr(value, "tolist"):
            return value.tolist()
        raise TypeError(f"a {type(value).__name__}")

    def _misplaced(self, item: Envelope, number: int) -> Problem | None:
        """Return the problem of bytes for a property that is no blob: they are no text."""
        catalog = self._known = self._known or self._ask()
        name = str(item.get("type") or item.get("edge"))
        edge = catalog.edges.get(name) or catalog.edge_by_word(name)
        entity = catalog.nodes.get(name) or edge
        data = item.get("data")
        if entity is None or not isinstance(data, Mapping):
            return None
        for field, value in data.items():
            declared = entity.properties.get(field)
            wanted = PropertyType(scalar=Scalar.STRING) if declared is None else declared.type
            if wanted.scalar is not Scalar.BLOB and _holds_bytes(value):
                return Problem(
                    message=f"property '{field}' expects {wanted}, got bytes",
                    type_name=entity.name,
                    field=field,
                    line=number,
                )
        return None


def _holds_bytes(value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(_holds_bytes(item) for item in value)
    return isinstance(value, _BYTES)
