"""Events of change data capture as they come in: what happened to which entity, and in what order.

An input may be one frame or many parts of files, in one process or in workers: the entity of every
event is named first, part by part; then all events of an entity are looked at together, and only
what the last one says is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.catalog import AcceptedSchema, EdgeType, Entity, NodeType
from omnigraph.compute.types import Column
from omnigraph.errors import BadRequestError
from omnigraph.intake.frames import check_columns, complete_ids, frame_rows
from omnigraph.rows.arrow_columns import text_column
from omnigraph.rows.problems import Problem, Problems
from omnigraph.rows.table_schema import rows_schema

PUT = frozenset({"insert", "update", "upsert", "i", "u", "c", "r"})
DELETE = frozenset({"delete", "tombstone", "d"})
Name = str | tuple[str, str]
"""What tells an entity from others of its type: its id, or the ends of an edge."""


class EventFrame(Struct, frozen=True, kw_only=True):
    """Events of one type as they came: columns by their names, and which of these say what.

    Without `op_col` all are deletes. With `seq_col` the event of the highest value is the last
    one; otherwise, and among equal values, it is the last in the input.
    """

    entity: Entity
    frame: pa.Table
    lines: Sequence[int]
    from_col: str
    to_col: str
    op_col: str | None
    seq_col: str | None
    file: str | None = None
    """Where they are from, if the input is several files."""


class NamedEvents(Struct, kw_only=True):
    """Events whose entities are known. `frame` has their values, as they came."""

    entity: Entity
    frame: pa.Table
    lines: NDArray[np.int64]
    from_col: str
    to_col: str
    names: list[Name]
    deletes: NDArray[np.bool_]
    sequence: pa.Array | None
    file: str | None = None


class TypeEvents(Struct, kw_only=True):
    """The last event of each entity of a type. Edges without an id are known by their ends."""

    entity: Entity
    puts: pa.Table
    lines: NDArray[np.int64]
    """Where each of the puts stands in the input."""
    given: frozenset[str]
    deleted: list[str]
    deleted_ends: list[tuple[str, str]]
    count: int


def named_events(
    schema: AcceptedSchema, given: EventFrame, problems: Problems
) -> NamedEvents | None:
    """Return a frame's events with their entities, None if something is wrong with them."""
    frame_problems = Problems(limit=problems.limit)
    entity = given.entity
    deletes = _deletes(given, frame_problems)
    sequence = _sequence(given, frame_problems)
    spoken = [name for name in (given.op_col, given.seq_col) if name is not None]
    own = [name for name in spoken if name not in entity.properties]
    frame = given.frame.select([n for n in given.frame.column_names if n not in own])
    names: list[Name] = []
    if not frame_problems.items:
        ends = {"from_col": given.from_col, "to_col": given.to_col}
        check_columns(entity, frame.column_names, problems=frame_problems, **ends)
    if not frame_problems.items:
        names = _names(schema, given, frame, frame_problems)
    if frame_problems.items:
        problems.take(frame_problems, file=given.file)
        return None
    return NamedEvents(
        entity=entity,
        frame=frame,
        lines=np.asarray(given.lines, dtype=np.int64),
        from_col=given.from_col,
        to_col=given.to_col,
        names=names,
        deletes=deletes,
        sequence=sequence,
        file=given.file,
    )


def last_events(
    schema: AcceptedSchema, parts: Sequence[NamedEvents], problems: Problems
) -> TypeEvents:
    """Return what the last event of each entity says; `parts` are of one type, in input order."""
    entity = parts[0].entity
    names = [name for part in parts for name in part.names]
    last = _last(names, _one_sequence(parts))
    rows: list[pa.Table] = [rows_schema(entity).empty_table()]
    lines: list[NDArray[np.int64]] = [np.array([], dtype=np.int64)]
    gone: list[Name] = []
    start = 0
    for part in parts:
        stop = start + len(part.names)
        mine = last[(last >= start) & (last < stop)] - start
        gone += [part.names[row] for row in mine[part.deletes[mine]].tolist()]
        chosen = mine[~part.deletes[mine]]
        put = _put_rows(schema, part, chosen, problems)
        if put is not None:
            rows.append(put)
            lines.append(part.lines[chosen])
        start = stop
    return TypeEvents(
        entity=entity,
        puts=pa.concat_tables(rows),
        lines=np.concatenate(lines),
        given=frozenset(parts[0].frame.column_names) | {"id", "src", "dst"},
        deleted=[name for name in gone if isinstance(name, str)],
        deleted_ends=[name for name in gone if not isinstance(name, str)],
        count=len(last),
    )


def last_lines(
    parts: Sequence[NamedEvents], wanted: frozenset[Name]
) -> list[tuple[Name, str | None, int]]:
    """Return file and line of the last event of some entities, if it is a put."""
    names = [name for part in parts for name in part.names]
    lines: list[tuple[Name, str | None, int]] = []
    last = _last(names, _one_sequence(parts))
    start = 0
    for part in parts:
        stop = start + len(part.names)
        lines += [
            (part.names[row], part.file, int(part.lines[row]))
            for row in (last[(last >= start) & (last < stop)] - start).tolist()
            if part.names[row] in wanted and not part.deletes[row]
        ]
        start = stop
    return lines


