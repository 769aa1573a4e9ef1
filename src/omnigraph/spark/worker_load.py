"""What loads on Spark have in common: rows in scratch files, which workers write into tables."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from omnigraph.catalog import Entity
from omnigraph.commits import Base, ChangeSet, PlainOperation
from omnigraph.commits.forks import owned_table
from omnigraph.limits import COLUMN_CHUNK_BYTES, SPARK_FRAME_ROWS
from omnigraph.rows import RowFile, TableChange, counts_of_kind
from omnigraph.spark.engine import Engine
from omnigraph.spark.progress import Reporter
from omnigraph.spark.staging import RowWorkers, Wanted, is_plain
from omnigraph.spark.tasks import Job, Tuning
from omnigraph.store import StagedTable, Table


class WorkerLoad(PlainOperation):
    """An operation of the write protocol whose rows never pass through this process."""

    kind = "load"

    def __init__(self, engine: Engine, job: Job, *, tuning: Tuning, reporter: Reporter) -> None:
        self.reporter = reporter
        self.staged_at = time.monotonic()
        self._engine = engine
        self._job = job
        self._tuning = tuning
        self._source = "the input"
        self._counts: dict[str, int] = {}
        self._judged: tuple[dict[str, int], ChangeSet] | None = None
        self._rows_workers = RowWorkers(engine, tuning.merge_rows)

    def counts(self, kind: str) -> dict[str, int]:
        """Return rows per type name, nodes or edges; of events, entities they are about."""
        return counts_of_kind(self._counts, kind)

    def prepare(self, base: Base) -> ChangeSet:
        """Return what the rows come to on a base; a verdict holds while its tables stay."""
        if self._judged is not None:
            read, changes = self._judged
            if all(base.capture.pins[key].version == version for key, version in read.items()):
                base.read_pins.update(read)
                return changes
        with self.reporter.stage("check") as counter:
            changes = self._judge(base)
            counter.rows = sum(self._counts.values())
        self._judged = (dict(base.read_pins), changes)
        return changes

    @abstractmethod
    def _judge(self, base: Base) -> ChangeSet:
        """Tell new rows from existing ones and validate the outcome."""

    def stage_ahead(self, base: Base) -> None:
        """Write what can be written before it is this load's turn: the long part of staging."""
        wanted: list[Wanted] = []
        for change in self.prepare(base).effective():
            own, rows = owned_table(base, base.table(change.entity)), change.elsewhere
            if own is not None and rows is not None and is_plain(rows, change.deleted):
                wanted.append((change.entity, own, rows.files))
        with self.reporter.stage("write") as counter:
            self._rows_workers.write_ahead(wanted)
            counter.rows = sum(self._row_count(entity, files) for entity, _own, files in wanted)
        self.staged_at = time.monotonic()

    def _row_count(self, entity: Entity, files: Sequence[RowFile]) -> int:
        """Return how many rows of files are written."""
        return sum(item.rows for item in files)

    def stage_elsewhere(
        self, change: TableChange, parent: Table, properties: dict[str, str]
    ) -> StagedTable:
        """Let workers write the rows."""
        return self._rows_workers.stage(change, parent, properties)


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield some batches of a partition at a time, as many as a worker takes in at once."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= SPARK_FRAME_ROWS or size >= COLUMN_CHUNK_BYTES:
            yield held
            held, rows, size = [], 0, 0
    if rows:
        yield held
