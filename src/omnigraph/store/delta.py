"""Finds the rows in which two versions of a table differ, at a cost that follows the difference.

A version is a list of immutable fragments, some with rows struck out. Fragments both versions
share, with the same rows struck out, hold nothing new; only the others are looked at. That needs
no version numbers, so it works between branches as well as along one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.counters import count
from omnigraph.store.lance_errors import translated
from omnigraph.store.tables import Table, file_name

_CHANGED_AT = "_row_last_updated_at_version"
_TAKE_ROWS_MAX = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDelta:
    """Rows of either side that the other may not have, or not with the same values."""

    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class _Side:
    """Fragments of one version that the other lacks, and rows of shared ones it struck out."""

    table: Table
    fragments: list[Any]
    row_ids: Any


def table_delta(
    before: Table, after: Table, columns: Sequence[str], *, descends: bool, blob_bytes: bool = False
) -> TableDelta:
    """Return the rows that may differ, with the given columns.

    `descends` says that `after` grew out of `before`: rows a compaction only moved are then told
    from changed ones without reading them.
    """
    count("table_deltas")
    with translated(f"comparing versions of {after.path}"):
        old, new = _sides(before, after)
        old_ids, new_ids = _candidates(old), _candidates(new)
        if descends and new.fragments:
            moved = _unchanged_since(new, before.version)
            old_ids = _without(old_ids, moved)
            new_ids = _without(new_ids, moved)
        return TableDelta(
            before=_images(old, old_ids, columns, blob_bytes),
            after=_images(new, new_ids, columns, blob_bytes),
        )


def _sides(before: Table, after: Table) -> tuple[_Side, _Side]:
    olds = {_files(fragment): fragment for fragment in before.fragments()}
    news = {_files(fragment): fragment for fragment in after.fragments()}
    struck_old: list[Any] = []
    struck_new: list[Any] = []
    for key in olds.keys() & news.keys():
        old, new = olds[key], news[key]
        if old.deletion_file() != new.deletion_file():
            there = _row_ids(before, [old])
            here = _row_ids(after, [new])
            struck_old.append(_without(there, here))
            struck_new.append(_without(here, there))
    return (
        _Side(before, [olds[k] for k in olds if k not in news], _joined(struck_old)),
        _Side(after, [news[k] for k in news if k not in olds], _joined(struck_new)),
    )


def _files(fragment: Any) -> tuple[str, ...]:
    return tuple(file_name(item) for item in fragment.metadata.files)


def _joined(parts: list[Any]) -> Any:
    empty = pa.array([], pa.uint64())
    return pa.concat_arrays([empty, *parts])


def _row_ids(table: Table, fragments: list[Any]) -> Any:
    if not fragments:
        return pa.array([], pa.uint64())
    count("data_scans")
    scanner = table.dataset.scanner(columns=[], with_row_id=True, fragments=fragments)
    return scanner.to_table()["_rowid"].combine_chunks()


def _candidates(side: _Side) -> Any:
    return pa.concat_arrays([_row_ids(side.table, side.fragments), side.row_ids])


def _unchanged_since(side: _Side, version: int) -> Any:
    count("data_scans")
    rows = side.table.dataset.scanner(
        columns=[_CHANGED_AT], with_row_id=True, fragments=side.fragments
    ).to_table()
    return rows.filter(pc.less_equal(rows[_CHANGED_AT], version))["_rowid"].combine_chunks()


def _without(ids: Any, others: Any) -> Any:
    return ids.filter(pc.invert(pc.is_in(ids, value_set=others)))


def _images(side: _Side, row_ids: Any, columns: Sequence[str], blob_bytes: bool) -> Any:
    """Read rows by their row ids, only from the fragments that hold them."""
    if len(row_ids) == 0:
        return _empty(side.table, columns)
    count("data_scans")
    if len(row_ids) <= _TAKE_ROWS_MAX and not blob_bytes:
        dataset: Any = side.table.dataset
        return dataset._take_rows(row_ids.to_pylist(), columns=list(columns))
    options: dict[str, Any] = {"blob_handling": "all_binary"} if blob_bytes else {}
    fragments = None if len(side.row_ids) else side.fragments
    scanner = side.table.dataset.scanner(
        columns=list(columns), with_row_id=True, fragments=fragments, **options
    )
    parts = [
        pa.Table.from_batches([batch]).filter(pc.is_in(batch["_rowid"], value_set=row_ids))
        for batch in scanner.to_batches()
    ]
    return pa.concat_tables(parts).select(list(columns))


def _empty(table: Table, columns: Sequence[str]) -> Any:
    schema = table.schema
    return pa.schema([schema.field(name) for name in columns]).empty_table()
