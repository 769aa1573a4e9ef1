"""Changes of a table that Lance cannot stage, as data, and the one function that makes them.

Each may take several versions. The owner of the branch's slot has announced the table: if it dies
on the way, recovery restores the version it started from.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from msgspec import Struct

from omnigraph.failpoints import Failpoint, fire
from omnigraph.store.tables.columns import ColumnChanges, change_columns
from omnigraph.store.tables.compaction import (
    commit_rewrite,
    drop_misplaced_indexes,
    index_tail,
    require_current,
    strip_auto_cleanup,
)
from omnigraph.store.tables.staging import commit_staged, restore, stage_overwrite
from omnigraph.store.tables.standing import refuse_drift, standing
from omnigraph.store.tables.table import OPERATION_PROPERTY, Table, Tables
from omnigraph.store.tables.workers import Workers


class Compact(Struct, frozen=True, kw_only=True):
    """Put rewritten fragments in place of small ones, and index every fragment."""

    rewrites: tuple[Any, ...] = ()
    columns: tuple[str, ...] = ()


class ChangeColumns(Struct, frozen=True, kw_only=True):
    """Change columns; with `content`, the schema of the rows, write every row anew afterwards.

    A dropped column stays in the files of the others: only new files are without it.
    """

    changes: ColumnChanges
    content: pa.Schema | None = None


class GoBack(Struct, frozen=True, kw_only=True):
    """Make the published version the newest again.

    Refused for a table that another program changed, unless `drop_foreign`.
    """

    drop_foreign: bool = False


class DropLostIndexes(Struct, frozen=True, kw_only=True):
    """Drop the indexes whose files cannot be found, and build those on keys anew."""


class Adopt(Struct, frozen=True, kw_only=True):
    """Take over what another program made of the table. Nothing is undone if the owner dies."""


UnstagedStep = Compact | ChangeColumns | GoBack | DropLostIndexes | Adopt


def perform(
    tables: Tables, path: str, version: int, step: UnstagedStep, workers: Workers, mark: str
) -> Table:
    """Change a table that is published at a version; return it as it is then. Needs the slot.

    `mark` is the operation id that new rows carry.
    """
    match step:
        case Compact():
            return _compact(tables, tables.open(path, version), step, workers)
        case ChangeColumns():
            return _change_columns(tables, path, version, step, mark)
        case GoBack():
            if not step.drop_foreign:
                # Judged under the slot: another program may have written since.
                refuse_drift(standing(tables, path, version))
            table = restore(tables, path, version)
            fire(Failpoint.RECOVERY_POST_RESTORE)
            return table
        case DropLostIndexes():
            return drop_misplaced_indexes(tables, tables.open(path, version))
        case Adopt():
            # With these settings every later commit would make Lance delete history.
            return strip_auto_cleanup(tables, tables.open_latest(path))


def _compact(tables: Tables, table: Table, step: Compact, workers: Workers) -> Table:
    fire(Failpoint.OPTIMIZE_BEFORE_COMPACT)
    require_current(tables, table)
    # Before the compaction: with them, its commit would make Lance delete history.
    moved = strip_auto_cleanup(tables, table)
    if step.rewrites:
        moved = commit_rewrite(tables, moved, list(step.rewrites))
    fire(Failpoint.OPTIMIZE_AFTER_COMPACT_PRE_INDEX)
    return index_tail(tables, moved, step.columns, workers)


def _change_columns(
    tables: Tables, path: str, version: int, step: ChangeColumns, mark: str
) -> Table:
    table = change_columns(
        tables, path, version, step.changes, after=lambda: fire(Failpoint.SCHEMA_POST_TABLE_STEP)
    )
    if step.content is None:
        return table
    content = step.content
    batches = (
        pa.record_batch([batch[item.name].cast(item.type) for item in content], schema=content)
        for batch in table.batches(columns=content.names)
    )
    rows = pa.RecordBatchReader.from_batches(content, batches)
    return commit_staged(tables, stage_overwrite(table, rows, {OPERATION_PROPERTY: mark}))
