"""Reads one piece of the input in a worker: strict, typed, with the exact place of every problem.

The work is done by the same code that a load in one process uses. Rows go to a scratch file with
a name of its own, so a task that runs twice leaves one file that is never read.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
from msgspec.structs import replace
from numpy.typing import NDArray

from omnigraph.catalog import Entity
from omnigraph.errors import EmbeddingError, OmniGraphError, StorageError
from omnigraph.ids import UlidSource
from omnigraph.intake.csv_files import csv_chunks
from omnigraph.intake.envelopes import EnvelopeReader, file_blocks, read_line, skip_line
from omnigraph.intake.frames import complete_ids
from omnigraph.intake.record_chunks import (
    json_chunks,
    parquet_tables,
    table_chunks,
    table_records,
)
from omnigraph.intake.records import Chunk, Records, joined_records, open_input
from omnigraph.limits import (
    COLUMN_BATCH_ROWS,
    COLUMN_CHUNK_BYTES,
    LOAD_CHUNK_BYTES,
    SPARK_FRAME_ROWS,
)
from omnigraph.rows import Problem, Problems
from omnigraph.rows.embeddings import Embeddings
from omnigraph.rows.validate import check_values
from omnigraph.spark.tasks import GENERATED, LINE, Job, Parsed, Part, Piece, Written
from omnigraph.store import new_file, open_file

_BOM = b"\xef\xbb\xbf"


def parse(piece: Piece, job: Job) -> Parsed:
    """Read a piece and leave its rows in scratch files, each with as many as fit in memory."""
    parsed = Parsed()
    kept = _Kept(job, parsed)
    try:
        if piece.form == "jsonl":
            _parse_envelopes(piece, job, parsed, kept)
        else:
            _parse_records(piece, job, parsed, kept)
        kept.write()
    except StorageError:
        raise
    except OmniGraphError as error:
        # An answer, not a failure: the same input is refused however often the task is repeated.
        parsed.refused = error.message
    except (OSError, pa.ArrowInvalid) as error:
        if isinstance(error, FileNotFoundError) or not isinstance(error, OSError):
            parsed.refused = f"{piece.label}: {error}"
        else:
            raise
    return parsed


def parse_frame(piece: Piece, job: Job, frame: pa.Table) -> Parsed:
    """Take in rows of one type that come as columns."""
    parsed = Parsed(lines=[frame.num_rows])
    kept = _Kept(job, parsed)
    chunk = Chunk(records=table_records(frame), lines=frame.num_rows, problems=Problems())
    _add_records(piece, piece.parts[0], job, chunk, 0, parsed, kept)
    kept.write()
    return parsed


# ---- lines --------------------------------------------------------------------------------


def lines_starting_in(path: str, start: int, stop: int) -> bytes:
    """Return all bytes of the lines whose first byte lies in a range; ranges tile a file."""
    with open_file(path) as handle:
        if start:
            handle.seek(start - 1)
            skip_line(handle)
            start = handle.tell()
        if start >= stop:
            return b""
        handle.seek(start)
        body = handle.read(stop - start)
        return body if body.endswith(b"\n") else body + read_line(handle)


def _blocks(part: Part) -> Iterator[list[bytes]]:
    """Yield lines of a part, about a piece of them at a time."""
    if part.stop is None:
        with open_input(part.path) as handle:
            held: list[bytes] = []
            for block in file_blocks(handle, None):
                held += block
                if sum(map(len, held)) >= LOAD_CHUNK_BYTES:
                    yield held
                    held = []
            yield held
        return
    lines = lines_starting_in(part.path, part.start, part.stop).split(b"\n")
    if not lines[-1]:
        lines.pop()
    if lines and part.start == 0:
        lines[0] = lines[0].removeprefix(_BOM)
    yield lines


def _parse_envelopes(piece: Piece, job: Job, parsed: Parsed, kept: _Kept) -> None:
    """Read the lines of all parts, those of small ones together."""
    before = 0
    held: list[bytes] = []
    size = 0
    for part in piece.parts:
        parsed.lines.append(0)
        for block in _blocks(part):
            parsed.lines[-1] += len(block)
            held += block
            size += sum(map(len, block))
            if size >= LOAD_CHUNK_BYTES:
                before = _take_lines(piece, job, held, before, parsed, kept)
                held, size = [], 0
    _take_lines(piece, job, held, before, parsed, kept)


def _take_lines(
    piece: Piece, job: Job, lines: list[bytes], before: int, parsed: Parsed, kept: _Kept
) -> int:
    for skipped in piece.skip:
        if before < skipped <= before + len(lines):
            lines[skipped - before - 1] = b""
    problems = Problems(limit=job.problems_max)
    reader = EnvelopeReader(job.schema.catalog, problems)
    reader.read(lines)
    parsed.syntax += [_moved(item, before) for item in problems.items]
    for rows in reader.types.values():
        kept.add(rows.entity, rows.table(), np.frombuffer(rows.lines, np.int64) + before)
        rows.chunks = []
    return before + len(lines)


# ---- records ------------------------------------------------------------------------------


def part_chunks(piece: Piece, part: Part, before: int, problems_max: int) -> Iterator[Chunk]:
    """Yield the records of a part; `before` are the lines of the piece that stand before it."""
    gone = frozenset(line - before for line in piece.skip)
    skip = gone.__contains__ if gone else None
    if piece.form == "parquet":
        yield from table_chunks(parquet_tables(part.path, part.start, part.stop), skip=skip)
    elif piece.form == "records":
        yield from json_chunks(_blocks(part), skip=skip, problems_max=problems_max)
    else:
        with open_input(part.path) as handle:
            if part.start:
                handle.seek(part.start)
            yield from csv_chunks(
                handle,
                piece.reading.csv,
                header=part.header if part.start else None,
                size_bytes=None if part.stop is None else part.stop - part.start,
                skip=skip,
                problems_max=problems_max,
            )


def piece_records(piece: Piece, problems: Problems) -> tuple[Records, int] | None:
    """Return all records of a piece of one part, and how many lines it has; None without any."""
    chunks = list(part_chunks(piece, piece.parts[0], 0, problems.limit))
    for chunk in chunks:
        for item in chunk.problems.items:
            problems.add(item)
    if not chunks:
        return None
    return joined_records([chunk.records for chunk in chunks]), chunks[-1].lines


def _parse_records(piece: Piece, job: Job, parsed: Parsed, kept: _Kept) -> None:
    before = 0
    small = _Neighbours(piece, job, parsed, kept)
    for part in piece.parts:
        parsed.lines.append(0)
        for chunk in part_chunks(piece, part, before, job.problems_max):
            parsed.lines[-1] = chunk.lines
            parsed.broken |= chunk.broken
            small.add(part, chunk, before)
        before += parsed.lines[-1]
    small.take_in()


class _Neighbours:
    """Chunks of small files that become rows together: each alone costs more than its rows do."""

    def __init__(self, piece: Piece, job: Job, parsed: Parsed, kept: _Kept) -> None:
        self._piece = piece
        self._job = job
        self._parsed = parsed
        self._kept = kept
        self._held: list[tuple[Part, Chunk, int]] = []
        self._rows = self._bytes = 0

    def add(self, part: Part, chunk: Chunk, before: int) -> None:
        """Hold a chunk, or take in those held first if it does not fit to them."""
        rows, size = chunk.records.size, chunk.records.size_bytes
        full = self._rows + rows > COLUMN_BATCH_ROWS or self._bytes + size > COLUMN_CHUNK_BYTES
        if self._held and (full or not _alike(self._held[-1][1], chunk)):
            self.take_in()
        self._held.append((part, chunk, before))
        self._rows += rows
        self._bytes += size
        if self._rows >= COLUMN_BATCH_ROWS or self._bytes >= COLUMN_CHUNK_BYTES:
            # At once: a large chunk is not held beside the next.
            self.take_in()

    def take_in(self) -> None:
        """Turn the chunks held into rows; one by one if anything is wrong with them."""
        held, self._held = self._held, []
        self._rows = self._bytes = 0
        if len(held) > 1 and self._together(held):
            return
        for part, chunk, before in held:
            _add_records(self._piece, part, self._job, chunk, before, self._parsed, self._kept)

    def _together(self, held: Sequence[tuple[Part, Chunk, int]]) -> bool:
        piece, problems = self._piece, Problems()
        entity = self._job.schema.catalog.entity_named(piece.type_name or "")
        records = joined_records(
            [
                replace(chunk.records, lines=chunk.records.lines + before)
                for _part, chunk, before in held
            ]
        )
        frame, at = piece.reading.rows(entity, records, problems)
        rows = piece.reading.fitted(entity, frame, _Lines(at), problems)
        if rows is None:
            return False
        self._kept.add(entity, rows, at)
        return True


def _alike(one: Chunk, other: Chunk) -> bool:
    """Whether the records of two chunks have the same columns, and nothing is wrong with them."""
    if one.problems.items or other.problems.items:
        return False
    first, second = one.records.table, other.records.table
    if first is None or second is None or one.records.texts != other.records.texts:
        return False
    return bool(first.schema.equals(second.schema))


def _add_records(
    piece: Piece, part: Part, job: Job, chunk: Chunk, before: int, parsed: Parsed, kept: _Kept
) -> None:
    """Turn records into rows of a type."""
    entity = job.schema.catalog.entity_named(piece.type_name or "")
    problems = chunk.problems
    frame, at = piece.reading.rows(entity, chunk.records, problems)
    rows = piece.reading.fitted(entity, frame, _Lines(at), problems)
    # What is wrong with a column has no line that would tell the file.
    parsed.syntax += [
        replace(item, file=part.label) if item.line is None else _moved(item, before)
        for item in problems.items
    ]
    if rows is not None:
        kept.add(entity, rows, at + before)


def _moved(problem: Problem, lines: int) -> Problem:
    return problem if problem.line is None else replace(problem, line=problem.line + lines)


# ---- rows ---------------------------------------------------------------------------------


class _Kept:
    """Rows of a piece that are not written down yet."""

    def __init__(self, job: Job, parsed: Parsed) -> None:
        self._job = job
        self._parsed = parsed
        self._held: dict[str, tuple[Entity, list[pa.Table], list[NDArray[np.int64]]]] = {}
        self._rows = self._bytes = 0

    def add(self, entity: Entity, rows: pa.Table, lines: NDArray[np.int64]) -> None:
        """Take in rows with their lines."""
        if not rows.num_rows:
            return
        full = self._rows + rows.num_rows > SPARK_FRAME_ROWS
        if full or self._bytes + rows.nbytes > 2 * COLUMN_CHUNK_BYTES:
            self.write()
        _entity, tables, places = self._held.setdefault(entity.table_key, (entity, [], []))
        tables.append(rows)
        places.append(lines)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes

    def write(self) -> None:
        """Write down what is held, one file for each type; nothing of an input that is wrong."""
        if self._parsed.syntax:
            self._held.clear()
        for entity, tables, places in self._held.values():
            lines = np.concatenate(places)
            # As one piece: rows of many small files would be read in as small steps from then on.
            rows = pa.concat_tables(tables).combine_chunks()
            _write_rows(self._job, self._parsed, entity, rows, lines)
        self._held.clear()
        self._rows = self._bytes = 0
        # Otherwise the allocator keeps what the largest chunk took, once for each size.
        pa.default_memory_pool().release_unused()


class _Lines(Sequence[int]):
    """Lines of rows as numbers of Python, each made when a message needs it."""

    def __init__(self, numbers: NDArray[np.int64]) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: int | slice) -> int | list[int]:
        numbers: int | list[int] = self._numbers[index].tolist()
        return numbers


def _write_rows(
    job: Job, parsed: Parsed, entity: Entity, rows: pa.Table, numbers: NDArray[np.int64]
) -> None:
    """Complete ids, judge every row alone, and write the rows down."""
    lines = _Lines(numbers)
    problems = Problems(limit=job.problems_max)
    rows, generated = complete_ids(job.schema, entity, rows, lines, UlidSource().run, problems)
    parsed.ids += problems.items
    if rows["id"].null_count:
        return
    try:
        rows = Embeddings(job.embedder).fill_rows(entity, rows)
    except EmbeddingError as error:
        # The embedder has tried often enough; other problems of the input come first.
        parsed.not_embedded = error.message
    values = Problems(limit=job.problems_max)

    def line_of(_table_key: str, entity_id: str) -> int | None:
        index = pc.index(rows["id"], pa.scalar(entity_id)).as_py()
        return lines[index] if index >= 0 else None

    values.line_of = line_of
    check_values(entity, rows, values)
    parsed.values += values.items
    path = os.path.join(job.scratch, f"{uuid.uuid4().hex}.arrow")
    table = rows.append_column(LINE, pa.array(numbers, pa.int64()))
    table = table.append_column(GENERATED, generated)
    with new_file(path) as out:
        feather.write_feather(table, out, compression="lz4", chunksize=65_536)
    named = rows.num_rows - int(pc.sum(generated).as_py() or 0)
    parsed.written.append(Written(entity.table_key, path, rows.num_rows, named))
