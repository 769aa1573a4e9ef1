"""Parquet files whose rows are all of one type: what is in one, and its rows as a table."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.errors import BadRequestError, NotFoundError, ResourceLimitError, StorageError
from omnigraph.intake.declared import Given
from omnigraph.intake.inputs import as_arrow
from omnigraph.limits import COLUMN_BATCH_ROWS
from omnigraph.store import readable
from omnigraph.values.answers import ParquetColumn, ParquetContent
from omnigraph.wording import resembling

_SHOWN_MAX = 200
"""Characters of a first value that are told."""


def as_table(given: Given) -> pa.Table:
    """Return a frame, or the Parquet file that a path names, as an Arrow table."""
    if not isinstance(given, str | os.PathLike):
        return as_arrow(given)
    path = os.fspath(given)
    with _parquet(path), pq.ParquetFile(readable(path)) as file:
        return file.read()


def parquet_content(content: bytes, *, bytes_max: int) -> ParquetContent:
    """Tell the columns of a file, their first values, and how many rows it has."""
    with _parquet("the body"), pq.ParquetFile(pa.BufferReader(content)) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        first = next(file.iter_batches(batch_size=1), None)
    if first is not None and first.nbytes > bytes_max:
        raise _too_large(first.nbytes, bytes_max)
    values = [None] * len(schema) if first is None else [item[0].as_py() for item in first.columns]
    return ParquetContent(
        rows=rows,
        columns=tuple(
            ParquetColumn(
                name=field.name,
                type=str(field.type),
                first=None if value is None else str(value)[:_SHOWN_MAX],
            )
            for field, value in zip(schema, values, strict=True)
        ),
    )


def parquet_rows(
    content: bytes,
    *,
    columns: Mapping[str, str] | None,
    skip: Collection[int],
    bytes_max: int,
) -> tuple[pa.Table, Sequence[int]]:
    """Return the rows of a file as a table, and the number that each has in the file, from 1.

    `columns` maps columns of the file to properties; the others are left out. Without it, every
    column is taken by its own name. Raises `BadRequestError` for what is no such file, and
    `ResourceLimitError` if its rows take more memory than they may.
    """
    source = pa.BufferReader(content)
    with _parquet("the body"):
        texts = [field.name for field in pq.read_schema(source) if _is_text(field.type)]
        with pq.ParquetFile(source, read_dictionary=texts) as file:
            table = _bounded(file, bytes_max)
    if columns is not None:
        table = _renamed(table, columns)
    numbers = np.arange(1, table.num_rows + 1)
    if skip:
        kept = ~np.isin(numbers, list(skip))
        table, numbers = table.filter(pa.array(kept)), numbers[kept]
    return table, numbers.tolist()


@contextlib.contextmanager
def _parquet(name: str) -> Iterator[None]:
    """Turn what is wrong with a file into an error that says so."""
    try:
        yield
    except FileNotFoundError:
        raise NotFoundError(f"file not found: {name}") from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(f"cannot read {name}: {error}") from error
        raise BadRequestError(f"{name} is not a Parquet file: {error}") from error


def _bounded(file: pq.ParquetFile, bytes_max: int) -> pa.Table:
    """Return all rows, unless they are too large: a small file can name one text many times."""
    batches, size = [], 0
    for batch in file.iter_batches(batch_size=COLUMN_BATCH_ROWS):
        size += sum(_plain_bytes(column) for column in batch.columns)
        if size > bytes_max:
            raise _too_large(size, bytes_max)
        plain = [_decoded_column(column) for column in batch.columns]
        batches.append(pa.RecordBatch.from_arrays(plain, batch.schema.names))
    return pa.Table.from_batches(batches) if batches else file.schema_arrow.empty_table()


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in tests)


def _plain_bytes(column: pa.Array) -> int:
    if not isinstance(column, pa.DictionaryArray) or not _is_text(column.type.value_type):
        return int(column.nbytes)
    lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
    return int(column.indices.nbytes) + int(pc.sum(lengths).as_py() or 0)


def _decoded_column(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _renamed(table: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    names = table.schema.names
    for name in columns:
        if names.count(name) != 1:
            close = resembling(name, names)
            raise BadRequestError(
                f"the file has {names.count(name) or 'no'} columns '{name}'",
                hint=None if close is None or close == name else f"did you mean '{close}'?",
            )
    chosen = [table.column(names.index(name)) for name in columns]
    return pa.table(chosen, names=list(columns.values()))


def _too_large(size_bytes: int, bytes_max: int) -> ResourceLimitError:
    return ResourceLimitError(
        f"the rows of the file take more than {bytes_max} bytes of memory",
        resource="bytes of a Parquet file's rows",
        limit=bytes_max,
        actual=size_bytes,
        hint="use `omnigraph load` where the graph is stored",
    )
