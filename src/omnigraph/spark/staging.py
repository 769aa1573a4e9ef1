"""Lets workers write rows of scratch files into tables; the driver only stages what they made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from omnigraph.catalog import Entity
from omnigraph.limits import ROWS_PER_FILE_MAX
from omnigraph.spark.columns import scratch_rows
from omnigraph.spark.engine import Engine
from omnigraph.spark.tasks import ScratchFile, bundled
from omnigraph.store import (
    StagedTable,
    Table,
    joined_rewrites,
    rewrite_fragments,
    stage_rewritten,
    write_rows,
)
from omnigraph.write import table_schema

Wanted = tuple[Entity, Table, Sequence[ScratchFile]]


def rows_reader(entity: Entity, files: Sequence[ScratchFile]) -> Any:
    """Return the rows of scratch files as a table stores them, to be read once."""
    return pa.RecordBatchReader.from_batches(table_schema(entity), scratch_rows(entity, files))


def write_new(engine: Engine, wanted: Sequence[Wanted]) -> list[list[str]]:
    """Write new rows of several tables in one job; return the fragments of each."""
    units: list[tuple[Entity, str, int, tuple[ScratchFile, ...]]] = []
    owners: list[int] = []
    for number, (entity, parent, files) in enumerate(wanted):
        for chosen in _bundles(files):
            units.append((entity, str(parent.dataset.uri), parent.version, chosen))
            owners.append(number)

    def work(task: int) -> bytes:
        entity, folder, version, chosen = units[task]
        return msgspec.json.encode(write_rows(folder, version, rows_reader(entity, chosen)))

    found: list[list[str]] = [[] for _item in wanted]
    for number, answer in zip(owners, engine.run(len(units), work), strict=True):
        found[number] += msgspec.json.decode(answer, type=list[str])
    return found


def stage_merged(
    engine: Engine,
    entity: Entity,
    parent: Table,
    files: Sequence[ScratchFile],
    properties: dict[str, str],
    *,
    removed: Any = None,
) -> StagedTable:
    """Stage rows that replace others or are new, and addresses of rows that go, as one version.

    No two files may hold the same id.
    """
    folder, version, groups = str(parent.dataset.uri), parent.version, _bundles(files)

    def work(task: int) -> bytes:
        rows = rows_reader(entity, groups[task])
        return msgspec.json.encode(rewrite_fragments(folder, version, rows))

    answers = engine.run(len(groups), work)
    parts = [msgspec.json.decode(item, type=tuple[list[str], bytes, int]) for item in answers]
    return stage_rewritten(parent, joined_rewrites(parts), properties, removed=removed)


def _bundles(files: Sequence[ScratchFile]) -> list[tuple[ScratchFile, ...]]:
    groups = bundled([item.rows for item in files], ROWS_PER_FILE_MAX)
    return [tuple(files[index] for index in group) for group in groups]
