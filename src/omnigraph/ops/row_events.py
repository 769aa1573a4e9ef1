"""Applies events of rows, as change data capture delivers them: the last one of each entity wins.

An event puts an entity or deletes it. A put sets the columns that came with it and no others;
entities that do not exist are made. A deleted node takes its edges along. What an event would
leave as it is, is not written: applying the same events again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import AcceptedSchema, Catalog, EdgeType, Entity, NodeType
from omnigraph.commits import Base, ChangeSet, PlainOperation
from omnigraph.intake.events import (
    EventFrame,
    TypeEvents,
    check_same_columns,
    last_events,
    named_events,
)
from omnigraph.intake.frames import NewIds
from omnigraph.limits import PROBLEMS_MAX, SCAN_INSTEAD_OF_PROBE_MIN
from omnigraph.rows import (
    Problems,
    TableChange,
    counts_of_kind,
    has_blobs,
    rows_schema,
    validate,
)
from omnigraph.rows.embeddings import Embeddings
from omnigraph.rows.images import equal_rows, equal_values
from omnigraph.rows.keys import ulid_column
from omnigraph.rows.problems import LinePlace
from omnigraph.rows.stored import Stored, ids_by_ends


class RowEvents(PlainOperation):
    """Events of several types as one operation of the write protocol."""

    kind = "load"

    def __init__(
        self,
        schema: AcceptedSchema,
        *,
        new_ids: NewIds,
        embeddings: Embeddings,
    ) -> None:
        self._schema = schema
        self._new_ids = new_ids
        self._embeddings = embeddings
        self._events: dict[str, TypeEvents] = {}
        self._changes = ChangeSet()
        self._place_of: Callable[[int], LinePlace] | None = None
        self._problems_max = PROBLEMS_MAX

    def take(
        self,
        given: Sequence[EventFrame],
        source: str,
        place_of: Callable[[int], LinePlace],
        problems_max: int,
    ) -> None:
        """Take in events of all types. Raises `DataError` with every problem found.

        Their lines are numbered through all files; `place_of` tells file and line.
        """
        self._place_of, self._problems_max = place_of, problems_max
        problems = self._problems(source)
        by_type: dict[str, list[EventFrame]] = {}
        for item in given:
            # A part without events says nothing about the columns of the others.
            if item.lines:
                by_type.setdefault(item.entity.table_key, []).append(item)
        for parts in by_type.values():
            labels = [(item.file or source, item.frame.column_names) for item in parts]
            check_same_columns(parts[0].entity, labels)
        named = {
            key: [named_events(self._schema, item, problems) for item in parts]
            for key, parts in by_type.items()
        }
        problems.raise_any()
        for key, frames in named.items():
            known = [item for item in frames if item is not None]
            self._events[key] = last_events(self._schema, known, problems)
        problems.raise_any()

    def _problems(self, source: str) -> Problems:
        problems = Problems(source=source, limit=self._problems_max)
        problems.place_of, problems.line_of = self._place_of, self._line_of
        return problems

    def _line_of(self, table_key: str, entity_id: str) -> int | None:
        """Return where the last event of an entity stands, None if none puts it."""
        events, change = self._events.get(table_key), self._changes.tables.get(table_key)
        if events is None:
            return None
        at = pc.index(events.puts["id"], pa.scalar(entity_id)).as_py()
        if at < 0 and isinstance(events.entity, EdgeType) and change is not None:
            at = _place_of_ends(events.puts, edge_ends(change, entity_id))
        return int(events.lines[at]) if at >= 0 else None

    def counts(self, kind: str) -> dict[str, int]:
        """Return events per type name, nodes or edges."""
        return counts_of_kind({key: events.count for key, events in self._events.items()}, kind)

    def prepare(self, base: Base) -> ChangeSet:
        """Compute what the events come to on a base, and validate the outcome."""
        changes = self._changes = ChangeSet()
        for key, events in sorted(self._events.items()):
            outcome = Outcome(base, events, self._embeddings, self._new_ids)
            changes.tables[key] = outcome.change()
        cascade(base, self._schema.catalog, changes)
        problems = self._problems("the events")
        validate(base, changes, problems)
        problems.raise_any()
        return changes


class Outcome:
    """What the events of one type come to on the rows that are stored."""

    def __init__(
        self, base: Stored, events: TypeEvents, embeddings: Embeddings, new_ids: NewIds
    ) -> None:
        self._base = base
        self._events = events
        self._embeddings = embeddings
        self._new_ids = new_ids

    def change(self) -> TableChange:
        """Return new rows, rows that differ from what is stored, and ids that go."""
        base, events = self._base, self._events
        entity, rows = events.entity, events.puts
        gone = set(events.deleted)
        if isinstance(entity, EdgeType):
            rows = _with_edge_ids(base, entity, rows)
            # Of an edge that is named by its id here and by its ends there, the put counts.
            gone |= _edges_between(base, entity, events.deleted_ends)
            gone -= set(rows["id"].to_pylist())
        change = TableChange(entity)
        change.deleted = sorted(base.existing_ids(entity, sorted(gone)))
        present = _present(base, entity, rows["id"])
        exists = pc.is_in(rows["id"], value_set=present["id"].combine_chunks()).combine_chunks()
        added = rows.filter(pc.invert(exists))
        if isinstance(entity, EdgeType):
            added = self._with_ids(added)
        change.added = self._embeddings.fill_rows(entity, added)
        changed = self._overlaid(entity, rows.filter(exists), present)
        change.changed = changed if changed.num_rows else None
        return change

    def _with_ids(self, edges: pa.Table) -> pa.Table:
        """Give ids to edges that are new and were named by their ends."""
        ids = edges["id"].combine_chunks()
        if not ids.null_count:
            return edges
        minted = ulid_column(self._new_ids(ids.null_count), ids.null_count).combine_chunks()
        filled = pc.replace_with_mask(ids, pc.is_null(ids), minted)
        return edges.set_column(0, edges.schema.field(0), filled)

    def _overlaid(self, entity: Entity, rows: pa.Table, present: pa.Table) -> pa.Table:
        """Return existing rows with the given columns replaced, only those that differ."""
        given = self._events.given
        at = pc.index_in(rows["id"].combine_chunks(), present["id"].combine_chunks())
        old = present.take(at)
        new = old
        for number, field in enumerate(rows.schema):
            declared = entity.properties.get(field.name)
            source = None if declared is None else declared.embedding
            if field.name in given:
                new = new.set_column(number, field, rows[field.name])
            elif source is not None and source.source in given and self._embeddings.active:
                # The text came without its vector, which belongs to the text before.
                same = pa.array(equal_values(old[source.source], rows[source.source]))
                vectors = old[field.name].combine_chunks()
                empty = pa.nulls(len(vectors), field.type)
                new = new.set_column(number, field, pc.if_else(same, vectors, empty))
        new = self._embeddings.fill_rows(entity, new)
        return new.filter(pc.invert(equal_rows(old, new)))


def cascade(base: Stored, catalog: Catalog, changes: ChangeSet) -> None:
    """Delete the edges of nodes that go; one that is put with them is judged as it stands."""
    put = set(changes.tables)
    for change in [item for item in changes.tables.values() if item.deleted]:
        if not isinstance(change.entity, NodeType):
            continue
        for edge in catalog.incident_edges(change.entity.name):
            ids: set[str] = set()
            for column, name in (("src", edge.source), ("dst", edge.target)):
                if name == change.entity.name:
                    ends = base.edge_ends(edge, column, change.deleted)
                    ids |= set(ends["id"].to_pylist())
            mine = changes.of(edge)
            kept = set(mine.ids()) if edge.table_key in put else set()
            mine.deleted = sorted({*mine.deleted, *(ids - kept)})


def edge_ends(change: TableChange, entity_id: str) -> tuple[str, str] | None:
    """Return the ends of an edge that is put."""
    for rows in (change.added, change.changed):
        if rows is None:
            continue
        at = pc.index(rows["id"], pa.scalar(entity_id)).as_py()
        if at >= 0:
            return rows["src"][at].as_py(), rows["dst"][at].as_py()
    return None


def _place_of_ends(puts: pa.Table, ends: tuple[str, str] | None) -> int:
    """Return which put names an edge by its ends, -1 if none does."""
    if ends is None:
        return -1
    same = [pc.equal(puts[name], end) for name, end in zip(("src", "dst"), ends, strict=True)]
    matches = pc.and_(pc.and_(*same), pc.is_null(puts["id"]))
    return int(pc.index(matches, pa.scalar(value=True)).as_py())


def _present(base: Stored, entity: Entity, ids: pa.ChunkedArray) -> pa.Table:
    """Return the committed rows with these ids."""
    schema = rows_schema(entity)
    known = sorted(base.existing_ids(entity, ids.drop_null().to_pylist()))
    if not known:
        return schema.empty_table()
    if len(known) < SCAN_INSTEAD_OF_PROBE_MIN:
        return base.rows_where(entity, "id", known).cast(schema)
    rows = base.scan(entity, schema.names, None, blobs=has_blobs(entity))
    return rows.filter(pc.is_in(rows["id"], value_set=pa.array(known, pa.string()))).cast(schema)


def _edges_between(base: Stored, edge: EdgeType, ends: list[tuple[str, str]]) -> set[str]:
    wanted = set(ends)
    edges = base.edge_ends(edge, "src", sorted({src for src, _dst in ends}))
    columns = (edges[name].to_pylist() for name in ("id", "src", "dst"))
    return {name for name, src, dst in zip(*columns, strict=True) if (src, dst) in wanted}


def _with_edge_ids(base: Stored, edge: EdgeType, rows: pa.Table) -> pa.Table:
    """Give edges without an id that of the edge between their ends, if there is one."""
    if not rows["id"].null_count:
        return rows
    lacking = rows.filter(pc.is_null(rows["id"]))
    ids = ids_by_ends(base, edge, pc.unique(lacking["src"]).to_pylist())
    mine = (rows[name].to_pylist() for name in ("id", "src", "dst"))
    filled = [name or ids.get((src, dst)) for name, src, dst in zip(*mine, strict=True)]
    rows = rows.set_column(0, rows.schema.field(0), pa.array(filled, pa.string()))
    # An edge may be named by its id in one event and by its ends in a later one.
    last = {name or place: place for place, name in enumerate(filled)}
    return rows.take(pa.array(sorted(last.values()), pa.int64()))
