"""Applies events of rows, as change data capture delivers them: the last one of each entity wins.

An event puts an entity or deletes it. A put sets the columns that came with it and no others;
entities that do not exist are made. A deleted node takes its edges along. What an event would
leave as it is, is not written: applying the same events again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.catalog import AcceptedSchema, EdgeType, Entity, NodeType
from omnigraph.commits import Base, ChangeSet, PlainOperation
from omnigraph.intake.frames import complete_ids, frame_rows
from omnigraph.limits import SCAN_INSTEAD_OF_PROBE_MIN
from omnigraph.rows import Problem, Problems, has_blobs, rows_schema, validate
from omnigraph.rows.embeddings import Embeddings
from omnigraph.rows.images import equal_rows, equal_values
from omnigraph.rows.keys import ulid_column

PUT = frozenset({"insert", "update", "upsert", "i", "u", "c", "r"})
DELETE = frozenset({"delete", "tombstone", "d"})


class EventFrame(Struct, frozen=True, kw_only=True):
    """Events of one type as they came: columns by their names, and which of these say what.

    Without `op_col` all are deletes. With `seq_col` the event of the highest value is the last
    one; otherwise, and among equal values, it is the last in the input.
    """

    entity: Entity
    frame: Any
    lines: Sequence[int]
    from_col: str
    to_col: str
    op_col: str | None
    seq_col: str | None


class _Events(Struct):
    """The last event of each entity of a type. Edges without an id are known by their ends."""

    entity: Entity
    puts: Any
    given: frozenset[str]
    deleted: list[str]
    deleted_ends: list[tuple[str, str]]
    count: int


class RowEvents(PlainOperation):
    """Events of several types as one operation of the write protocol."""

    kind = "load"

    def __init__(
        self,
        schema: AcceptedSchema,
        *,
        new_ids: Callable[[int], tuple[str, int]],
        embeddings: Embeddings,
    ) -> None:
        self._schema = schema
        self._new_ids = new_ids
        self._embeddings = embeddings
        self._events: dict[str, _Events] = {}

    # ---- reading --------------------------------------------------------------------------

    def take(self, given: EventFrame, label: str) -> None:
        """Take in all events of one type. Raises `DataError` with every problem found."""
        problems = Problems(source=label)
        entity = given.entity
        flags = _deletes(given, problems)
        sequence = _sequence(given, problems)
        spoken = [name for name in (given.op_col, given.seq_col) if name is not None]
        own = [name for name in spoken if name not in entity.properties]
        frame = given.frame.select([n for n in given.frame.column_names if n not in own])
        problems.raise_any()
        names = self._identities(given, frame, problems)
        problems.raise_any()
        last = _last(names, sequence)
        puts = last[~flags[last]]
        gone = last[flags[last]]
        lines = [given.lines[row] for row in puts.tolist()]
        rows = frame_rows(
            entity,
            frame.take(pa.array(puts)),
            from_col=given.from_col,
            to_col=given.to_col,
            lines=lines,
            problems=problems,
        )
        problems.raise_any()
        if isinstance(entity, NodeType):
            rows, _new = complete_ids(self._schema, entity, rows, lines, _no_ids, problems)
        problems.raise_any()
        chosen = [names[row] for row in gone.tolist()]
        self._events[entity.table_key] = _Events(
            entity=entity,
            puts=rows,
            given=frozenset(frame.column_names) | {"id", "src", "dst"},
            deleted=[name for name in chosen if isinstance(name, str)],
            deleted_ends=[name for name in chosen if not isinstance(name, str)],
            count=len(last),
        )

    def _identities(
        self, given: EventFrame, frame: Any, problems: Problems
    ) -> list[str | tuple[str, str]]:
        """Return what tells the entity of each event from others: its id, or its ends."""
        entity = given.entity
        if isinstance(entity, EdgeType):
            return _edge_identities(entity, given, frame, problems)
        order = list(self._schema.key_order(entity)) if entity.key else []
        wanted = [name for name in (*order, "id") if name in frame.column_names]
        if not wanted or (order and wanted == ["id"]):
            needed = ", ".join(order) or "id"
            problems.add(Problem(message=f"events of {entity.name} need its key: {needed}"))
            return []
        rows = frame_rows(
            entity,
            frame.select(wanted),
            from_col=given.from_col,
            to_col=given.to_col,
            lines=given.lines,
            problems=problems,
        )
        if rows is None:
            return []
        if order:
            rows, _new = complete_ids(self._schema, entity, rows, given.lines, _no_ids, problems)
        ids: list[str | tuple[str, str]] = rows["id"].to_pylist()
        _need_all(entity, ids, given.lines, problems)
        return ids

    # ---- the operation --------------------------------------------------------------------

    def counts(self, kind: str) -> dict[str, int]:
        """Return events per type name, nodes or edges."""
        return {
            key.partition(":")[2]: found.count
            for key, found in sorted(self._events.items())
            if key.startswith(f"{kind}:")
        }

    def prepare(self, base: Base) -> ChangeSet:
        """Compute what the events come to on a base, and validate the outcome."""
        changes = ChangeSet()
        for _key, events in sorted(self._events.items()):
            self._fill(base, changes, events)
        self._cascade(base, changes)
        problems = Problems(source="the events")
        validate(base, changes, problems)
        problems.raise_any()
        return changes

    def _fill(self, base: Base, changes: ChangeSet, events: _Events) -> None:
        entity, rows = events.entity, events.puts
        gone = set(events.deleted)
        if isinstance(entity, EdgeType):
            rows = _with_edge_ids(base, entity, rows)
            # Of an edge that is named by its id here and by its ends there, the put counts.
            gone |= _edges_between(base, entity, events.deleted_ends)
            gone -= set(rows["id"].to_pylist())
        change = changes.of(entity)
        change.deleted = sorted(base.existing_ids(entity, sorted(gone)))
        present = _present(base, entity, rows["id"])
        exists = pc.is_in(rows["id"], value_set=present["id"].combine_chunks()).combine_chunks()
        added = rows.filter(pc.invert(exists))
        if isinstance(entity, EdgeType):
            added = self._with_ids(added)
        change.added = self._embeddings.fill_rows(entity, added)
        changed = self._overlaid(entity, rows.filter(exists), present, events.given)
        change.changed = changed if changed.num_rows else None

    def _with_ids(self, edges: Any) -> Any:
        """Give ids to edges that are new and were named by their ends."""
        ids = edges["id"].combine_chunks()
        if not ids.null_count:
            return edges
        minted = ulid_column(self._new_ids(ids.null_count), ids.null_count).combine_chunks()
        filled = pc.replace_with_mask(ids, pc.is_null(ids), minted)
        return edges.set_column(0, edges.schema.field(0), filled)

    def _overlaid(self, entity: Entity, rows: Any, present: Any, given: frozenset[str]) -> Any:
        """Return existing rows with the given columns replaced, only those that differ."""
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

    def _cascade(self, base: Base, changes: ChangeSet) -> None:
        """Delete the edges of nodes that go; one that the events put is judged as it stands."""
        catalog = self._schema.catalog
        for change in [item for item in changes.tables.values() if item.deleted]:
            if not isinstance(change.entity, NodeType):
                continue
            for edge in catalog.incident_edges(change.entity.name):
                found: set[str] = set()
                for column, name in (("src", edge.source), ("dst", edge.target)):
                    if name == change.entity.name:
                        ends = base.edge_ends(edge, column, change.deleted)
                        found |= set(ends["id"].to_pylist())
                mine = changes.of(edge)
                put = self._events.get(edge.table_key)
                kept = set() if put is None else set(mine.ids())
                mine.deleted = sorted({*mine.deleted, *(found - kept)})


def _deletes(given: EventFrame, problems: Problems) -> Any:
    """Return which events are deletes."""
    frame, size = given.frame, given.frame.num_rows
    if given.op_col is None:
        return np.ones(size, dtype=bool)
    if given.op_col not in frame.column_names:
        problems.add(Problem(message=f"there is no column '{given.op_col}' with the operations"))
        return np.zeros(size, dtype=bool)
    words = [str(word).lower() for word in frame[given.op_col].to_pylist()]
    for row, word in enumerate(words):
        if word not in PUT and word not in DELETE:
            message = f"operation '{word}': expected insert, update, upsert or delete"
            problems.add(Problem(message=message, line=given.lines[row], field=given.op_col))
    return np.array([word in DELETE for word in words], dtype=bool)


def _sequence(given: EventFrame, problems: Problems) -> Any | None:
    name = given.seq_col
    if name is None:
        return None
    if name not in given.frame.column_names:
        problems.add(Problem(message=f"there is no column '{name}' with the order of events"))
        return None
    found = given.frame[name]
    for row in pc.indices_nonzero(pc.is_null(found)).to_pylist():
        message = f"'{name}' orders the events and must not be null"
        problems.add(Problem(message=message, line=given.lines[row], field=name))
    return found


def _last(names: Sequence[Any], sequence: Any | None) -> Any:
    """Return the place of the last event of each entity, in the order of the input."""
    order: Any = range(len(names))
    if sequence is not None:
        table = pa.table({"sequence": sequence, "place": pa.array(range(len(names)))})
        keys = [("sequence", "ascending"), ("place", "ascending")]
        order = pc.sort_indices(table, sort_keys=keys).to_pylist()
    last = {names[place]: place for place in order}
    return np.array(sorted(last.values()), dtype=np.int64)


def _edge_identities(
    entity: EdgeType, given: EventFrame, frame: Any, problems: Problems
) -> list[str | tuple[str, str]]:
    ids: list[Any] = [None] * frame.num_rows
    if "id" in frame.column_names:
        ids = frame["id"].to_pylist()
    ends: list[Any] = [None] * frame.num_rows
    if entity.unique_pair and {given.from_col, given.to_col} <= set(frame.column_names):
        columns = (frame[name].to_pylist() for name in (given.from_col, given.to_col))
        ends = [pair if None not in pair else None for pair in zip(*columns, strict=True)]
    found = [name if name is not None else pair for name, pair in zip(ids, ends, strict=True)]
    _need_all(entity, found, given.lines, problems)
    return found


def _need_all(
    entity: Entity, found: Sequence[object], lines: Sequence[int], problems: Problems
) -> None:
    for row, name in enumerate(found):
        if name is None:
            message = "the event does not say which entity it is about"
            problems.add(Problem(message=message, type_name=entity.name, line=lines[row]))


def _no_ids(_count: int) -> tuple[str, int]:
    raise AssertionError("events name their entities")


def _present(base: Base, entity: Entity, ids: Any) -> Any:
    """Return the committed rows with these ids."""
    schema = rows_schema(entity)
    known = sorted(base.existing_ids(entity, ids.drop_null().to_pylist()))
    if not known:
        return schema.empty_table()
    if len(known) < SCAN_INSTEAD_OF_PROBE_MIN:
        return base.rows_where(entity, "id", known).cast(schema)
    rows = base.table(entity).scan(columns=schema.names, blob_bytes=has_blobs(entity))
    return rows.filter(pc.is_in(rows["id"], value_set=pa.array(known, pa.string()))).cast(schema)


def _edges_between(base: Base, edge: EdgeType, ends: list[tuple[str, str]]) -> set[str]:
    wanted = set(ends)
    found = base.edge_ends(edge, "src", sorted({src for src, _dst in ends}))
    columns = (found[name].to_pylist() for name in ("id", "src", "dst"))
    return {name for name, src, dst in zip(*columns, strict=True) if (src, dst) in wanted}


def _with_edge_ids(base: Base, edge: EdgeType, rows: Any) -> Any:
    """Give edges without an id that of the edge between their ends, if there is one."""
    if not rows["id"].null_count:
        return rows
    lacking = rows.filter(pc.is_null(rows["id"]))
    found = base.edge_ends(edge, "src", pc.unique(lacking["src"]).to_pylist())
    columns = (found[name].to_pylist() for name in ("id", "src", "dst"))
    ids = {(src, dst): name for name, src, dst in zip(*columns, strict=True)}
    mine = (rows[name].to_pylist() for name in ("id", "src", "dst"))
    filled = [name or ids.get((src, dst)) for name, src, dst in zip(*mine, strict=True)]
    rows = rows.set_column(0, rows.schema.field(0), pa.array(filled, pa.string()))
    last = _last([name or place for place, name in enumerate(filled)], None)
    return rows.take(pa.array(last))
