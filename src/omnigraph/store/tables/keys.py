"""Finds which ids exist in a table, at a cost that does not grow with it.

Fragments covered by the id index are asked through the index. The tail of small fragments no
index covers yet is held in memory as sets of ids, one per fragment, so a stream of one-row
commits does not make probes slower.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from omnigraph.bounded import BoundedCache
from omnigraph.limits import (
    PROBE_KEYS_MAX,
    PROBE_PLANS_MAX,
    TAIL_FRAGMENT_ROWS_MAX,
    TAIL_FRAGMENTS_CACHED_MAX,
)
from omnigraph.store.files.counters import count
from omnigraph.store.tables.table import Table, fragment_signature

if TYPE_CHECKING:
    from lance.fragment import LanceFragment

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


class _TailFragment(Struct, frozen=True, kw_only=True):
    """A small unindexed fragment, and what its ids depend on: its file and its deletions."""

    fragment: LanceFragment
    signature: str


class _ProbePlan(Struct, frozen=True, kw_only=True):
    indexed: bool
    small: list[_TailFragment]
    large: list[LanceFragment]


class IdLookup:
    """Answers which ids exist, for every table of a graph."""

    def __init__(self) -> None:
        # By file names, which are unique: branches of a table share what they inherit.
        self._tails: BoundedCache[str, frozenset[str]] = BoundedCache(TAIL_FRAGMENTS_CACHED_MAX)
        # Few: each plan keeps a whole version of its table in memory.
        self._plans: BoundedCache[tuple[str, int], _ProbePlan] = BoundedCache(PROBE_PLANS_MAX)

    def existing(self, table: Table, ids: Collection[str]) -> set[str]:
        """Return those of the ids that a live row of the table has."""
        if not ids:
            return set()
        count("key_probes")
        plan = self._plan(table)
        existing: set[str] = set()
        for item in plan.small:
            existing.update(self._tail(table, item).intersection(ids))
        remaining = [item for item in ids if item not in existing]
        for start in range(0, len(remaining), PROBE_KEYS_MAX):
            chunk = remaining[start : start + PROBE_KEYS_MAX]
            where = id_filter("id", chunk)
            if plan.indexed:
                rows = table.scan(columns=["id"], where=where, indexed_only=True)
                existing.update(rows["id"].to_pylist())
            if plan.large:
                rows = table.scan(columns=["id"], where=where, fragments=plan.large)
                existing.update(rows["id"].to_pylist())
        return existing

    def tail(self, table: Table) -> tuple[int, int]:
        """Return how many fragments, and how many rows in them, the id index does not cover."""
        plan = self._plan(table)
        tail = [*(item.fragment for item in plan.small), *plan.large]
        return len(tail), sum(fragment.physical_rows for fragment in tail)

    def remember_new_ids(self, table: Table, parent: Table, ids: Collection[str]) -> None:
        """Remember the ids an insert just added, so that no check reads them back."""
        known = {item.signature for item in self._plan(parent).small}
        new = [item for item in self._plan(table).small if item.signature not in known]
        if len(new) == 1 and new[0].fragment.physical_rows == len(ids):
            self._remember(new[0], frozenset(ids))
        # A busy table leaves room for the plans of others.
        self._plans.pop((parent.path, parent.version - 1))

    def _plan(self, table: Table) -> _ProbePlan:
        """Split a version's fragments by how their ids are looked up."""
        key = (table.path, table.version)
        if (known := self._plans.get(key)) is not None:
            return known
        covered = table.index_fragments(ID_INDEX)
        tail = [f for f in table.fragments() if f.fragment_id not in covered]
        plan = _ProbePlan(
            indexed=bool(covered),
            small=[
                _TailFragment(fragment=f, signature=fragment_signature(f))
                for f in tail
                if f.physical_rows <= TAIL_FRAGMENT_ROWS_MAX
            ],
            large=[f for f in tail if f.physical_rows > TAIL_FRAGMENT_ROWS_MAX],
        )
        self._plans.put(key, plan)
        return plan

    def _tail(self, table: Table, item: _TailFragment) -> frozenset[str]:
        known = self._tails.get(item.signature)
        if known is not None:
            return known
        rows = table.scan(columns=["id"], fragments=[item.fragment])
        return self._remember(item, frozenset(rows["id"].to_pylist()))

    def _remember(self, item: _TailFragment, ids: frozenset[str]) -> frozenset[str]:
        self._tails.put(item.signature, ids)
        return ids


def addresses_of(table: Table, column: str, ids: Sequence[str]) -> pa.Table:
    """Return id and row address of the rows whose column is one of the ids, as a table."""
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
