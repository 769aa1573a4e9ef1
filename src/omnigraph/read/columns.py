"""Columns of pinned table versions, kept in memory under a byte budget.

A table version never changes, so a column that was read once can serve every query on it. A
version that only adds rows to a known one reads just those.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Protocol
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.bounded import BoundedCache
from omnigraph.compute.gathering import gathered
from omnigraph.errors import ResourceLimitError
from omnigraph.limits import (
    KEY_BYTES,
    KEYS_ADDED_MAX,
    LANDMARK_KEYS,
    NEWEST_KNOWN_MAX,
    NUMBERED_BATCH_ROWS,
    RESIDENT_BYTES_MAX,
)
from omnigraph.read.arrays import Rows
from omnigraph.store import Pin, Tables, split_branch

Key = tuple[str, int, str]
Layout = tuple[str, ...]
"""What identifies the fragments of a table version, in storage order."""
KEYS = "#keys"
"""Stands for the name of a column where the map of a table's ids is kept."""


class CacheStats(Struct, frozen=True, kw_only=True):
    """How much a cache holds and how often it helped."""

    hits: int
    misses: int
    size_bytes: int


class ResidentCache:
    """Values derived from table versions, least recently used ones dropped first."""

    def __init__(
        self, *, bytes_max: int = RESIDENT_BYTES_MAX, newest_max: int = NEWEST_KNOWN_MAX
    ) -> None:
        self._items: BoundedCache[object, object] = BoundedCache(bytes_max)
        self._lock = threading.Lock()
        # A lock is here as long as some reader holds it or waits for it.
        self._turns: WeakValueDictionary[object, threading.Lock] = WeakValueDictionary()
        self.newest: BoundedCache[object, tuple[int, Layout, int]] = BoundedCache(newest_max)
        """The newest version read of a column, to make the next one from: its number, its layout,
        and the number of the column, which another one of the same name does not have."""

    def limit_to(self, bytes_max: int) -> None:
        """Hold so much at most, beginning with the next value that comes."""
        self._items.limit = bytes_max

    def turn(self, key: object) -> threading.Lock:
        """Return the lock of those who make a value: the others wait, and find it made."""
        with self._lock:
            lock = self._turns.get(key)
            if lock is None:
                lock = self._turns[key] = threading.Lock()
            return lock

    def stats(self) -> CacheStats:
        """Return how much it holds and how often it helped."""
        items = self._items
        return CacheStats(hits=items.hits, misses=items.misses, size_bytes=items.weight)

    def get(self, key: object) -> object | None:
        """Return a value and mark it as used."""
        return self._items.get(key)

    def put(self, key: object, value: object, size_bytes: int) -> None:
        """Keep a value; one that could never fit is refused."""
        if size_bytes > self._items.limit:
            raise ResourceLimitError(
                resource="resident query data in bytes",
                limit=self._items.limit,
                actual=size_bytes,
            )
        self._items.put(key, value, size_bytes)

    def resize(self, key: object, size_bytes: int) -> None:
        """Note that a value has grown since it was put."""
        self._items.reweigh(key, size_bytes)

    def drop(self, key: object) -> None:
        """Forget a value, if it is there."""
        self._items.pop(key)


