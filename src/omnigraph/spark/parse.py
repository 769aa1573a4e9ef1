"""Reads one piece of the input in a worker: strict, typed, with the exact place of every problem.

The work is done by the same code that a load in one process uses. Rows go to a scratch file with
a name of its own, so a task that runs twice leaves one file nobody reads.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pyarrow.parquet as pq

from omnigraph.catalog import Entity
from omnigraph.errors import EmbeddingError, OmniGraphError, StorageError
from omnigraph.ids import UlidSource
from omnigraph.intake.envelopes import EnvelopeReader, read_line, skip_line
from omnigraph.intake.frames import complete_ids, frame_rows
from omnigraph.intake.record_chunks import table_records
from omnigraph.intake.records import (
    Records,
    csv_records,
    is_compressed,
    json_records,
    open_input,
)
from omnigraph.rows import Problems
from omnigraph.rows.embeddings import Embeddings
from omnigraph.rows.validate import check_values
from omnigraph.spark.tasks import GENERATED, LINE, Job, Parsed, Piece, Written
from omnigraph.store import new_file, open_file, readable

_BOM = b"\xef\xbb\xbf"


def parse(piece: Piece, job: Job) -> Parsed:
    """Read a piece and leave its rows in scratch files."""
    parsed = Parsed()
    try:
        if piece.form == "jsonl":
            _parse_lines(piece, job, parsed)
        else:
            problems = Problems(limit=job.problems_max)
            records, parsed.lines = piece_records(piece, problems)
            _take_records(piece, job, records, problems, parsed)
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


def _lines(piece: Piece) -> list[bytes]:
    if is_compressed(piece.path):
        with open_input(piece.path) as handle:
            lines = handle.read().split(b"\n")
    else:
        lines = lines_starting_in(piece.path, piece.start, piece.stop).split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _parse_lines(piece: Piece, job: Job, parsed: Parsed) -> None:
    lines = _lines(piece)
    parsed.lines = len(lines)
    if lines and piece.start == 0:
        lines[0] = lines[0].removeprefix(_BOM)
    for skipped in piece.skip:
        lines[skipped - 1] = b""
    problems = Problems(limit=job.problems_max)
    reader = EnvelopeReader(job.schema.catalog, problems)
    reader.read(lines)
    parsed.syntax = problems.items
    if parsed.syntax:
        return
    for found in reader.types.values():
        _keep(job, parsed, found.entity, found.table(), found.lines)
        found.chunks = []


def piece_records(piece: Piece, problems: Problems) -> tuple[Records, int]:
    """Return the records of a piece of one type, and how many lines it has."""
    gone = frozenset(piece.skip)
    skip = gone.__contains__ if gone else None
    if piece.form == "csv":
        with open_input(piece.path) as handle:
            raw = handle.read()
        return csv_records(raw, piece.reading.csv, problems, skip=skip)
    if piece.form == "records":
        lines = _lines(piece)
        if lines and piece.start == 0:
            lines[0] = lines[0].removeprefix(_BOM)
        return json_records(lines, 1, problems, skip=skip), len(lines)
    groups = list(range(piece.start, piece.stop))
    with pq.ParquetFile(readable(piece.path)) as found:
        frame = found.read_row_groups(groups) if groups else found.read()
    return table_records(frame, skip=skip), frame.num_rows


def parse_frame(piece: Piece, job: Job, frame: Any, parsed: Parsed) -> None:
    """Take in rows of one type that come as columns."""
    parsed.lines = frame.num_rows
    problems = Problems(limit=job.problems_max)
    _take_records(piece, job, table_records(frame), problems, parsed)


def _take_records(
    piece: Piece, job: Job, records: Records, problems: Problems, parsed: Parsed
) -> None:
    entity = job.schema.catalog.entity_named(piece.type_name or "")
    frame, at = piece.reading.rows(entity, records, problems)
    lines = at.tolist()
    rows = None
    if not problems.items:
        rows = frame_rows(
            entity,
            frame,
            from_col=piece.reading.from_col,
            to_col=piece.reading.to_col,
            lines=lines,
            problems=problems,
        )
    parsed.syntax += problems.items
    if rows is not None and rows.num_rows and not parsed.syntax:
        _keep(job, parsed, entity, rows, lines)


def _keep(job: Job, parsed: Parsed, entity: Entity, rows: Any, lines: Sequence[int]) -> None:
    """Complete ids, judge every row alone, and write the rows down."""
    found = Problems(limit=job.problems_max)
    rows, generated = complete_ids(job.schema, entity, rows, lines, UlidSource().run, found)
    parsed.ids += found.items
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
    table = rows.append_column(LINE, pa.array(lines, pa.int64()))
    table = table.append_column(GENERATED, generated)
    with new_file(path) as out:
        feather.write_feather(table, out, compression="lz4", chunksize=65_536)
    parsed.written.append(Written(entity.table_key, path, rows.num_rows))
