"""Writes the result of a query: as files, as a Lance dataset, or into a graph."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import AlreadyExistsError, BadRequestError
from omnigraph.spark.engine import Engine
from omnigraph.store import is_taken, reaching
from omnigraph.store.tables.plain_dataset import publish_dataset, write_dataset_part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MODES = ("error", "overwrite")


def check_names(columns: list[str], query_name: str) -> None:
    """Refuse names that files cannot tell apart."""
    seen = [name.casefold() for name in columns]
    repeated = sorted({name for name in columns if seen.count(name.casefold()) > 1})
    if repeated:
        raise BadRequestError(
            f"'{query_name}' returns several columns named {', '.join(repeated)}",
            hint="name them with `as`",
        )


def check_mode(mode: str) -> None:
    """Refuse a way of writing that does not exist."""
    if mode not in MODES:
        raise BadRequestError(f"unknown mode '{mode}'", hint=f"use {' or '.join(MODES)}")


def absolute(place: str | os.PathLike[str]) -> str:
    """Return a place as workers name it: Java and workers may be at home in other folders."""
    path = os.fspath(place)
    return path if "://" in path else os.path.abspath(path)


def write_lance(
    engine: Engine, frame: DataFrame, schema: pa.Schema, uri: str | os.PathLike[str], mode: str
) -> int:
    """Write the rows of a frame as a Lance dataset; return their number.

    Workers write files, the driver makes them a dataset in one step. What a failed job leaves are
    files of no version.
    """
    check_mode(mode)
    place = absolute(uri)
    with reaching(engine.given):
        if mode == "error" and is_taken(place):
            raise AlreadyExistsError(f"{place} exists", hint="mode='overwrite' replaces it")

    def write(_task: int, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
        fitted = (_fitted(batch, schema) for batch in batches)
        yield json.dumps(write_dataset_part(place, schema, fitted)).encode()

    answers = engine.map_frame(frame, write)
    fragments = [item for answer in answers for item in json.loads(answer)]
    with reaching(engine.given):
        return publish_dataset(place, schema, fragments)


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pc.cast(array, field.type) for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