class KeyMap:
    """Finds the position of an id in its table version: the ids and their order.

    With a map of the first of these ids, only the others are gone through.
    """

    def __init__(self, ids: pa.Array, base: KeyMap | None = None) -> None:
        self._ids = ids
        self._added: dict[str, int] = {}
        if base is None:
            self._order = pc.sort_indices(ids).to_numpy().astype(np.uint32)
            self._landmarks = self._made_landmarks()
            return
        self._order, self._landmarks = base._order, base._landmarks
        start = len(self._order)
        names = ids.slice(start).to_pylist()
        self._added = {name: start + number for number, name in enumerate(names)}

    @property
    def size_bytes(self) -> int:
        """Memory of the order; the ids are counted as a column."""
        return int(self._order.nbytes) + KEY_BYTES * (len(self._added) + len(self._landmarks))

    def can_grow(self, rows: int) -> bool:
        """Whether one of so many rows is made from this at little cost."""
        return len(self._order) <= rows <= len(self._order) + KEYS_ADDED_MAX

    def find(self, id: str) -> int:
        """Return the position of an id, -1 where there is none."""
        if id in self._added:
            return self._added[id]
        order, ends, letters = self._bytes
        # Texts are in the order of their bytes; making texts of these would take most of the time.
        wanted = id.encode(errors="surrogatepass")
        part = bisect_left(self._landmarks, wanted)
        low = (part - 1) * LANDMARK_KEYS + 1 if part else 0
        high = min(part * LANDMARK_KEYS, len(order))
        while low < high:
            middle = (low + high) // 2
            place = order[middle]
            if letters[ends[place] : ends[place + 1]].tobytes() < wanted:
                low = middle + 1
            else:
                high = middle
        if low == len(order):
            return -1
        position: int = order[low]
        return position if letters[ends[position] : ends[position + 1]] == wanted else -1

    def _made_landmarks(self) -> list[bytes]:
        """Return some of the ids in order: between which two one is, is found at once."""
        order, ends, letters = self._bytes
        return [letters[ends[n] : ends[n + 1]].tobytes() for n in order[::LANDMARK_KEYS]]

    @cached_property
    def _bytes(self) -> tuple[memoryview, memoryview, memoryview]:
        """The order of the ids, where each begins and ends, and their letters."""
        ids = self._ids
        _valid, offsets, letters = ids.buffers()
        ends = memoryview(offsets or b"").cast("i")[ids.offset :]
        # Arrow shows bytes as signed numbers, which equal no byte above 127.
        return memoryview(self._order), ends, memoryview(letters or b"").cast("B")


class _Known(Struct, frozen=True):
    """A column of the newest version that was read."""

    path: str
    version: int
    layout: Layout
    values: object
    field: int


class Columns(Protocol):
    """Where the columns of a query come from."""

    def column(self, pin: Pin, name: str) -> pa.Array:
        """Return one column, all rows in one order."""

    def size(self, pin: Pin) -> int:
        """Return the number of rows."""

    def keys(self, pin: Pin) -> KeyMap:
        """Return the map from ids to positions."""


