"""What is computed from a column, kept by the fragments it came from.

A commit leaves most fragments as they were, so their words and vectors need not be computed again
for the next table version. Rows deleted since are masked, not removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.limits import SEGMENT_ROWS_MIN
from omnigraph.read.arrays import Mask
from omnigraph.read.columns import ResidentCache
from omnigraph.store import FragmentGroup, Pin, Table, Tables, count, fragment_groups


class Sized(Protocol):
    """Something the cache can account for."""

    @property
    def size_bytes(self) -> int:
        """Memory it holds."""


T = TypeVar("T", bound=Sized)
N = TypeVar("N", bound=np.generic)
Build = Callable[[pa.Array], T]
"""Computes something from a column."""
Addresses = NDArray[np.uint64]
"""Where Lance keeps some rows."""


class Segment(Struct, Generic[T], frozen=True):
    """A computed value for some rows of a table version: those from `start` on.

    `alive` tells which of the rows it was computed from still exist; None for all of them.
    """

    value: T
    start: int
    rows: int
    alive: Mask | None

    def live(self, per_row: NDArray[N]) -> NDArray[N]:
        """Return the entries of a per-row array that belong to rows of this version."""
        return per_row if self.alive is None else per_row[self.alive]


class Kept(Struct, Generic[T], frozen=True):
    """A computed value, the rows it was computed from, and what these depend on."""

    signature: str
    addresses: Addresses
    value: T


Load = Callable[[Table, FragmentGroup, str], Kept[T] | None]
"""Finds a value that was computed before."""


class Segments:
    """Computes and keeps segments for the tables of one graph."""

    def __init__(self, tables: Tables, cache: ResidentCache) -> None:
        self._tables = tables
        self._cache = cache

    def get(
        self, pin: Pin, name: str, kind: str, build: Build[T], load: Load[T] | None = None
    ) -> list[Segment[T]]:
        """Return the segments of a column of a table version, in row order.

        `load` finds what another process has computed.
        """
        table = self._tables.open(pin.path, pin.version)
        segments: list[Segment[T]] = []
        start = 0
        for group in fragment_groups(table, rows_min=SEGMENT_ROWS_MIN):
            kept, alive = self._of_group(table, group, name, kind, build, load)
            rows = len(kept.addresses) if alive is None else int(alive.sum())
            segments.append(Segment(kept.value, start, rows, alive))
            start += rows
        return segments

    def _of_group(
        self,
        table: Table,
        group: FragmentGroup,
        name: str,
        kind: str,
        build: Build[T],
        load: Load[T] | None,
    ) -> tuple[Kept[T], Mask | None]:
        # By the number of the column: another one may have had its name.
        key = (kind, table.path, table.field_id(name), group.key)
        # The key names what was computed, so what is kept under it is that.
        kept = cast("Kept[T] | None", self._cache.get(key))
        if kept is None and load is not None:
            kept = load(table, group, name)
            if kept is not None:
                self._cache.put(key, kept, kept.value.size_bytes + kept.addresses.nbytes)
        if kept is not None:
            if kept.signature == group.signature:
                return kept, None
            alive = _alive(kept.addresses, _addresses(table, group))
            if alive is not None:
                return kept, alive
        kept = self.computed(table, group, name, build)
        self._cache.put(key, kept, kept.value.size_bytes + kept.addresses.nbytes)
        return kept, None

    @staticmethod
    def computed(table: Table, group: FragmentGroup, name: str, build: Build[T]) -> Kept[T]:
        """Compute a value from a column of some fragments."""
        count("segment_builds")
        rows = table.scan(columns=[name], row_address=True, fragments=group.fragments)
        value = build(rows[name].combine_chunks())
        return Kept(group.signature, rows["_rowaddr"].to_numpy(), value)


def _addresses(table: Table, group: FragmentGroup) -> Addresses:
    rows = table.scan(columns=[], row_address=True, fragments=group.fragments)
    addresses: Addresses = rows["_rowaddr"].to_numpy()
    return addresses


def _alive(known: Addresses, present: Addresses) -> Mask | None:
    """Tell which known rows are present; None when there are rows that are not known."""
    alive = np.isin(known, present, assume_unique=True)
    return alive if int(alive.sum()) == len(present) else None