def check_same_columns(entity: Entity, parts: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Refuse files of one type that set different columns: each would need its own meaning."""
    first, names = parts[0]
    for label, other in parts[1:]:
        differing = sorted(set(names) ^ set(other))
        if differing:
            raise BadRequestError(
                f"events of {entity.name}: {label} and {first} differ in the columns "
                f"{', '.join(differing)}",
                hint="apply them one after the other",
            )


def _put_rows(
    schema: AcceptedSchema, part: NamedEvents, chosen: NDArray[np.int64], problems: Problems
) -> pa.Table | None:
    lines = part.lines[chosen].tolist()
    part_problems = Problems(limit=problems.limit)
    rows = frame_rows(
        part.entity,
        part.frame.take(pa.array(chosen)),
        from_col=part.from_col,
        to_col=part.to_col,
        lines=lines,
        problems=part_problems,
    )
    if rows is not None and isinstance(part.entity, NodeType):
        rows, _new = complete_ids(schema, part.entity, rows, lines, _no_ids, part_problems)
    problems.take(part_problems, file=part.file)
    return None if part_problems.items else rows


# ---- what events say ----------------------------------------------------------------------


def _deletes(given: EventFrame, problems: Problems) -> NDArray[np.bool_]:
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


def _sequence(given: EventFrame, problems: Problems) -> pa.Array | None:
    name = given.seq_col
    if name is None:
        return None
    if name not in given.frame.column_names:
        problems.add(Problem(message=f"there is no column '{name}' with the order of events"))
        return None
    sequence = given.frame[name].combine_chunks()
    for row in pc.indices_nonzero(pc.is_null(sequence)).to_pylist():
        message = f"'{name}' orders the events and must not be null"
        problems.add(Problem(message=message, line=given.lines[row], field=name))
    return sequence


def _one_sequence(parts: Sequence[NamedEvents]) -> pa.ChunkedArray | None:
    """Return what orders the events of all parts; integers of any width are comparable."""
    sequences = [part.sequence for part in parts if part.sequence is not None]
    if not sequences:
        return None
    tables = [pa.table({"sequence": item}) for item in sequences]
    try:
        return pa.concat_tables(tables, promote_options="permissive")["sequence"]
    except pa.ArrowException as error:
        kinds = " and ".join(sorted({str(item.type) for item in sequences}))
        raise BadRequestError(
            f"events of {parts[0].entity.name} are ordered by {kinds}, which do not compare"
        ) from error


def _last(names: Sequence[Name], sequence: pa.ChunkedArray | None) -> NDArray[np.int64]:
    """Return the place of the last event of each entity, in the order of the input."""
    order: Iterable[int] = range(len(names))
    if sequence is not None:
        table = pa.table({"sequence": sequence, "place": pa.array(range(len(names)))})
        keys = [("sequence", "ascending"), ("place", "ascending")]
        order = pc.sort_indices(table, sort_keys=keys).to_pylist()
    last = {names[place]: place for place in order}
    return np.array(sorted(last.values()), dtype=np.int64)


# ---- which entities they are about --------------------------------------------------------


def _names(
    schema: AcceptedSchema, given: EventFrame, frame: pa.Table, problems: Problems
) -> list[Name]:
    """Return what tells the entity of each event from others: its id, or its ends."""
    entity = given.entity
    if isinstance(entity, EdgeType):
        return _edge_names(entity, given, frame, problems)
    order = list(schema.key_order(entity)) if entity.key else []
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
        rows, _new = complete_ids(schema, entity, rows, given.lines, _no_ids, problems)
    ids: list[Name] = rows["id"].to_pylist()
    _need_all(entity, ids, given.lines, problems)
    return ids


def _edge_names(
    entity: EdgeType, given: EventFrame, frame: pa.Table, problems: Problems
) -> list[Name]:
    texts = {
        name: _texts(entity, frame[name], name, given.lines, problems)
        for name in ("id", given.from_col, given.to_col)
        if name in frame.column_names
    }
    nothing: list[Any] = [None] * frame.num_rows
    ids, ends = texts.get("id", nothing), nothing
    if entity.unique_pair and {given.from_col, given.to_col} <= set(texts):
        pairs = zip(texts[given.from_col], texts[given.to_col], strict=True)
        ends = [pair if None not in pair else None for pair in pairs]
    names = [name if name is not None else pair for name, pair in zip(ids, ends, strict=True)]
    _need_all(entity, names, given.lines, problems)
    return names


def _texts(
    entity: Entity, column: Column, name: str, lines: Sequence[int], problems: Problems
) -> list[str | None]:
    def report(row: int | None, message: str) -> None:
        line = None if row is None else lines[row]
        text = f"property '{name}': {message}"
        problems.add(Problem(message=text, type_name=entity.name, field=name, line=line))

    return list(text_column(column, report).to_pylist())


def _need_all(
    entity: Entity, names: Sequence[object], lines: Sequence[int], problems: Problems
) -> None:
    if problems.items:
        # A row without its key was reported already.
        return
    for row, name in enumerate(names):
        if name is None:
            message = "the event does not say which entity it is about"
            problems.add(Problem(message=message, type_name=entity.name, line=lines[row]))


def _no_ids(_count: int) -> tuple[str, int]:
    raise AssertionError("events name their entities")