class TableColumns:
    """Reads columns of the tables of one graph."""

    def __init__(self, tables: Tables, cache: ResidentCache) -> None:
        self._tables = tables
        self._cache = cache

    def column(self, pin: Pin, name: str) -> pa.Array:
        """Return one column of a published table version, rows in storage order."""
        key: Key = (pin.path, pin.version, name)
        column = self._cache.get(key)
        if column is None:
            with self._cache.turn((pin.path, name)):
                column = self._cache.get(key)
                return self._made(pin, name) if column is None else column
        return column

    def _made(self, pin: Pin, name: str) -> pa.Array:
        """Make a column from a known one if that is possible, else read it whole."""
        known, layout = self._known_of(pin, name), self.layout(pin)
        if known is not None and layout[: len(known.layout)] == known.layout:
            values: pa.Array = known.values
            rows = self.rows_after(pin, len(known.layout), [name])[name]
            column = pa.concat_arrays([values, *rows.chunks]) if len(rows) else values
            if known.path == pin.path:
                # Else every commit of a stream would leave a copy behind.
                self._cache.drop((pin.path, known.version, name))
        elif known is not None and known.layout[: len(layout)] == layout:
            # Another query read a later version meanwhile: the rows of this one are its first.
            later: pa.Array = known.values
            return later.slice(0, self._tables.open(pin.path, pin.version).count_rows())
        else:
            column = self.read(pin, name).combine_chunks()
        self._cache_value(pin, name, column, column.nbytes, known)
        return column

    def _cache_value(
        self, pin: Pin, name: str, value: object, size_bytes: int, known: _Known | None
    ) -> None:
        """Put a value made for a version; the newest one is what the next is made from."""
        self._cache.put((pin.path, pin.version, name), value, size_bytes)
        if known is None or known.path != pin.path or known.version < pin.version:
            layout, field = self.layout(pin), self._field(pin, name)
            self._cache.newest.put((pin.path, name), (pin.version, layout, field))

    def _newest(self, pin: Pin, name: str) -> _Known | None:
        """Return a column of the same branch of a table, or of the one it left."""
        for path in dict.fromkeys((pin.path, split_branch(pin.path)[0])):
            version, layout, field = self._cache.newest.get((path, name)) or (0, (), 0)
            values = self._cache.get((path, version, name)) if version else None
            if values is not None:
                return _Known(path, version, layout, values, field)
        return None

    def _known_of(self, pin: Pin, name: str) -> _Known | None:
        """Return what `_newest` does, unless its name meant another column then."""
        known = self._newest(pin, name)
        return None if known is None or known.field != self._field(pin, name) else known

    def _field(self, pin: Pin, name: str) -> int:
        """Return the number of a column; 0 for what is none."""
        return 0 if name == KEYS else self._tables.open(pin.path, pin.version).field_id(name)

    def known(self, pin: Pin, name: str) -> pa.Array | None:
        """Return a column if it is in memory."""
        return self._cache.get((pin.path, pin.version, name))

    def read(self, pin: Pin, name: str) -> pa.ChunkedArray:
        """Return one column without keeping it, in chunks."""
        return self._tables.open(pin.path, pin.version).scan(columns=[name])[name]

    def parts(self, pin: Pin, name: str, rows: int) -> Iterator[pa.ChunkedArray]:
        """Yield one column without keeping it, at least so many rows at once but for the last."""
        batches = self._tables.open(pin.path, pin.version).batches(
            columns=[name], batch_rows=NUMBERED_BATCH_ROWS
        )
        for (part,) in gathered(((batch.column(0),) for batch in batches), rows):
            yield part

    def size(self, pin: Pin) -> int:
        """Return the number of rows of a table version."""
        known = self.known(pin, "id")
        if known is not None:
            return len(known)
        return self._tables.open(pin.path, pin.version).count_rows()

    def layout(self, pin: Pin) -> Layout:
        """Return what identifies the fragments of a table version, in storage order."""
        return self._tables.open(pin.path, pin.version).layout

    def rows_after(self, pin: Pin, fragments: int, names: Sequence[str]) -> pa.Table:
        """Return some columns of the rows behind the first so many fragments."""
        table = self._tables.open(pin.path, pin.version)
        added = table.fragments()[fragments:]
        if not added:
            return pa.table({name: pa.array([], table.schema.field(name).type) for name in names})
        return table.scan(columns=list(names), fragments=added)

    def numbers(self, pin: Pin, ids: Sequence[str]) -> Rows:
        """Return the position of each id in a table version, -1 where there is none."""
        if not ids:
            return np.empty(0, dtype=np.int32)
        keys = self.keys(pin)
        return np.array([keys.find(item) for item in ids], dtype=np.int32)

    def keys(self, pin: Pin) -> KeyMap:
        """Return the map from ids to positions."""
        key = (pin.path, pin.version, KEYS)
        keys = self._cache.get(key)
        if isinstance(keys, KeyMap):
            return keys
        with self._cache.turn((pin.path, KEYS)):
            keys = self._cache.get(key)
            return keys if isinstance(keys, KeyMap) else self._made_keys(pin)

    def _made_keys(self, pin: Pin) -> KeyMap:
        ids, layout = self.column(pin, "id"), self.layout(pin)
        known = self._newest(pin, KEYS)
        base = None if known is None else known.values
        extends = known is not None and layout[: len(known.layout)] == known.layout
        if extends and isinstance(base, KeyMap) and base.can_grow(len(ids)):
            keys = KeyMap(ids, base)
            if known is not None and known.path == pin.path:
                self._cache.drop((pin.path, known.version, KEYS))
        else:
            keys = KeyMap(ids)
        self._cache_value(pin, KEYS, keys, keys.size_bytes, known)
        return keys

    def resident(self, pin: Pin, name: str) -> bool:
        """Whether a column is in memory, or one it can be made from at little cost."""
        if self._cache.get((pin.path, pin.version, name)) is not None:
            return True
        return self._known_of(pin, name) is not None
