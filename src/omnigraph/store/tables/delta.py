"""Finds the rows in which two versions of a table differ, at a cost that follows the difference.

A version is a list of immutable fragments, some with rows struck out. Fragments both versions
share, with the same rows struck out, hold nothing new; only the others are looked at. That needs
no version numbers, so it works between branches as well as along one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import LanceFragment
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.store.files.counters import count
from omnigraph.store.tables.table import Table, file_name

Places: TypeAlias = NDArray[np.int64]
"""Places of rows among the live rows of a fragment."""

_CHANGED_AT = "_row_last_updated_at_version"
_TAKE_ROWS_MAX = 8_192
_NONE = pa.array([], pa.uint64())


class TableDelta(Struct, frozen=True, kw_only=True):
    """Rows of either side that the other may not have, or not with the same values."""

    before: pa.Table
    after: pa.Table


class _Struck(Struct, frozen=True):
    """Rows of a shared fragment that the other version struck out."""

    fragment: LanceFragment
    places: Places


class _Side(Struct, frozen=True):
    """Fragments of one version that the other lacks, and rows of shared ones it struck out."""

    table: Table
    fragments: list[LanceFragment]
    struck: list[_Struck]


def table_delta(
    before: Table, after: Table, columns: Sequence[str], *, descends: bool, blob_bytes: bool = False
) -> TableDelta:
    """Return the rows that may differ, with the given columns.

    `descends` says that `after` grew out of `before`: rows a compaction only moved are then told
    from changed ones without reading them.
    """
    count("table_deltas")
    with before.at_work("comparing versions of"), after.at_work("comparing versions of"):
        old, new = _sides(before, after)
        moved = _NONE
        if descends and new.fragments:
            moved = _unchanged_since(new, before.version)
        return TableDelta(
            before=_images(old, moved, columns, blob_bytes),
            after=_images(new, moved, columns, blob_bytes),
        )


class DeltaPart(Struct, frozen=True, kw_only=True):
    """Rows of one fragment that may differ, for a worker that reads them elsewhere.

    `places` are those of some live rows; None means all of them.
    """

    is_after: bool
    folder: str
    version: int
    fragment: int
    rows: int
    places: tuple[int, ...] | None = None


def delta_parts(before: Table | None, after: Table | None) -> list[DeltaPart]:
    """Return where the rows lie that may differ; a side that is not there is empty.

    Rows that a compaction only moved are among them: a comparison finds them equal.
    """
    count("table_deltas")
    if before is not None and after is not None:
        with before.at_work("comparing versions of"), after.at_work("comparing versions of"):
            sides = [*_sides(before, after)]
    else:
        there = [table for table in (before, after) if table is not None]
        sides = [_Side(table, table.fragments(), []) for table in there]
    return [part for side in sides for part in _parts(side, is_after=side.table is after)]


def _parts(side: _Side, *, is_after: bool) -> list[DeltaPart]:
    folder, version = str(side.table.dataset.uri), side.table.version
    chosen: list[tuple[LanceFragment, Places | None]] = [(item, None) for item in side.fragments]
    chosen += [(item.fragment, item.places) for item in side.struck if len(item.places)]
    return [
        DeltaPart(
            is_after=is_after,
            folder=folder,
            version=version,
            fragment=int(fragment.fragment_id),
            rows=int(fragment.physical_rows) if places is None else len(places),
            places=None if places is None else tuple(places.tolist()),
        )
        for fragment, places in chosen
    ]


def _sides(before: Table, after: Table) -> tuple[_Side, _Side]:
    olds = {_files(fragment): fragment for fragment in before.fragments()}
    news = {_files(fragment): fragment for fragment in after.fragments()}
    struck_old: list[_Struck] = []
    struck_new: list[_Struck] = []
    for key in olds.keys() & news.keys():
        old, new = olds[key], news[key]
        if old.deletion_file() != new.deletion_file():
            there, here = _struck_out(before, old), _struck_out(after, new)
            struck_old.append(_Struck(old, _only(there, here)))
            struck_new.append(_Struck(new, _only(here, there)))
    return (
        _Side(before, [olds[k] for k in olds if k not in news], struck_old),
        _Side(after, [news[k] for k in news if k not in olds], struck_new),
    )


def _struck_out(table: Table, fragment: LanceFragment) -> NDArray[np.uint64]:
    """Return where the rows of a fragment lie that are struck out, in order."""
    file = fragment.metadata.deletion_file
    if file is None:
        return np.array([], np.uint64)
    folder = str(table.dataset.uri)
    if file.base_id is not None:
        folder = str(table.dataset.base_paths()[file.base_id].path)
    if file.file_type == "array" and "://" not in folder:
        path = os.path.join(folder, file.path(fragment.fragment_id))
        with pa.OSFile(path) as source:
            places = pa.ipc.open_file(source).read_all()["row_id"].to_numpy()
        return np.sort(places.astype(np.uint64))
    count("data_scans")
    rows = table.dataset.scanner(columns=[], with_row_address=True, fragments=[fragment]).to_table()
    gone = np.ones(fragment.physical_rows, bool)
    gone[rows["_rowaddr"].to_numpy() & np.uint64(0xFFFFFFFF)] = False
    return np.flatnonzero(gone).astype(np.uint64)


def _only(struck: NDArray[np.uint64], elsewhere: NDArray[np.uint64]) -> Places:
    """Return the live rows struck out elsewhere, by their place among the live ones."""
    places = np.setdiff1d(elsewhere, struck, assume_unique=True)
    return places.astype(np.int64) - np.searchsorted(struck, places)


def _files(fragment: LanceFragment) -> tuple[str, ...]:
    return tuple(file_name(item) for item in fragment.metadata.files)


def _row_ids(table: Table, fragments: list[LanceFragment]) -> pa.Array:
    count("data_scans")
    scanner = table.dataset.scanner(
        columns=[], with_row_id=True, fragments=fragments, scan_in_order=True
    )
    return scanner.to_table()["_rowid"].combine_chunks()


def _unchanged_since(side: _Side, version: int) -> pa.Array:
    count("data_scans")
    rows = side.table.dataset.scanner(
        columns=[_CHANGED_AT], with_row_id=True, fragments=side.fragments
    ).to_table()
    return rows.filter(pc.less_equal(rows[_CHANGED_AT], version))["_rowid"].combine_chunks()


def _images(side: _Side, moved: pa.Array, columns: Sequence[str], blob_bytes: bool) -> pa.Table:
    """Read the rows that may differ, only from the fragments that hold them."""
    parts = [_empty(side.table, columns)] if not blob_bytes else []
    if side.fragments:
        parts += _of_fragments(side, moved, columns, blob_bytes)
    for item in side.struck:
        places = item.places
        if len(moved) and len(places):
            ids = _row_ids(side.table, [item.fragment]).take(places)
            places = places[~pc.is_in(ids, value_set=moved).to_numpy(zero_copy_only=False)]
        if len(places):
            parts.append(_at(side.table, item.fragment, places, columns, blob_bytes))
    return pa.concat_tables(parts) if parts else _empty(side.table, columns)


def _of_fragments(
    side: _Side, moved: pa.Array, columns: Sequence[str], blob_bytes: bool
) -> list[pa.Table]:
    """Read fragments without the rows that were only moved."""
    if len(moved) == 0:
        return [_scan(side.table, side.fragments, columns, blob_bytes)]
    row_ids = _row_ids(side.table, side.fragments)
    kept = row_ids.filter(pc.invert(pc.is_in(row_ids, value_set=moved)))
    if len(kept) == 0:
        return []
    if len(kept) <= _TAKE_ROWS_MAX and not blob_bytes:
        count("data_scans")
        return [side.table.dataset._take_rows(kept.to_pylist(), columns=list(columns))]
    rows = _scan(side.table, side.fragments, columns, blob_bytes)
    return [rows.filter(pc.is_in(row_ids, value_set=kept))]


def _at(
    table: Table, fragment: LanceFragment, places: Places, columns: Sequence[str], blob_bytes: bool
) -> pa.Table:
    """Read rows of one fragment by their place among its live rows.

    Asking the whole table by row id would make it build an index over all its rows first.
    """
    if len(places) > _TAKE_ROWS_MAX or blob_bytes:
        return _scan(table, [fragment], columns, blob_bytes).take(places)
    count("data_scans")
    return fragment.take(places.tolist(), columns=list(columns))


def _scan(
    table: Table, fragments: list[LanceFragment], columns: Sequence[str], blob_bytes: bool
) -> pa.Table:
    count("data_scans")
    options: dict[str, Any] = {"blob_handling": "all_binary"} if blob_bytes else {}
    return table.dataset.scanner(
        columns=list(columns), fragments=fragments, scan_in_order=True, **options
    ).to_table()


def _empty(table: Table, columns: Sequence[str]) -> pa.Table:
    schema = table.schema
    return pa.schema([schema.field(name) for name in columns]).empty_table()
