"""Columns of pinned table versions, kept in memory under a byte budget.

A table version never changes, so a column that was read once can serve every query on it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from omnigraph.errors import ResourceLimitError
from omnigraph.limits import RESIDENT_BYTES_MAX
from omnigraph.manifest import Pin
from omnigraph.store import Tables

Key = tuple[str, int, str]


class ResidentCache:
    """Values derived from table versions, least recently used ones dropped first."""

    def __init__(self, *, bytes_max: int = RESIDENT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._items: OrderedDict[object, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: object) -> Any | None:
        """Return a value and mark it as used."""
        with self._lock:
            found = self._items.get(key)
            if found is None:
                return None
            self._items.move_to_end(key)
            return found[0]

    def put(self, key: object, value: Any, size_bytes: int) -> None:
        """Keep a value; one that could never fit is refused."""
        if size_bytes > self._bytes_max:
            raise ResourceLimitError(
                resource="resident query data in bytes", limit=self._bytes_max, actual=size_bytes
            )
        with self._lock:
            if key in self._items:
                self._bytes -= self._items.pop(key)[1]
            self._items[key] = (value, size_bytes)
            self._bytes += size_bytes
            while self._bytes > self._bytes_max:
                _old, (_value, size) = self._items.popitem(last=False)
                self._bytes -= size


class TableColumns:
    """Reads columns of the tables of one graph."""

    def __init__(self, tables: Tables, cache: ResidentCache) -> None:
        self._tables = tables
        self._cache = cache

    def column(self, pin: Pin, name: str) -> Any:
        """Return one column of a published table version, rows in storage order."""
        key: Key = (pin.path, pin.version, name)
        found = self._cache.get(key)
        if found is None:
            rows = self._tables.open(pin.path, pin.version).scan(columns=[name])
            found = rows[name].combine_chunks()
            self._cache.put(key, found, found.nbytes)
        return found
