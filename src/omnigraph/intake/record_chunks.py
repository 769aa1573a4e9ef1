"""Reads one input as records, some at a time: files of every form, and frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.errors import BadRequestError
from omnigraph.intake.envelopes import file_blocks
from omnigraph.intake.inputs import Input, as_arrow
from omnigraph.intake.records import Records, csv_records, json_records, open_input
from omnigraph.limits import SPARK_FRAME_ROWS
from omnigraph.rows.problems import Problems
from omnigraph.store import readable

Skip = Callable[[int], bool] | None


def record_chunks(
    item: Input, problems: Problems, *, skip: Skip = None
) -> Iterator[tuple[Records, int]]:
    """Yield records of an input, and the number of lines up to their end.

    What is wrong with lines goes to `problems`. `skip` tells lines to leave out.
    """
    if item.form == "csv":
        with open_input(item.path) as handle:
            raw = handle.read()
        yield csv_records(raw, item.reading.csv, problems, skip=skip)
    elif item.form == "records":
        lines = 0
        with open_input(item.path) as handle:
            for block in file_blocks(handle, None):
                found = json_records(block, lines + 1, problems, skip=skip)
                lines += len(block)
                yield found, lines
    else:
        lines = 0
        for table in _tables(item):
            found = table_records(table, lines + 1, skip=skip)
            lines += table.num_rows
            yield found, lines


def table_records(table: Any, first: int = 1, *, skip: Skip = None) -> Records:
    """Return rows of a table as records; `first` is the line of the first one."""
    found = Records(lines=np.arange(first, first + table.num_rows, dtype=np.int64), table=table)
    if skip is None:
        return found
    return found.chosen(np.array([not skip(line) for line in found.lines.tolist()], dtype=bool))


def _tables(item: Input) -> Iterator[Any]:
    if item.form == "frame":
        whole = as_arrow(item.data)
        if not whole.num_rows:
            # Its columns are checked; a slice of a table without columns would have rows.
            yield whole
        for start in range(0, whole.num_rows, SPARK_FRAME_ROWS):
            yield whole.slice(start, min(SPARK_FRAME_ROWS, whole.num_rows - start))
        return
    try:
        with pq.ParquetFile(readable(item.path)) as found:
            for batch in found.iter_batches(batch_size=SPARK_FRAME_ROWS):
                yield pa.Table.from_batches([batch])
    except pa.ArrowInvalid as error:
        raise BadRequestError(f"{item.path} is no Parquet file: {error}") from error
