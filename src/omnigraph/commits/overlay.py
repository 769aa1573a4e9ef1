"""A base with the changes of writes that will be published together with the one that looks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import field

from omnigraph.catalog import EdgeType, Entity
from omnigraph.commits.base import Base
from omnigraph.commits.changes import ChangeSet
from omnigraph.commits.groups import RowIds, Touched
from omnigraph.rows.changes import TableChange
from omnigraph.rows.table_schema import rows_schema


class _Written:
    """What writes did to one table, each row at most once."""

    def __init__(self, entity: Entity) -> None:
        self._schema = rows_schema(entity)
        self._parts: list[pa.Table] = []
        self.there: set[str] = set()
        self.touched: set[str] = set()

    def take(self, change: TableChange, ids: RowIds) -> None:
        if (rows := change.rows()) is not None:
            self._parts.append(rows if rows.schema == self._schema else rows.cast(self._schema))
        self.there.update(ids.added, ids.changed)
        self.touched.update(ids.added, ids.changed, ids.deleted)

    def rows(self) -> pa.Table:
        """Return the rows that are written."""
        rows = pa.concat_tables(self._parts) if self._parts else self._schema.empty_table()
        self._parts = [rows]
        return rows

    def laid_over(self, rows: pa.Table, mine: pa.Table) -> pa.Table:
        """Return stored rows without those touched, and rows written instead."""
        if rows.num_rows:
            touched = pa.array(list(self.touched), pa.string())
            rows = rows.filter(pc.invert(pc.is_in(rows["id"], value_set=touched)))
        if mine.num_rows == 0:
            return rows
        wanted = pa.schema([self._schema.field(name) for name in rows.column_names])
        return pa.concat_tables([rows.cast(wanted), mine.select(wanted.names)])


class Overlay(Base):
    """The captured state, and on it the changes of the writes before this one."""

    written: dict[str, _Written] = field(default_factory=dict)
    asked: dict[str, set[str]] = field(default_factory=dict)
    stored: dict[str, set[str]] = field(default_factory=dict)
    """Of the ids that were asked for ahead, those that are stored."""

    @classmethod
    def on(cls, base: Base) -> Overlay:
        """Return a base without changes yet; what is read of it counts as read of that one."""
        return cls(
            accepted=base.accepted,
            capture=base.capture,
            pins=base.pins,
            tables=base.tables,
            id_lookup=base.id_lookup,
            read_pins=base.read_pins,
        )

    def look_up(self, entity: Entity, ids: Collection[str]) -> None:
        """Ask for the ids of several writes at once: each would else ask for its own."""
        key = entity.table_key
        asked = self.asked.setdefault(key, set())
        new = {item for item in ids if item not in asked}
        self.stored.setdefault(key, set()).update(Base.existing_ids(self, entity, new))
        asked |= new

    def _stored_ids(self, entity: Entity, ids: Collection[str]) -> set[str]:
        asked = self.asked.get(entity.table_key)
        if asked is None or not asked.issuperset(ids):
            return Base.existing_ids(self, entity, ids)
        self.pin(entity)
        return self.stored[entity.table_key].intersection(ids)

    def take(self, changes: Iterable[TableChange], touched: Touched) -> None:
        """Lay the changes of one more write over it, which touch these rows."""
        for change in changes:
            key = change.entity.table_key
            if key not in self.written:
                self.written[key] = _Written(change.entity)
            self.written[key].take(change, touched[key])

    def overlaps(self, touched: Touched) -> bool:
        """Whether a write touches a row that an earlier one touched."""
        return any(
            not ids.all.isdisjoint(self.written[key].touched)
            for key, ids in touched.items()
            if key in self.written
        )

    def row_count(self, entity: Entity) -> int:
        """Return how many rows a type has, or more; 0 means that there is nothing to look at."""
        written = self.written.get(entity.table_key)
        return self.pin(entity).row_count + (0 if written is None else len(written.there))

    def scan(
        self, entity: Entity, columns: Sequence[str], where: str | None, *, blobs: bool = False
    ) -> pa.Table:
        """Return rows that match a filter, and those written, whether they match or not."""
        # Named in full: a class with slots is made anew, so `super()` finds the wrong one.
        rows = Base.scan(self, entity, columns, where, blobs=blobs)
        written = self.written.get(entity.table_key)
        return rows if written is None else written.laid_over(rows, written.rows())

    def existing_ids(self, entity: Entity, ids: Collection[str]) -> set[str]:
        """Return those of the ids that exist."""
        written = self.written.get(entity.table_key)
        if written is None:
            return self._stored_ids(entity, ids)
        stored = self._stored_ids(entity, [item for item in ids if item not in written.touched])
        return stored | {item for item in ids if item in written.there}

    def rows_where(self, entity: Entity, column: str, values: Sequence[str]) -> pa.Table:
        """Return rows whose id or endpoint is one of the values, blobs as bytes."""
        rows = Base.rows_where(self, entity, column, values)
        written = self.written.get(entity.table_key)
        if written is None or rows is None:
            return rows
        return written.laid_over(rows, _where(written.rows(), column, values))

    def edge_ends(self, entity: EdgeType, column: str, values: Sequence[str]) -> pa.Table:
        """Return id, src and dst of edges with one of these endpoints."""
        rows = Base.edge_ends(self, entity, column, values)
        written = self.written.get(entity.table_key)
        return (
            rows
            if written is None
            else written.laid_over(rows, _where(written.rows(), column, values))
        )


def _where(rows: pa.Table, column: str, values: Sequence[str]) -> pa.Table:
    return rows.filter(pc.is_in(rows[column], value_set=pa.array(list(values), pa.string())))


def together(changes: Sequence[ChangeSet]) -> ChangeSet:
    """Return the changes of several writes as those of one; no row is in two of them."""
    if len(changes) == 1:
        return changes[0]
    combined = ChangeSet()
    for item in changes:
        for change in item.effective():
            whole = combined.of(change.entity)
            whole.added = _joined(whole.added, change.added, change.entity)
            whole.changed = _joined(whole.changed, change.changed, change.entity)
            whole.deleted = [*whole.deleted, *change.deleted]
    for whole in combined.tables.values():
        # In one piece: each piece would be written as a batch of its own.
        whole.added = None if whole.added is None else whole.added.combine_chunks()
        whole.changed = None if whole.changed is None else whole.changed.combine_chunks()
    return combined


def _joined(rows: pa.Table | None, more: pa.Table | None, entity: Entity) -> pa.Table | None:
    if more is None or more.num_rows == 0:
        return rows
    schema = rows_schema(entity)
    more = more if more.schema == schema else more.cast(schema)
    return more if rows is None else pa.concat_tables([rows, more])


def touched_by(changes: Iterable[TableChange]) -> dict[str, RowIds]:
    """Return the rows that changes touch."""
    return {
        change.entity.table_key: RowIds(
            added=_ids(change.added), changed=_ids(change.changed), deleted=tuple(change.deleted)
        )
        for change in changes
    }


def _ids(rows: pa.Table | None) -> tuple[str, ...]:
    return () if rows is None else tuple(rows["id"].to_pylist())
