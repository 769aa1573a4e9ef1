"""Finds which ids exist in a table, at a cost that does not grow with it.

Fragments covered by the id index are asked through the index. The tail of small fragments no
index covers yet is held in memory as sets of ids, one per fragment, so a stream of one-row
commits does not make probes slower.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from omnigraph.limits import PROBE_KEYS_MAX, TAIL_FRAGMENT_ROWS_MAX, TAIL_FRAGMENTS_CACHED_MAX
from omnigraph.store.counters import count
from omnigraph.store.tables import Table

ID_INDEX = "id_idx"


def quoted(text: str) -> str:
    """Return a string as a filter literal."""
    return "'" + text.replace("'", "''") + "'"


def id_filter(column: str, ids: Iterable[str]) -> str:
    """Return a filter that keeps rows whose column is one of the ids."""
    listed = [quoted(item) for item in ids]
    if len(listed) == 1:
        return f"{column} = {listed[0]}"
    return f"{column} IN ({', '.join(listed)})"


class KeyProbe:
    """Answers which ids exist, for every table of a graph."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tails: dict[tuple[str, str], frozenset[str]] = {}
        self._plans: dict[tuple[str, int], tuple[bool, list[Any], list[Any]]] = {}

    def existing(self, table: Table, ids: Collection[str]) -> set[str]:
        """Return those of the ids that a live row of the table has."""
        if not ids:
            return set()
        count("key_probes")
        indexed, small, large = self._plan(table)
        found: set[str] = set()
        for fragment in small:
            found.update(self._tail(table, fragment).intersection(ids))
        remaining = [item for item in ids if item not in found]
        for start in range(0, len(remaining), PROBE_KEYS_MAX):
            chunk = remaining[start : start + PROBE_KEYS_MAX]
            where = id_filter("id", chunk)
            if indexed:
                rows = table.scan(columns=["id"], where=where, indexed_only=True)
                found.update(rows["id"].to_pylist())
            if large:
                rows = table.scan(columns=["id"], where=where, fragments=large)
                found.update(rows["id"].to_pylist())
        return found

    def tail(self, table: Table) -> tuple[int, int]:
        """Return how many fragments, and how many rows in them, the id index does not cover."""
        _indexed, small, large = self._plan(table)
        return len(small) + len(large), sum(f.physical_rows for f in (*small, *large))

    def learn(self, table: Table, parent: Table, ids: Collection[str]) -> None:
        """Remember the ids an insert just added, so that nobody reads them back."""
        known = {self._signature(f) for f in self._plan(parent)[1]}
        new = [f for f in self._plan(table)[1] if self._signature(f) not in known]
        if len(new) == 1 and new[0].physical_rows == len(ids):
            self._remember(table, new[0], frozenset(ids))

    def _plan(self, table: Table) -> tuple[bool, list[Any], list[Any]]:
        """Split a version's fragments: is anything indexed, small tail, large tail."""
        key = (table.path, table.version)
        with self._lock:
            if (known := self._plans.get(key)) is not None:
                return known
        covered = table.index_fragments(ID_INDEX)
        tail = [f for f in table.fragments() if f.fragment_id not in covered]
        small = [f for f in tail if f.physical_rows <= TAIL_FRAGMENT_ROWS_MAX]
        large = [f for f in tail if f.physical_rows > TAIL_FRAGMENT_ROWS_MAX]
        found = (bool(covered), small, large)
        with self._lock:
            if len(self._plans) >= TAIL_FRAGMENTS_CACHED_MAX:
                self._plans.clear()
            self._plans[key] = found
        return found

    def _signature(self, fragment: Any) -> str:
        metadata = fragment.metadata
        deleted = metadata.deletion_file
        files = "+".join(item.path for item in metadata.files)
        return (
            f"{fragment.fragment_id}:{files}:{0 if deleted is None else deleted.num_deleted_rows}"
        )

    def _tail(self, table: Table, fragment: Any) -> frozenset[str]:
        key = (table.path, self._signature(fragment))
        with self._lock:
            known = self._tails.get(key)
        if known is not None:
            return known
        rows = table.scan(columns=["id"], fragments=[fragment])
        return self._remember(table, fragment, frozenset(rows["id"].to_pylist()))

    def _remember(self, table: Table, fragment: Any, ids: frozenset[str]) -> frozenset[str]:
        with self._lock:
            if len(self._tails) >= TAIL_FRAGMENTS_CACHED_MAX:
                self._tails.clear()
            self._tails[(table.path, self._signature(fragment))] = ids
        return ids


def addresses_of(table: Table, column: str, ids: Sequence[str]) -> Any:
    """Return id and row address of the rows whose column is one of the ids, as a table."""
    import pyarrow as pa

    parts = [
        table.scan(
            columns=["id"],
            where=id_filter(column, ids[start : start + PROBE_KEYS_MAX]),
            row_address=True,
        )
        for start in range(0, len(ids), PROBE_KEYS_MAX)
    ]
    if not parts:
        return pa.table({"id": pa.array([], pa.string()), "_rowaddr": pa.array([], pa.uint64())})
    return pa.concat_tables(parts)
