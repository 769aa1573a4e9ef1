"""How a parallel load divides its input: files cut into pieces, frames as they come."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from omnigraph.catalog import Catalog
from omnigraph.errors import BadRequestError
from omnigraph.intake.declared import Sources
from omnigraph.intake.inputs import Input, as_arrow, find_inputs
from omnigraph.intake.records import is_compressed
from omnigraph.limits import SPARK_FRAME_ROWS, SPARK_PIECE_BYTES
from omnigraph.spark.tasks import Piece, bundled
from omnigraph.store import new_file, readable


def plan(
    sources: Sources,
    catalog: Catalog,
    scratch: str,
    piece_bytes: int = SPARK_PIECE_BYTES,
) -> tuple[list[Piece], list[tuple[Piece, Any]]]:
    """Return the pieces of all files, in input order, and the Spark frames."""
    pieces: list[Piece] = []
    frames: list[tuple[Piece, Any]] = []
    for number, item in enumerate(find_inputs(sources, catalog)):
        if item.form == "graphml":
            raise BadRequestError(
                f"{item.label}: GraphML is read in one process", hint="use engine='local'"
            )
        whole = _piece(item, number)
        if item.data is None:
            pieces += _cut(whole, item.size_bytes, piece_bytes)
        elif hasattr(item.data, "mapInArrow"):
            frames.append((whole, item.data))
        else:
            # Workers cannot see this process's memory.
            path = os.path.join(scratch, f"{uuid.uuid4().hex}.parquet")
            with new_file(path) as out:
                pq.write_table(as_arrow(item.data), out, row_group_size=SPARK_FRAME_ROWS)
            pieces += _cut(replace(whole, form="parquet", path=path), 0, piece_bytes)
    return pieces, frames


def _piece(item: Input, number: int) -> Piece:
    return Piece(
        label=item.label,
        form=item.form,
        path=item.path,
        type_name=None if item.entity is None else item.entity.name,
        reading=item.reading,
        source=number,
    )


def _cut(whole: Piece, size: int, piece_bytes: int) -> Iterator[Piece]:
    if whole.form == "csv" or is_compressed(whole.path):
        yield replace(whole, stop=size)
    elif whole.form in ("jsonl", "records"):
        for start in range(0, size, piece_bytes):
            yield replace(whole, start=start, stop=min(start + piece_bytes, size))
    else:
        try:
            found = pq.read_metadata(readable(whole.path))
        except pa.ArrowInvalid as error:
            raise BadRequestError(f"{whole.path} is no Parquet file: {error}") from error
        sizes = [found.row_group(index).num_rows for index in range(found.num_row_groups)]
        for group in bundled(sizes, SPARK_FRAME_ROWS):
            yield replace(whole, start=group[0], stop=group[-1] + 1)
