"""Writes a state of a graph as many files at once: JSONL, CSV or Parquet, a folder per type.

Files appear under their names only when all of them are written.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from omnigraph.catalog import Scalar
from omnigraph.errors import AlreadyExistsError, BadRequestError, StorageError
from omnigraph.graph import Graph
from omnigraph.limits import SPARK_SCAN_ROWS
from omnigraph.policy import Action
from omnigraph.spark.engine import Engine
from omnigraph.spark.frames import Entity, entity_of
from omnigraph.spark.session import find_session
from omnigraph.spark.tasks import bundled
from omnigraph.store import fragment_ids, read_fragments
from omnigraph.write import has_blobs, rows_schema
from omnigraph.write.entities import envelopes

FORMS = ("jsonl", "csv", "parquet")


def export(
    graph: Graph,
    dest: str | os.PathLike[str],
    *,
    form: str = "jsonl",
    types: Sequence[str] = (),
    branch: str | None = None,
    version: int | None = None,
    commit: str | None = None,
    tag: str | None = None,
    session: Any = None,
    master: str | None = None,
    rows_per_file: int = SPARK_SCAN_ROWS,
) -> dict[str, int]:
    """Write one state to a new folder; return the rows of each type.

    Each type has a folder with numbered files. JSONL holds envelopes, the others columns: `id`,
    for edges `from` and `to`, and the properties. Vectors and lists are JSON text in CSV.
    """
    if form not in FORMS:
        raise BadRequestError(f"unknown form '{form}'", hint=f"known are {', '.join(FORMS)}")
    target = os.path.abspath(os.fspath(dest))
    if os.path.exists(target):
        raise AlreadyExistsError(f"{os.fspath(dest)} exists already")
    snapshot = graph.snapshot(branch, commit=commit, version=version, tag=tag)
    graph.permit(Action.EXPORT, branch=snapshot.branch)
    catalog = graph.catalog_at(snapshot)
    entities = [entity_of(catalog, name) for name in types] or list(catalog.entities())
    if form == "csv":
        for entity in entities:
            if has_blobs(entity):
                raise BadRequestError(f"{entity.name} holds blobs, which CSV cannot")
    units: list[tuple[Entity, str, int, tuple[int, ...], str]] = []
    partial = f"{target}.{uuid.uuid4().hex}.partial"
    try:
        for entity in entities:
            table = graph.table_at(snapshot, entity.table_key)
            found = fragment_ids(table)
            os.makedirs(os.path.join(partial, entity.name))
            groups = bundled([rows for _id, rows in found], rows_per_file)
            for number, group in enumerate(groups):
                path = os.path.join(partial, entity.name, f"part-{number:05d}.{form}")
                ids = tuple(found[index][0] for index in group)
                units.append((entity, str(table.dataset.uri), table.version, ids, path))

        def work(task: int) -> bytes:
            return msgspec.json.encode(_write(form, *units[task]))

        answers = Engine(find_session(session, master)).run(len(units), work)
        os.replace(partial, target)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    counts = {entity.name: 0 for entity in entities}
    for (entity, *_rest), answer in zip(units, answers, strict=True):
        counts[entity.name] += msgspec.json.decode(answer, type=int)
    return counts


def _write(
    form: str, entity: Entity, folder: str, version: int, ids: tuple[int, ...], path: str
) -> int:
    """Write some fragments to one file, in a worker; a repeated task replaces what it left."""
    temporary = f"{path}.{uuid.uuid4().hex}"
    names = rows_schema(entity).names
    batches = read_fragments(folder, version, ids, names, blob_bytes=has_blobs(entity))
    count = 0
    if form == "jsonl":
        encoder = msgspec.json.Encoder()
        with open(temporary, "wb", buffering=1 << 20) as out:
            for batch in batches:
                for row in envelopes(entity, pa.Table.from_batches([batch])):
                    out.write(encoder.encode(row) + b"\n")
                    count += 1
    else:
        count = _columns(form, entity, batches, temporary)
    os.replace(temporary, path)
    return count


def _columns(form: str, entity: Entity, batches: Iterator[Any], path: str) -> int:
    writer: Any = None
    count = 0
    for batch in batches:
        table = pa.Table.from_batches([batch])
        table = table.rename_columns([_ENDS.get(name, name) for name in table.column_names])
        if form == "csv":
            table = _as_text(entity, table)
        if writer is None:
            opened = pc_csv.CSVWriter if form == "csv" else pq.ParquetWriter
            writer = opened(path, table.schema)
        writer.write_table(table)
        count += table.num_rows
    if writer is None:
        open(path, "wb").close()
    else:
        writer.close()
    return count


_ENDS = {"src": "from", "dst": "to"}


def _as_text(entity: Entity, table: Any) -> Any:
    """Return columns as the CSV reader wants them: lists as JSON, moments as text."""
    for index, name in enumerate(table.column_names):
        declared = entity.properties.get(name)
        if declared is None:
            continue
        if declared.type.is_list or declared.type.scalar is Scalar.VECTOR:
            values = [
                None if item is None else msgspec.json.encode(item).decode()
                for item in table.column(index).to_pylist()
            ]
            table = table.set_column(index, name, pa.array(values, pa.string()))
        elif declared.type.scalar is Scalar.DATETIME:
            values = [
                None if item is None else item.isoformat().replace("+00:00", "Z")
                for item in table.column(index).to_pylist()
            ]
            table = table.set_column(index, name, pa.array(values, pa.string()))
    return table
