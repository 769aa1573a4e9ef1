"""What workers do with events of change data capture: name their entities, then apply them.

Events of one entity may stand anywhere in the input. So a first round of tasks cuts each piece by
a hash of the entities and leaves every part in a file; a second round takes the same part of all
pieces, and applies it with the code that applies a whole input in one process.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

import numpy as np
import pyarrow as pa
from msgspec import Struct, field
from numpy.typing import NDArray

from omnigraph.catalog import Entity
from omnigraph.commits.base import StoredRows
from omnigraph.errors import EmbeddingError, OmniGraphError, StorageError
from omnigraph.ids import UlidSource
from omnigraph.intake.events import (
    EventFrame,
    Name,
    NamedEvents,
    last_events,
    last_lines,
    named_events,
)
from omnigraph.limits import SPARK_EVENT_PARTS
from omnigraph.ops.row_events import Outcome as EventsOutcome
from omnigraph.rows import Problem, Problems
from omnigraph.rows.embeddings import Embeddings
from omnigraph.spark.outcomes import Outcome, leave_rows
from omnigraph.spark.tasks import Job
from omnigraph.store import IdLookup, Pin, Tables, locate, new_file, open_file

_ID, _SRC, _DST, _DELETE, _SEQUENCE, _LINE = "#id", "#src", "#dst", "#delete", "#seq", "#line"
_OWN = (_ID, _SRC, _DST, _DELETE, _SEQUENCE, _LINE)


class EventFile(Struct, frozen=True, kw_only=True):
    """Named events of a piece, as one batch for each part that has any."""

    path: str
    parts: tuple[int, ...]
    rows: tuple[int, ...]
    by_id: int
    """How many of them name their entity by its id; edges may also be named by their ends."""
    columns: tuple[str, ...]
    from_col: str
    to_col: str


class Named(Struct, kw_only=True):
    """A task's answer to a piece of events."""

    lines: int = 0
    file: EventFile | None = None
    problems: list[Problem] = field(default_factory=list)
    refused: str | None = None


class Applied(Struct, kw_only=True):
    """A task's answer to some parts of all pieces of a type."""

    outcome: Outcome = field(default_factory=Outcome)
    count: int = 0
    problems: list[Problem] = field(default_factory=list)
    refused: str | None = None
    not_embedded: str | None = None


class Group(Struct, frozen=True, kw_only=True):
    """Parts that one task applies. `files` come with what to add to their lines, and their name."""

    table_key: str
    parts: frozenset[int]
    files: tuple[tuple[EventFile, int, str | None], ...]


def name_events(given: EventFrame, job: Job) -> Named:
    """Name the entities of a frame's events and leave them in a file, part by part."""
    answer = Named(lines=given.frame.num_rows)
    if not given.lines:
        return answer
    problems = Problems(limit=job.problems_max)
    events = named_events(job.schema, given, problems)
    answer.problems = problems.items
    if events is None or not events.names:
        return answer
    numbers = _parts(events.names)
    order = np.argsort(numbers, kind="stable")
    table = _table(events).take(pa.array(order))
    path = os.path.join(job.scratch, f"{uuid.uuid4().hex}.events")
    parts, starts = np.unique(numbers[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with (
        new_file(path) as out,
        pa.ipc.new_file(out, table.schema, options=options) as writer,
    ):
        for start, end in zip(starts.tolist(), ends, strict=True):
            writer.write_batch(table.slice(start, end - start).combine_chunks().to_batches()[0])
    answer.file = EventFile(
        path=path,
        parts=tuple(parts.tolist()),
        rows=tuple(end - start for start, end in zip(starts.tolist(), ends, strict=True)),
        by_id=sum(isinstance(name, str) for name in events.names),
        columns=tuple(events.frame.column_names),
        from_col=events.from_col,
        to_col=events.to_col,
    )
    return answer


def apply_group(group: Group, job: Job, pins: Mapping[str, Pin], place: str) -> Applied:
    """Apply the events of some parts to the rows that are stored; leave the outcome in a file."""
    answer = Applied()
    schema = job.schema
    entity = schema.catalog.entity_of_table(group.table_key)
    base = StoredRows(
        accepted=schema, tables=Tables(locate(place)), id_lookup=IdLookup(), pins=pins
    )
    try:
        problems = Problems(limit=job.problems_max)
        events = last_events(schema, list(_read(group, entity)), problems)
        answer.count, answer.problems = events.count, problems.items
        if not problems.items:
            embeddings = Embeddings(job.embedder)
            outcome = EventsOutcome(base, events, embeddings, UlidSource().run)
            answer.outcome = leave_rows(outcome.change(), job.scratch)
    except StorageError:
        raise
    except EmbeddingError as error:
        answer.not_embedded = error.message
    except OmniGraphError as error:
        # An answer, not a failure: it would be the same however often the task is repeated.
        answer.refused = error.message
    return answer


def event_lines(
    group: Group, job: Job, wanted: frozenset[Name]
) -> list[tuple[Name, str | None, int]]:
    """Return file and line of the last event of some entities, if it is a put."""
    entity = job.schema.catalog.entity_of_table(group.table_key)
    return last_lines(list(_read(group, entity)), wanted)


def count_entities(group: Group, job: Job) -> int:
    """Return of how many entities the events of some parts tell."""
    entity = job.schema.catalog.entity_of_table(group.table_key)
    return len({name for part in _read(group, entity) for name in part.names})


def _parts(names: Sequence[Name]) -> NDArray[np.int32]:
    """Return a part for each entity, the same wherever it is computed."""
    texts = (name if isinstance(name, str) else "\n".join(name) for name in names)
    numbers = (crc32(text.encode()) % SPARK_EVENT_PARTS for text in texts)
    return np.fromiter(numbers, np.int32, len(names))


def _table(events: NamedEvents) -> pa.Table:
    """Return events as one table: their values, and what was found out about them."""
    ids = [name if isinstance(name, str) else None for name in events.names]
    ends = [(None, None) if isinstance(name, str) else name for name in events.names]
    columns = [
        pa.array(ids, pa.string()),
        pa.array([src for src, _dst in ends], pa.string()),
        pa.array([dst for _src, dst in ends], pa.string()),
        pa.array(events.deletes),
        pa.nulls(len(ids)) if events.sequence is None else events.sequence,
        pa.array(events.lines),
    ]
    frame = events.frame
    for name, column in zip(_OWN, columns, strict=True):
        frame = frame.append_column(name, column)
    return frame


def _read(group: Group, entity: Entity) -> Iterator[NamedEvents]:
    for file, offset, label in group.files:
        wanted = [at for at, part in enumerate(file.parts) if part in group.parts]
        if not wanted:
            continue
        with open_file(file.path) as handle, pa.ipc.open_file(handle) as reader:
            batches = [reader.get_batch(at) for at in wanted]
        table = pa.Table.from_batches(batches).sort_by(_LINE)
        columns = (table[name].to_pylist() for name in (_ID, _SRC, _DST))
        sequence = table[_SEQUENCE].combine_chunks()
        yield NamedEvents(
            entity=entity,
            frame=table.select([name for name in table.column_names if name not in _OWN]),
            lines=table[_LINE].to_numpy() + offset,
            from_col=file.from_col,
            to_col=file.to_col,
            names=[
                (src, dst) if name is None else name
                for name, src, dst in zip(*columns, strict=True)
            ],
            deletes=table[_DELETE].to_numpy(zero_copy_only=False),
            sequence=None if pa.types.is_null(sequence.type) else sequence,
            file=label,
        )
