"""What a span of a commit's rows changed, read by one task.

The rows in which two versions of a table may differ have places: those of the later version come
first, then those of the earlier one, by fragment. Both versions are immutable, so a span of places
means the same rows whenever it is read. A change is told where its newest row stands: an insert
and an update at the row that came, a delete at the row that went.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.catalog import Entity
from omnigraph.ops.diff import ChangeFilter, EntityChange, changes_of
from omnigraph.rows import has_blobs, rows_schema
from omnigraph.rows.images import RowChanges, row_changes
from omnigraph.store import Place, Table
from omnigraph.store.tables.delta import DeltaPart, delta_parts
from omnigraph.store.tables.worker_io import open_version, read_places, read_range

_CHANGED_AT = "_row_last_updated_at_version"
_ROWS = 16_384
Piece = tuple[DeltaPart, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Rows of one table that a commit may have changed, from one place to another; plain data."""

    entity: Entity
    type_id: int
    before: Place | None
    after: Place | None
    descends: bool
    start: int
    stop: int


def ordered_parts(before: Table | None, after: Table | None) -> list[DeltaPart]:
    """Return where the rows lie that may differ, in an order that never changes."""
    return sorted(delta_parts(before, after), key=lambda part: (not part.is_after, part.fragment))


def span_changes(span: Span, wanted: ChangeFilter) -> Iterator[list[EntityChange]]:
    """Yield the changes that are told within a span, some at a time."""
    sides = _Sides(span)
    for changes in (*sides.came(), *sides.went()):
        yield list(changes_of(span.entity, span.type_id, changes, wanted))


@dataclass(slots=True)
class _Known:
    """Rows of the other version that have an id of the span: which part, and where in it."""

    ids: pa.Array
    parts: NDArray[np.int64]
    places: NDArray[np.int64]


@dataclass(slots=True)
class _Sides:
    span: Span
    before: Table | None = field(init=False)
    after: Table | None = field(init=False)
    parts: list[DeltaPart] = field(init=False)
    blobs: bool = field(init=False)

    def __post_init__(self) -> None:
        span = self.span
        self.before = None if span.before is None else open_version(*span.before)
        self.after = None if span.after is None else open_version(*span.after)
        self.parts = ordered_parts(self.before, self.after)
        self.blobs = has_blobs(span.entity)

    def _mine(self, *, is_after: bool) -> list[Piece]:
        """Return the parts of one version that the span covers, and from where to where."""
        pieces: list[Piece] = []
        at = 0
        for part in self.parts:
            start = max(self.span.start - at, 0)
            stop = min(self.span.stop - at, part.rows)
            at += part.rows
            if start < stop and part.is_after == is_after:
                pieces.append((part, start, stop))
        return pieces

    def _table(self, part: DeltaPart) -> Table:
        table = self.after if part.is_after else self.before
        if table is None:
            raise ValueError(f"a part of a version that does not exist: {part}")
        return table

    def came(self) -> Iterator[RowChanges]:
        """Yield inserts and updates."""
        mine = self._mine(is_after=True)
        schema = rows_schema(self.span.entity)
        known = self._others(self._ids(mine), is_after=False)
        for piece in mine:
            for batch in self._read(piece, schema.names):
                new = pa.Table.from_batches([batch]).cast(schema)
                yield row_changes(self._images(known, new["id"]), new)

    def _ids(self, mine: list[Piece]) -> pa.ChunkedArray:
        ids = [batch.column("id") for piece in mine for batch in self._read(piece, ["id"])]
        return pa.chunked_array(ids, pa.string())

    def _read(self, piece: Piece, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a piece, of the later version without those that were only moved."""
        part, start, stop = piece
        table = self._table(part)
        blobs = self.blobs and len(columns) > 1
        if part.places is not None or self.before is None or not self._may_be_moved(part):
            yield from read_range(table, part, start, stop, columns, blob_bytes=blobs)
            return
        wanted = [*columns, _CHANGED_AT]
        for batch in read_range(table, part, start, stop, wanted, blob_bytes=blobs):
            newer = pc.greater(batch.column(_CHANGED_AT), self.before.version)
            yield batch.select(columns).filter(newer)

    def _may_be_moved(self, part: DeltaPart) -> bool:
        return part.is_after and self.span.descends

    def _others(self, ids: pa.ChunkedArray, *, is_after: bool) -> _Known:
        """Find ids in all that may differ of the other version: of that, only ids are read."""
        names: list[pa.Array] = []
        parts: list[NDArray[np.int64]] = []
        places: list[NDArray[np.int64]] = []
        for number, part in enumerate(self.parts):
            if part.is_after != is_after or len(ids) == 0:
                continue
            at = 0
            for batch in read_range(self._table(part), part, 0, part.rows, ["id"]):
                inside = pc.is_in(batch.column("id"), value_set=ids)
                rows = np.flatnonzero(inside.to_numpy(zero_copy_only=False))
                names.append(batch.column("id").take(pa.array(rows)))
                parts.append(np.full(len(rows), number, np.int64))
                places.append(rows + at)
                at += batch.num_rows
        empty = np.array([], np.int64)
        return _Known(
            ids=pa.chunked_array(names, pa.string()).combine_chunks(),
            parts=np.concatenate([empty, *parts]),
            places=np.concatenate([empty, *places]),
        )

    def _images(self, known: _Known, ids: pa.ChunkedArray) -> pa.Table:
        """Return the rows of the other version with these ids."""
        schema = rows_schema(self.span.entity)
        indices = pc.drop_null(pc.index_in(ids.combine_chunks(), value_set=known.ids)).to_numpy()
        images: list[pa.Table] = [schema.empty_table()]
        for number in np.unique(known.parts[indices]).tolist():
            part = self.parts[number]
            places = np.sort(known.places[indices[known.parts[indices] == number]])
            images.append(self._rows(part, places))
        return pa.concat_tables(images)

    def _rows(self, part: DeltaPart, places: NDArray[np.int64]) -> pa.Table:
        schema = rows_schema(self.span.entity)
        table = self._table(part)
        return read_places(table, part, places, schema.names, blob_bytes=self.blobs).cast(schema)

    def went(self) -> Iterator[RowChanges]:
        """Yield deletes."""
        mine = self._mine(is_after=False)
        none = rows_schema(self.span.entity).empty_table()
        still = self._others(self._ids(mine), is_after=True).ids
        for piece in mine:
            part, start, _stop = piece
            gone = pc.invert(pc.is_in(self._ids([piece]), value_set=still)).combine_chunks()
            places = np.flatnonzero(gone.to_numpy(zero_copy_only=False)) + start
            for at in range(0, len(places), _ROWS):
                rows = self._rows(part, places[at : at + _ROWS])
                yield RowChanges(inserted=none, deleted=rows, old=none, new=none)
