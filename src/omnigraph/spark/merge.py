"""Merges branches that differ in very many rows: workers judge rows, the driver decides.

Rows are judged by the functions of the merge in one process, group by group. The driver gets
conflicts, and of the merged rows what ties them to others: ids, ends, unique values. It validates
and publishes as any merge does.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog import Entity
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Session
from omnigraph.graph.seam import check_writable, reach, scratch_folder
from omnigraph.limits import SPARK_DELTA_ROWS_MIN, SPARK_SCAN_ROWS
from omnigraph.ops.merge.merging import MergeResult
from omnigraph.ops.merge.operation import Sides
from omnigraph.rows import TableChange, rows_schema
from omnigraph.rows.images import RowChanges
from omnigraph.rows.same_edges import key_columns, same_keys
from omnigraph.rows.three_way import Conflict, Decide, Merged, RowsOf, merge_table
from omnigraph.rows.virtual_base import Rebased, rebased
from omnigraph.spark.deltas import Delta, judged
from omnigraph.spark.engine import Engine, failures
from omnigraph.spark.outcomes import Outcome, joined_change, leave_rows
from omnigraph.spark.session import find_session
from omnigraph.spark.staging import RowWorkers
from omnigraph.store import StagedTable, Table, reaching, remove_folder
from omnigraph.store.tables.delta import delta_parts
from omnigraph.store.tables.worker_io import read_delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def merge(
    graph: Session,
    source: str,
    into: str = "main",
    *,
    session: SparkSession | None = None,
    master: str | None = None,
    scratch: str | os.PathLike[str] | None = None,
    rows_min: int = SPARK_DELTA_ROWS_MIN,
    group_rows: int = SPARK_SCAN_ROWS,
    **options: Any,
) -> MergeResult:
    """Merge a branch as `graph.branches.merge` does, and takes the same `options`.

    Tables in which fewer than `rows_min` rows may differ are merged in this process. Workers judge
    about `group_rows` rows at a time; what they keep until the commit lies in `scratch`.
    """
    check_writable(graph)
    engine = Engine(find_session(session, master), reach(graph))
    folder = scratch_folder(graph, scratch, shared=not engine.is_local)
    workers = SparkMerge(engine, folder, rows_min, group_rows)
    try:
        return graph.branches.merge(source, into, workers=workers, **options)
    finally:
        with reaching(reach(graph)):
            remove_folder(folder)


@dataclass(slots=True, kw_only=True)
class _Answer:
    """What one group of ids came to."""

    outcome: Outcome = field(default_factory=Outcome)
    conflicts: list[Conflict] = field(default_factory=list)
    refused: OmniGraphError | None = None


class SparkMerge:
    """Merges tables on Spark. What was judged is kept while the three states stay the same."""

    def __init__(self, engine: Engine, scratch: str, rows_min: int, group_rows: int) -> None:
        self._engine = engine
        self._scratch = scratch
        self._rows_min = rows_min
        self._group_rows = group_rows
        self._known: dict[tuple[object, ...], list[_Answer]] = {}

    def merge(self, entity: Entity, sides: Sides, decide: Decide, rows_of: RowsOf) -> Merged | None:
        """Return the outcome for one table, None if it is too small to bother."""
        states = (sides.theirs, sides.ours, *sides.others.values())
        differences = [delta_parts(sides.origin, side) for side in states]
        delta = Delta(tag=0, entity=entity, differences=differences)
        if delta.rows < self._rows_min:
            return None
        key = (
            sides.tree,
            *(
                None if item is None else (item.path, item.version)
                for item in (sides.origin, *states)
            ),
        )
        answers = self._known.get(key)
        if answers is None:
            answers = self._known[key] = self._judge(delta, sides, decide, rows_of)
        refused = next((item.refused for item in answers if item.refused is not None), None)
        if refused is not None:
            raise refused
        conflicts = [conflict for item in answers for conflict in item.conflicts]
        return Merged(
            joined_change(self._engine, entity, [item.outcome for item in answers]),
            sorted(conflicts, key=lambda item: item.entity_id or ""),
            [problem for item in answers for problem in item.outcome.problems],
        )

    def _judge(self, delta: Delta, sides: Sides, decide: Decide, rows_of: RowsOf) -> list[_Answer]:
        scratch, tree, numbers = self._scratch, sides.tree, tuple(sides.others)
        delta = replace(delta, together=self._together(delta))

        def judge(delta: Delta, changes: list[RowChanges]) -> pa.Table:
            theirs, ours, *others = changes
            rebase = rebased(tree, theirs, ours, dict(zip(numbers, others, strict=True)))
            answer = pickle.dumps(_merged(delta.entity, rebase, decide, rows_of, scratch))
            return pa.table({"answer": pa.array([answer], pa.binary())})

        with failures():
            frame = judged(
                self._engine, [delta], judge, "answer binary", group_rows=self._group_rows
            )
            rows = frame.collect()
        return [pickle.loads(bytes(row["answer"])) for row in rows]  # noqa: S301 - our workers

    def _together(self, delta: Delta) -> Mapping[str, str]:
        """Return which edges have to be judged together, because only one of them may exist."""
        rules = key_columns(delta.entity)
        if not rules:
            return {}
        schema = rows_schema(delta.entity)
        names = [name for name in schema.names if name == "id" or name in set().union(*rules)]
        keys = pa.schema([schema.field(name) for name in names])
        tables = [keys.empty_table()]
        with reaching(self._engine.given):
            for parts in delta.differences:
                for part in parts:
                    batches = list(read_delta(part, names, blob_bytes=False))
                    tables += [pa.Table.from_batches([batch]).cast(keys) for batch in batches]
        return same_keys(rules, pa.concat_tables(tables))

    def stage(self, change: TableChange, parent: Table, properties: dict[str, str]) -> StagedTable:
        """Let workers write merged rows."""
        return RowWorkers(self._engine).stage(change, parent, properties)


def _merged(
    entity: Entity, rebase: Rebased, decide: Decide, rows_of: RowsOf, scratch: str
) -> _Answer:
    """Merge one group of ids, in a worker, and leave its rows in a file."""
    try:
        merged = merge_table(entity, rebase.theirs, rebase.ours, decide, rows_of, rebase.undefined)
    except OmniGraphError as error:
        # An answer, not a failure: it would be the same however often the task is repeated.
        return _Answer(refused=error)
    return _Answer(outcome=leave_rows(merged.change, scratch), conflicts=merged.conflicts)
