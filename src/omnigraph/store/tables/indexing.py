"""Stages every index a table lacks as one transaction. Rows and answers never change."""

from __future__ import annotations

from collections.abc import Sequence

import lance
import numpy as np
import pyarrow as pa
from lance import LanceOperation
from lance.dataset import Index
from lance.fragment import LanceFragment
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.limits import (
    ANN_PROBES_MIN,
    INDEX_SEGMENTS_MAX,
    IVF_PARTITION_ROWS,
    IVF_PARTITIONS_MAX,
)
from omnigraph.store.files.counters import count
from omnigraph.store.tables.fragments import fragment_groups
from omnigraph.store.tables.staging import StagedTable, index_files
from omnigraph.store.tables.table import Table
from omnigraph.store.tables.workers import INVERTED, VECTOR, IndexPart, InProcess, Workers


class IndexSpec(Struct, frozen=True, kw_only=True):
    """An index a table should have: BTREE, BITMAP, LABEL_LIST, INVERTED or IVF_FLAT (by L2)."""

    column: str
    kind: str

    @property
    def name(self) -> str:
        """Name of the index in the table."""
        suffix = "idx" if self.kind == "BTREE" else self.kind.lower()
        return f"{self.column}_{suffix}"


def missing_indexes(table: Table, specs: Sequence[IndexSpec]) -> list[IndexSpec]:
    """Return the indexes that a table does not have at all."""
    return [spec for spec in specs if not table.index_segments(spec.name)]


def lacking_indexes(table: Table, specs: Sequence[IndexSpec]) -> list[IndexSpec]:
    """Return the indexes that do not cover every fragment, if there is anything to add to them.

    Fragments without a vector add nothing to a vector index.
    """
    return [spec for spec in specs if _uncovered(table, spec)]


def _uncovered(table: Table, spec: IndexSpec) -> list[int]:
    covered = table.index_fragments(spec.name)
    missing = [item for item in table.fragments() if item.fragment_id not in covered]
    if missing and spec.kind == VECTOR and not _vectors(table, spec, missing):
        return []
    return sorted(item.fragment_id for item in missing)


def _vectors(table: Table, spec: IndexSpec, fragments: list[LanceFragment]) -> int:
    where = f"`{spec.column}` IS NOT NULL"
    return int(table.scan(columns=["id"], where=where, fragments=fragments).num_rows)


def stage_indexes(
    table: Table,
    specs: Sequence[IndexSpec],
    properties: dict[str, str],
    workers: Workers | None = None,
) -> StagedTable | None:
    """Stage what is missing so that every index covers every fragment; None when nothing is."""
    parts: list[IndexPart] = []
    removed: list[Index] = []
    with table.at_work("indexing"):
        for spec in specs:
            part, old = _part(table, spec)
            if part is not None:
                parts.append(part)
                removed += old
        if not parts:
            return None
        added = (workers or InProcess()).build(table, parts)
    count("data_stages")
    operation = LanceOperation.CreateIndex(added, removed)
    return StagedTable(
        path=table.path,
        parent=table,
        transaction=lance.Transaction(table.version, operation, transaction_properties=properties),
        files=tuple(name for item in added for name in index_files(table, str(item.uuid))),
        rows_after=table.count_rows(),
    )


def _part(table: Table, spec: IndexSpec) -> tuple[IndexPart | None, list[Index]]:
    """Return what to build of an index, and the segments that takes the place of."""
    missing = _uncovered(table, spec)
    if not missing:
        return None, []
    old: list[Index] = []
    if len(table.index_segments(spec.name)) >= INDEX_SEGMENTS_MAX:
        # Each segment costs every lookup: from here on one new segment takes the place of all.
        old = _as_indexes(table, spec.name)
        missing = sorted(item.fragment_id for item in table.fragments())
    options: dict[str, object] = {}
    if spec.kind == VECTOR:
        chosen = [item for item in table.fragments() if item.fragment_id in missing]
        partitions = min(_vectors(table, spec, chosen) // IVF_PARTITION_ROWS, IVF_PARTITIONS_MAX)
        options = {"metric": "L2", "num_partitions": max(partitions, 1)}
    elif spec.kind == INVERTED:
        options = {"with_position": True}
    part = IndexPart(
        column=spec.column,
        kind=spec.kind,
        name=spec.name,
        fragments=tuple(missing),
        options=options,
    )
    return part, old


def _as_indexes(table: Table, name: str) -> list[Index]:
    return [
        Index(
            uuid=segment.uuid,
            name=name,
            fields=list(item.fields),
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
        )
        for item in table.indexes()
        if item.name == name
        for segment in item.segments
    ]


def rebased(staged: StagedTable, table: Table) -> StagedTable | None:
    """Return staged indexes for a newer version of their table, None when they no longer fit.

    They fit while every fragment they were built from is there with the rows it had, and no writer
    has indexed one of these meanwhile: Lance knows no index that covers a fragment twice.
    """
    before = [group.signature for group in fragment_groups(staged.parent, rows_min=0)]
    now = {group.signature for group in fragment_groups(table, rows_min=0)}
    known, operation = staged.transaction, staged.transaction.operation
    if not isinstance(operation, LanceOperation.CreateIndex) or not now.issuperset(before):
        return None
    if not _still_missing(operation, table):
        return None
    return StagedTable(
        path=staged.path,
        parent=table,
        transaction=lance.Transaction(
            table.version,
            operation,
            transaction_properties=known.transaction_properties,
        ),
        files=staged.files,
        rows_after=table.count_rows(),
    )


def _still_missing(operation: LanceOperation.CreateIndex, table: Table) -> bool:
    """Whether a table lacks what an operation adds and has what it takes away."""
    gone = {str(item.uuid) for item in operation.removed_indices}
    for added in operation.new_indices:
        segments = table.index_segments(added.name)
        kept = [segment for segment in segments if str(segment.uuid) not in gone]
        covered = {fragment for segment in kept for fragment in segment.fragment_ids}
        if not covered.isdisjoint(added.fragment_ids):
            return False
    present = {str(segment.uuid) for item in table.indexes() for segment in item.segments}
    return gone <= present


def nearest_rows(
    table: Table, column: str, query: NDArray[np.float64], *, limit: int
) -> pa.Table | None:
    """Return id and vector of about the nearest rows by L2, None without a vector index.

    Rows that the index does not cover are compared as well.
    """
    name = IndexSpec(column=column, kind=VECTOR).name
    if not table.index_segments(name):
        return None
    count("vector_index_searches")
    dataset = table.dataset
    with table.at_work("searching"):
        partitions = int(dataset.stats.index_stats(name)["indices"][0]["num_partitions"])
        asked = {
            "column": column,
            "q": query.astype("float32"),
            "k": limit,
            "metric": "L2",
            "nprobes": min(partitions, max(ANN_PROBES_MIN, partitions // 8)),
        }
        return dataset.scanner(columns=["id", column, "_distance"], nearest=asked).to_table()
