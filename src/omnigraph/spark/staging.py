"""Lets workers write rows of scratch files into tables; the driver only stages what they made."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog import Entity
from omnigraph.limits import ROWS_PER_FILE_MAX
from omnigraph.rows import RowFile, RowsElsewhere, TableChange, table_schema
from omnigraph.spark.columns import scratch_rows
from omnigraph.spark.engine import Engine
from omnigraph.spark.tasks import bundled
from omnigraph.store import (
    StagedTable,
    Table,
    addresses_of,
    joined_rewrites,
    reaching,
    rewrite_fragments,
    stage_delete,
    stage_fragments,
    stage_rewritten,
    stage_upsert,
    write_rows,
)

Wanted = tuple[Entity, Table, Sequence[RowFile]]


def rows_reader(entity: Entity, files: Sequence[RowFile]) -> pa.RecordBatchReader:
    """Return the rows of scratch files as a table stores them, to be read once."""
    return pa.RecordBatchReader.from_batches(table_schema(entity), scratch_rows(entity, files))


def write_new(engine: Engine, wanted: Sequence[Wanted]) -> list[list[str]]:
    """Write new rows of several tables in one job; return the fragments of each."""
    units: list[tuple[Entity, str, int, tuple[RowFile, ...]]] = []
    owners: list[int] = []
    for number, (entity, parent, files) in enumerate(wanted):
        for chosen in _bundles(files):
            units.append((entity, str(parent.dataset.uri), parent.version, chosen))
            owners.append(number)

    def work(task: int) -> bytes:
        entity, folder, version, chosen = units[task]
        return msgspec.json.encode(write_rows(folder, version, rows_reader(entity, chosen)))

    fragments: list[list[str]] = [[] for _item in wanted]
    for number, answer in zip(owners, engine.run(len(units), work), strict=True):
        fragments[number] += msgspec.json.decode(answer, type=list[str])
    return fragments


class RowWorkers:
    """Writes rows that lie in scratch files, for loads and merges alike."""

    def __init__(self, engine: Engine, merge_rows: int = 0) -> None:
        self._engine = engine
        self._merge_rows = merge_rows
        """Rows from which on it is worth to let workers replace rows."""
        self._written: dict[str, list[str]] = {}

    def forget(self) -> None:
        """Forget what was written: the rows are others now."""
        self._written.clear()

    def write_ahead(self, wanted: Sequence[Wanted]) -> None:
        """Write new rows of several tables in one job, once for each table."""
        todo = [item for item in wanted if item[1].path not in self._written]
        for (_entity, parent, _files), made in zip(
            todo, write_new(self._engine, todo), strict=True
        ):
            self._written[parent.path] = made

    def stage(self, change: TableChange, parent: Table, properties: dict[str, str]) -> StagedTable:
        """Stage a change whose rows lie elsewhere, as one version of its table."""
        rows, entity = change.elsewhere or RowsElsewhere(files=(), may_replace=True), change.entity
        files = rows.files
        if is_plain(rows, change.deleted):
            self.write_ahead([(entity, parent, files)])
            written = self._written[parent.path]
            return stage_fragments(parent, written, properties, replace_all=change.replaced)
        removed = None
        if change.deleted:
            removed = addresses_of(parent, "id", change.deleted)["_rowaddr"].to_numpy()
            if not files:
                return stage_delete(parent, removed, properties)
        elif sum(item.rows for item in files) < self._merge_rows:
            with reaching(self._engine.given):
                return stage_upsert(parent, rows_reader(entity, files), properties)
        return self._stage_merged(entity, parent, files, properties, removed)

    def _stage_merged(
        self,
        entity: Entity,
        parent: Table,
        files: Sequence[RowFile],
        properties: dict[str, str],
        removed: NDArray[np.uint64] | None,
    ) -> StagedTable:
        """Stage rows that replace others or are new, and addresses of rows that go."""
        folder, version, groups = str(parent.dataset.uri), parent.version, _bundles(files)

        def work(task: int) -> bytes:
            rows = rows_reader(entity, groups[task])
            return msgspec.json.encode(rewrite_fragments(folder, version, rows))

        answers = self._engine.run(len(groups), work)
        parts = [msgspec.json.decode(item, type=tuple[list[str], bytes, int]) for item in answers]
        return stage_rewritten(parent, joined_rewrites(parts), properties, removed=removed)


def is_plain(rows: RowsElsewhere, deleted: Sequence[str] = ()) -> bool:
    """Whether all rows are new, so that they can be written before it is known where they go."""
    return not (rows.may_replace or deleted)


def _bundles(files: Sequence[RowFile]) -> list[tuple[RowFile, ...]]:
    groups = bundled([item.rows for item in files], ROWS_PER_FILE_MAX)
    return [tuple(files[index] for index in group) for group in groups]
