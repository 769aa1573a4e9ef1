"""Who does the long work of maintenance: this process, or workers elsewhere.

What they make are files no version names yet. Planning, joining and every commit stay with the
caller, so it makes no difference to the outcome who did the work.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from lance import LanceDataset
from lance.dataset import Index
from lance.indices import IndicesBuilder
from lance.optimize import Compaction, CompactionOptions, CompactionTask, RewriteResult
from msgspec import Struct, field
from msgspec.structs import replace

from omnigraph.limits import IVF_SAMPLE_RATE, OPTIMIZE_THREADS
from omnigraph.store.files.counters import count
from omnigraph.store.tables.lance_errors import translated
from omnigraph.store.tables.table import Table
from omnigraph.store.tables.version_runs import shorten

INVERTED, VECTOR = "INVERTED", "IVF_FLAT"


class IndexPart(Struct, frozen=True, kw_only=True):
    """An index to be built over some fragments of a table."""

    column: str
    kind: str
    name: str
    fragments: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


class Workers(Protocol):
    """Does the long work."""

    tables_at_once: int

    def rewrite(self, tables: Sequence[Table]) -> Iterator[list[RewriteResult]]:
        """Yield, for each table, full-size fragments in place of small ones, not committed."""

    def build(self, table: Table, parts: Sequence[IndexPart]) -> list[Index]:
        """Return a segment for each index, not committed."""


class InProcess:
    """Does it here."""

    tables_at_once = 1

    def rewrite(self, tables: Sequence[Table]) -> Iterator[list[RewriteResult]]:
        """Compact some tables side by side."""
        with ThreadPoolExecutor(OPTIMIZE_THREADS) as pool:
            yield from pool.map(lambda table: rewrite(table, plan_rewrite(table)), tables)

    def build(self, table: Table, parts: Sequence[IndexPart]) -> list[Index]:
        """Build one index after the other."""
        return [joined(table, part, [build_part(table.dataset, part)]) for part in parts]


def plan_rewrite(table: Table, *, target_rows: int | None = None) -> list[Any]:
    """Return what to compact: fragments below a size, and those with many deleted rows.

    The tasks are Lance's, whose stub leaves out their JSON form.
    """
    count("data_compactions")
    options: CompactionOptions = {"num_threads": 1}
    if target_rows is not None:
        options["target_rows_per_fragment"] = target_rows
    with translated(f"compacting {table.path}"):
        fixed = indexed_elsewhere(table)
        tasks = Compaction.plan(table.dataset, options=options).tasks
        return [task for task in tasks if fixed.isdisjoint(item.id for item in task.fragments)]


def rewrite(table: Table, tasks: Sequence[CompactionTask]) -> list[Any]:
    """Do some tasks of a plan, one after the other."""
    with translated(f"compacting {table.path}"):
        return [shorten(task.execute(table.dataset)) for task in tasks]


def indexed_elsewhere(table: Table) -> set[int]:
    """Return the fragments that an index in the folder of another branch of the table covers.

    They stay as they are: rewriting them would make Lance write that index anew in this branch's
    folder, and look for it in the other's.
    """
    return {
        fragment_id
        for item in table.indexes()
        for segment in item.segments
        if segment.base_id is not None
        for fragment_id in segment.fragment_ids
    }


def build_part(dataset: LanceDataset, part: IndexPart) -> Index:
    """Build one index over the fragments of a part."""
    # Through a handle of its own: the call fails while another thread uses the one it is made on.
    return copy.copy(dataset).create_index_uncommitted(
        part.column,
        part.kind,
        name=part.name,
        fragment_ids=list(part.fragments),
        replace=True,
        **part.options,
    )


def dividable(table: Table, part: IndexPart) -> IndexPart | None:
    """Return a part that can be built piece by piece; None for one with too few rows.

    Pieces of a vector index share their centroids.
    """
    if part.kind != VECTOR:
        return part
    partitions = int(part.options["num_partitions"])
    fragments = [item for item in table.fragments() if item.fragment_id in part.fragments]
    rate = min(IVF_SAMPLE_RATE, sum(int(item.count_rows()) for item in fragments) // partitions)
    if rate < 2:
        return None
    model = IndicesBuilder(table.dataset, part.column).train_ivf(
        num_partitions=partitions,
        distance_type="l2",
        sample_rate=rate,
        fragment_ids=list(part.fragments),
    )
    return replace(part, options={**part.options, "ivf_centroids": model.centroids})


def joined(table: Table, part: IndexPart, segments: list[Index]) -> Index:
    """Return segments of one index as one."""
    # Without this step an inverted index would be listed, and every search on it fail.
    if len(segments) > 1 or part.kind == INVERTED:
        return table.own_handle().merge_existing_index_segments(segments)
    return segments[0]
