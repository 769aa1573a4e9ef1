"""Reads one input as records, some at a time: files of every form, and frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.errors import BadRequestError
from omnigraph.intake.csv_files import csv_chunks
from omnigraph.intake.envelopes import file_blocks
from omnigraph.intake.inputs import Input, as_arrow
from omnigraph.intake.records import Chunk, Records, json_records, open_input
from omnigraph.limits import (
    COLUMN_BATCH_ROWS,
    COLUMN_CHUNK_BYTES,
    LOAD_BLOCK_BYTES,
    OBJECT_READ_BYTES,
    PROBLEMS_MAX,
    SPARK_FRAME_ROWS,
)
from omnigraph.rows.problems import Problems
from omnigraph.store import is_object, open_file, readable

Skip = Callable[[int], bool] | None


def record_chunks(
    item: Input, *, skip: Skip = None, problems_max: int = PROBLEMS_MAX
) -> Iterator[Chunk]:
    """Yield the records of an input. `skip` tells lines to leave out."""
    if item.form == "csv":
        with open_input(item.path) as handle:
            form = item.reading.csv
            yield from csv_chunks(handle, form, skip=skip, problems_max=problems_max)
    elif item.form == "records":
        with open_input(item.path) as handle:
            yield from json_chunks(file_blocks(handle, None), skip=skip, problems_max=problems_max)
    elif item.form == "frame":
        yield from table_chunks(_slices(as_arrow(item.data)), skip=skip)
    else:
        yield from table_chunks(parquet_tables(item.path), skip=skip)


def json_chunks(
    blocks: Iterator[list[bytes]], *, skip: Skip = None, problems_max: int = PROBLEMS_MAX
) -> Iterator[Chunk]:
    """Yield lines of JSON as records."""
    lines = 0
    for block in blocks:
        problems = Problems(limit=problems_max)
        records = json_records(block, lines + 1, problems, skip=skip)
        lines += len(block)
        yield Chunk(records=records, lines=lines, problems=problems)


def table_chunks(tables: Iterator[pa.Table], *, skip: Skip = None) -> Iterator[Chunk]:
    """Yield rows of tables as records."""
    lines = 0
    for table in tables:
        records = table_records(table, lines + 1, skip=skip)
        lines += table.num_rows
        yield Chunk(records=records, lines=lines, problems=Problems())


def table_records(table: pa.Table, first: int = 1, *, skip: Skip = None) -> Records:
    """Return rows of a table as records; `first` is the line of the first one."""
    records = Records(lines=np.arange(first, first + table.num_rows, dtype=np.int64), table=table)
    if skip is None:
        return records
    return records.chosen(np.array([not skip(line) for line in records.lines.tolist()], dtype=bool))


def _slices(whole: pa.Table) -> Iterator[pa.Table]:
    if not whole.num_rows:
        # Its columns are checked; a slice of a table without columns would have rows.
        yield whole
    rows = rows_at_once(whole.nbytes, whole.num_rows)
    for start in range(0, whole.num_rows, rows):
        yield whole.slice(start, min(rows, whole.num_rows - start))


def rows_at_once(size_bytes: int, rows: int) -> int:
    """Return how many rows to take in at once, of so many that have so many bytes."""
    fitting = COLUMN_CHUNK_BYTES * rows // max(size_bytes, 1)
    return max(1, min(SPARK_FRAME_ROWS, fitting))


def parquet_tables(path: str, start: int = 0, stop: int | None = None) -> Iterator[pa.Table]:
    """Yield rows of a Parquet file, from one row to another, as many at a time as fit in memory.

    Raises `BadRequestError` for what is no such file.
    """
    try:
        with _parquet_file(path) as file:
            yield from _bounded(_parquet_batches(file, start, stop))
    except pa.ArrowInvalid as error:
        raise BadRequestError(f"{path} is not a Parquet file: {error}") from error


def _parquet_file(path: str) -> pq.ParquetFile:
    """Open a Parquet file; of large row groups some of each column is read ahead, not all of it."""
    source = _parquet_source(path)
    if isinstance(source, pa.BufferReader):
        return pq.ParquetFile(source, pre_buffer=False)
    file = pq.ParquetFile(source)
    meta = file.metadata
    sizes = (meta.row_group(number).total_byte_size for number in range(meta.num_row_groups))
    if max(sizes, default=0) <= COLUMN_CHUNK_BYTES:
        return file
    file.close()
    buffer_bytes = OBJECT_READ_BYTES if is_object(path) else LOAD_BLOCK_BYTES // 4
    return pq.ParquetFile(readable(path), metadata=meta, pre_buffer=False, buffer_size=buffer_bytes)


def _parquet_source(path: str) -> pa.BufferReader | IO[bytes] | str:
    """Return what a file is read from; a small one is in memory, which takes one read."""
    handle = open_file(path)
    size = handle.seek(0, os.SEEK_END)
    handle.seek(0)
    if size > LOAD_BLOCK_BYTES and is_object(path):
        return handle
    with handle:
        return path if size > LOAD_BLOCK_BYTES else pa.BufferReader(handle.read(size))


def _parquet_batches(
    file: pq.ParquetFile, start: int, stop: int | None
) -> Iterator[pa.RecordBatch]:
    meta = file.metadata
    stop = meta.num_rows if stop is None else stop
    groups: list[int] = []
    at = before = 0
    batch_rows = COLUMN_BATCH_ROWS
    for number in range(meta.num_row_groups):
        group = meta.row_group(number)
        if before < stop and before + group.num_rows > start:
            at = at if groups else before
            groups.append(number)
            batch_rows = min(batch_rows, rows_at_once(group.total_byte_size, group.num_rows))
        before += group.num_rows
    if not groups:
        return
    if before <= batch_rows and (start, stop) == (0, before):
        # The only batch: without the machinery that reads several ahead.
        yield from file.read(use_threads=False).combine_chunks().to_batches()
        return
    for batch in file.iter_batches(batch_size=batch_rows, row_groups=groups):
        low, high = max(start - at, 0), min(stop - at, batch.num_rows)
        at += batch.num_rows
        if low < high:
            yield batch.slice(low, high - low)
        if at >= stop:
            return


def _bounded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Put batches together until they are as large as a chunk may be."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        more = batch.num_rows
        if held and (rows + more > SPARK_FRAME_ROWS or size + batch.nbytes > COLUMN_CHUNK_BYTES):
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows += more
        size += batch.nbytes
    if held:
        yield pa.Table.from_batches(held)
