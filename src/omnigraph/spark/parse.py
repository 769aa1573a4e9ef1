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
from omnigraph.intake.csv_rows import csv_columns
from omnigraph.intake.envelopes import EnvelopeReader, read_line, skip_line
from omnigraph.intake.frames import complete_ids, frame_rows
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
        elif piece.form == "csv":
            _parse_csv(piece, job, parsed)
        else:
            groups = list(range(piece.start, piece.stop))
            with pq.ParquetFile(readable(piece.path)) as found:
                frame = found.read_row_groups(groups) if groups else found.read()
            parse_frame(piece, job, frame, parsed)
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


def _parse_lines(piece: Piece, job: Job, parsed: Parsed) -> None:
    lines = lines_starting_in(piece.path, piece.start, piece.stop).split(b"\n")
    if not lines[-1]:
        lines.pop()
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


def parse_frame(piece: Piece, job: Job, frame: Any, parsed: Parsed) -> None:
    """Take in rows of one type that come as columns."""
    parsed.lines = frame.num_rows
    lines: Sequence[int] = range(1, frame.num_rows + 1)
    if piece.skip:
        gone = set(piece.skip)
        lines = [line for line in lines if line not in gone]
        frame = frame.take(pa.array([line - 1 for line in lines], pa.int64()))
    _take_frame(piece, job, frame, lines, parsed)


def _parse_csv(piece: Piece, job: Job, parsed: Parsed) -> None:
    with open_file(piece.path) as handle:
        raw = handle.read()
    problems = Problems(limit=job.problems_max)
    gone = set(piece.skip)
    frame, lines, parsed.lines = csv_columns(
        job.schema.catalog.entity_named(piece.type_name or ""),
        raw,
        piece.columns,
        problems,
        null=piece.null,
        skip=lambda line: line in gone,
    )
    parsed.syntax = problems.items
    if not problems.items:
        _take_frame(piece, job, frame, lines, parsed)


def _take_frame(piece: Piece, job: Job, frame: Any, lines: Sequence[int], parsed: Parsed) -> None:
    entity = job.schema.catalog.entity_named(piece.type_name or "")
    renames = dict(piece.columns)
    frame = frame.rename_columns([renames.get(name, name) for name in frame.column_names])
    problems = Problems(limit=job.problems_max)
    rows = frame_rows(
        entity,
        frame,
        from_col=piece.from_col,
        to_col=piece.to_col,
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
