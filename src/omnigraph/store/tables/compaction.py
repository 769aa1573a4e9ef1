"""Compacts small fragments and indexes what no index covers yet. Content never changes."""

from __future__ import annotations

from collections.abc import Sequence

import lance
from lance import LanceDataset, LanceOperation
from lance.optimize import Compaction, RewriteResult

from omnigraph.errors import ConflictError
from omnigraph.limits import COMPACTION_TIERS, INDEX_SEGMENTS_MAX, TIER_FRAGMENTS_MIN
from omnigraph.store.files.counters import count
from omnigraph.store.tables.lance_errors import translated
from omnigraph.store.tables.standing import AUTO_CLEANUP, Standing, refuse_drift, standing
from omnigraph.store.tables.table import Table, Tables
from omnigraph.store.tables.workers import (
    IndexPart,
    InProcess,
    Workers,
    indexed_elsewhere,
    plan_rewrite,
    rewrite,
)


def index_name(column: str) -> str:
    """Return the name of the index on a column."""
    return f"{column}_idx"


def require_current(tables: Tables, table: Table) -> None:
    """Refuse to change a table that has moved: Lance would carry the change over to what is there.

    Needs the slot. Raises `DriftError` for another program's changes, else `ConflictError`.
    """
    state = standing(tables, table.path, table.version)
    if state.verdict is Standing.CURRENT:
        return
    refuse_drift(state)
    raise ConflictError(f"table {table.path} has unpublished versions", hint="try again")


def auto_cleanup_settings(table: Table) -> list[str]:
    """Return the settings of a table by which Lance would delete versions by itself."""
    with translated(f"reading {table.path}"):
        return [name for name in table.dataset.config() if name.startswith(AUTO_CLEANUP)]


def strip_auto_cleanup(tables: Tables, table: Table) -> Table:
    """Remove settings that would make Lance delete versions by itself. Needs the slot."""
    dataset = table.dataset
    keys = auto_cleanup_settings(table)
    if not keys:
        return table
    count("data_commits")
    with translated(f"changing settings of {table.path}"):
        fresh = dataset.checkout_version(table.version)
        fresh.delete_config_keys(keys)
    return _exact(tables, table, fresh)


def rewrite_small_fragments(table: Table) -> list[RewriteResult]:
    """Write larger fragments in place of many small ones; nothing moves yet.

    Sizes are tiered so that a row is rewritten a few times in its life, not at every step.
    """
    fixed = indexed_elsewhere(table)
    sizes = [f.physical_rows for f in table.fragments() if f.fragment_id not in fixed]
    target = 0
    for tier in COMPACTION_TIERS:
        if sum(size < tier for size in sizes) >= TIER_FRAGMENTS_MIN:
            target = tier
    if not target:
        return []
    return rewrite(table, plan_rewrite(table, target_rows=target))


def commit_rewrite(tables: Tables, table: Table, results: list[RewriteResult]) -> Table:
    """Move a table's head to the rewritten fragments. Needs the slot.

    Raises `ConflictError` unless exactly the two versions a compaction makes appeared.
    """
    count("data_commits", 2)
    with translated(f"compacting {table.path}"):
        Compaction.commit(table.dataset.checkout_version(table.version), results)
    latest = tables.open_latest(table.path)
    if latest.version != table.version + 2:
        raise ConflictError(f"table {table.path} moved while it was compacted", hint="try again")
    return tables.remember(latest)


def index_tail(
    tables: Tables, table: Table, columns: Sequence[str], workers: Workers | None = None
) -> Table:
    """Extend the indexes of some columns to every fragment. Needs the slot."""
    fragments = {fragment.fragment_id for fragment in table.fragments()}
    parts: list[IndexPart] = []
    for column in columns:
        name = index_name(column)
        missing = tuple(sorted(fragments - table.index_fragments(name)))
        if missing:
            parts.append(IndexPart(column=column, kind="BTREE", name=name, fragments=missing))
    if not parts:
        return table
    with translated(f"indexing {table.path}"):
        segments = (workers or InProcess()).build(table, parts)
        count("data_commits")
        transaction = lance.Transaction(table.version, LanceOperation.CreateIndex(segments, []))
        dataset = LanceDataset.commit(table.dataset, transaction, max_retries=0)
    indexed = _exact(tables, table, dataset)
    return _merge_segments(tables, indexed, columns)


def misplaced_indexes(tables: Tables, table: Table) -> list[str]:
    """Return the indexes whose files lie with this branch of a table but are sought in another's.

    Compacting inherited fragments left them so; every lookup by them fails.
    """
    folder = f"{tables.folder(table.path)}/_indices"
    return [
        item.name
        for item in table.indexes()
        if any(
            segment.base_id is not None and tables.files.has_folder(f"{folder}/{segment.uuid}")
            for segment in item.segments
        )
    ]


def drop_misplaced_indexes(tables: Tables, table: Table) -> Table:
    """Drop indexes that cannot be found, and build those on single keys anew. Needs the slot."""
    names = misplaced_indexes(tables, table)
    columns = [name.removesuffix("_idx") for name in names]
    require_current(tables, table)
    dataset = table.dataset.checkout_version(table.version)
    for name in names:
        count("data_commits")
        with translated(f"indexing {table.path}"):
            dataset.drop_index(name)
    if dataset.version != table.version + len(names):
        raise ConflictError(f"table {table.path} moved while it was indexed", hint="try again")
    committed = tables.committed(Table(table.path, dataset))
    keys = [name for name in columns if name in ("id", "src", "dst")]
    return index_tail(tables, committed, keys)


def _merge_segments(tables: Tables, table: Table, columns: Sequence[str]) -> Table:
    """Merge index segments when a column has gathered many: each one costs every probe."""
    names = [index_name(column) for column in columns]
    many = [name for name in names if len(table.index_segments(name)) > INDEX_SEGMENTS_MAX]
    if not many:
        return table
    count("data_commits")
    with translated(f"indexing {table.path}"):
        dataset = table.dataset.checkout_version(table.version)
        dataset.optimize.optimize_indices(
            index_names=many, num_indices_to_merge=INDEX_SEGMENTS_MAX * 4
        )
    return _exact(tables, table, dataset)


def _exact(tables: Tables, parent: Table, dataset: LanceDataset) -> Table:
    if dataset.version != parent.version + 1:
        raise ConflictError(f"table {parent.path} moved while it was indexed", hint="try again")
    return tables.committed(Table(parent.path, dataset))
