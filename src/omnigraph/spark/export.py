"""Writes a state of a graph as many files at once: JSONL, CSV or Parquet, a folder per type.

Files appear under their names only when all of them are written; in a bucket, where files have
no folder to be renamed with, `_SUCCESS` appears then.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import uuid
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from omnigraph.catalog import Entity, Scalar
from omnigraph.compute import python_values
from omnigraph.errors import AlreadyExistsError, BadRequestError, StorageError
from omnigraph.graph import Session
from omnigraph.graph.seam import catalog_at, permit, reach, table_at
from omnigraph.limits import SPARK_SCAN_ROWS
from omnigraph.policy import Action
from omnigraph.rows import has_blobs, rows_schema
from omnigraph.rows.entities import envelopes
from omnigraph.spark.engine import Engine
from omnigraph.spark.session import find_session
from omnigraph.spark.tasks import bundled
from omnigraph.store import (
    fragment_ids,
    is_object,
    is_taken,
    new_file,
    reaching,
    read_fragments,
    remove_folder,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMS = ("jsonl", "csv", "parquet")
COMPLETE = "_SUCCESS"


def export(
    graph: Session,
    dest: str | os.PathLike[str],
    *,
    form: str = "jsonl",
    types: Sequence[str] = (),
    branch: str | None = None,
    version: int | None = None,
    commit: str | None = None,
    tag: str | None = None,
    session: SparkSession | None = None,
    master: str | None = None,
    rows_per_file: int = SPARK_SCAN_ROWS,
) -> dict[str, int]:
    """Write one state to a new folder; return the rows of each type.

    Each type has a folder with numbered files. JSONL holds envelopes, the others columns: `id`,
    for edges `from` and `to`, and the properties. Vectors and lists are JSON text in CSV.
    """
    if form not in FORMS:
        raise BadRequestError(f"unknown form '{form}'", hint=f"known are {', '.join(FORMS)}")
    snapshot = graph.snapshot(branch, commit=commit, version=version, tag=tag)
    permit(graph, Action.EXPORT, branch=snapshot.branch)
    catalog = catalog_at(graph, snapshot)
    entities = [catalog.entity_named(name) for name in types] or list(catalog.entities())
    if form == "csv":
        for entity in entities:
            if has_blobs(entity):
                raise BadRequestError(f"{entity.name} holds blobs, which CSV cannot")
    units: list[tuple[Entity, str, int, tuple[int, ...], str]] = []
    with reaching(reach(graph)), _new_folder(os.fspath(dest)) as folder:
        for entity in entities:
            table = table_at(graph, snapshot, entity.table_key)
            fragments = fragment_ids(table)
            if not is_object(folder):
                os.makedirs(os.path.join(folder, entity.name))
            groups = bundled([rows for _id, rows in fragments], rows_per_file)
            for number, group in enumerate(groups):
                path = os.path.join(folder, entity.name, f"part-{number:05d}.{form}")
                ids = tuple(fragments[index][0] for index in group)
                units.append((entity, str(table.dataset.uri), table.version, ids, path))

        def work(task: int) -> bytes:
            return msgspec.json.encode(_write(form, *units[task]))

        answers = Engine(find_session(session, master), reach(graph)).run(len(units), work)
    counts = {entity.name: 0 for entity in entities}
    for (entity, *_rest), answer in zip(units, answers, strict=True):
        counts[entity.name] += msgspec.json.decode(answer, type=int)
    return counts


@contextlib.contextmanager
def _new_folder(dest: str) -> Iterator[str]:
    """Give a folder to write to; what lies there gets its name, or its mark, at the end."""
    target = dest.rstrip("/") if is_object(dest) else os.path.abspath(dest)
    if is_taken(target):
        raise AlreadyExistsError(f"{dest} exists already")
    folder = target if is_object(target) else f"{target}.{uuid.uuid4().hex}.partial"
    try:
        yield folder
        if is_object(target):
            # Objects cannot be renamed together.
            with new_file(f"{target}/{COMPLETE}"):
                pass
        else:
            os.replace(folder, target)
    except OSError as error:
        remove_folder(folder)
        raise StorageError(f"cannot write {target}: {error.strerror or error}") from error
    except BaseException:
        remove_folder(folder)
        raise


def _write(
    form: str, entity: Entity, folder: str, version: int, ids: tuple[int, ...], path: str
) -> int:
    """Write some fragments to one file, in a worker; a repeated task replaces what it left."""
    names = rows_schema(entity).names
    batches = read_fragments(folder, version, ids, names, blob_bytes=has_blobs(entity))
    with new_file(path) as out:
        if form != "jsonl":
            return _columns(form, entity, batches, out)
        encoder = msgspec.json.Encoder()
        count = 0
        for batch in batches:
            for row in envelopes(entity, pa.Table.from_batches([batch])):
                out.write(encoder.encode(row) + b"\n")
                count += 1
        return count


def _columns(form: str, entity: Entity, batches: Iterator[pa.RecordBatch], out: IO[bytes]) -> int:
    writer: pc_csv.CSVWriter | pq.ParquetWriter | None = None
    count = 0
    for batch in batches:
        table = pa.Table.from_batches([batch])
        table = table.rename_columns([_ENDS.get(name, name) for name in table.column_names])
        if form == "csv":
            table = _as_text(entity, table)
        if writer is None:
            opened = pc_csv.CSVWriter if form == "csv" else pq.ParquetWriter
            writer = opened(out, table.schema)
        writer.write_table(table)
        count += table.num_rows
    if writer is not None:
        writer.close()
    return count


_ENDS = {"src": "from", "dst": "to"}


def _as_text(entity: Entity, table: pa.Table) -> pa.Table:
    """Return columns as the CSV reader wants them: lists as JSON, moments as text."""
    for index, name in enumerate(table.column_names):
        declared = entity.properties.get(name)
        if declared is None:
            continue
        if declared.type.is_list or declared.type.scalar is Scalar.VECTOR:
            values = [
                None if item is None else msgspec.json.encode(item).decode()
                for item in python_values(table.column(index))
            ]
            table = table.set_column(index, name, pa.array(values, pa.string()))
        elif declared.type.scalar is Scalar.DATETIME:
            values = [_moment(item) for item in python_values(table.column(index))]
            table = table.set_column(index, name, pa.array(values, pa.string()))
    return table


def _moment(item: datetime.datetime | int | None) -> str | None:
    if item is None or isinstance(item, int):
        return None if item is None else str(item)
    return item.isoformat().replace("+00:00", "Z")
