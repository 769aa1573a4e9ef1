"""Writes the files of changes, table by table; nothing moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from omnigraph.commits.base import Base
from omnigraph.commits.changes import BuildIndexes
from omnigraph.commits.forks import make_fork, owned_table
from omnigraph.commits.plans import PlannedTable
from omnigraph.commits.publisher import Publisher
from omnigraph.rows.changes import TableChange
from omnigraph.rows.table_schema import stored_batches, stored_rows
from omnigraph.store import (
    OPERATION_PROPERTY,
    StagedTable,
    Table,
    addresses_of,
    rebased,
    side_by_side,
    stage_delete,
    stage_indexes,
    stage_insert,
    stage_overwrite,
    stage_upsert,
)
from omnigraph.store.tables.workers import Workers


def stage_table(parent: Table, change: TableChange, properties: dict[str, str]) -> StagedTable:
    """Write the changed rows of one table."""
    rows = change.rows()
    if change.deleted and rows is not None:
        content = stored_rows(change.entity, rows)
        return stage_upsert(parent, content, properties, deleted=change.deleted)
    if change.deleted:
        addresses = addresses_of(parent, "id", change.deleted)
        return stage_delete(parent, addresses["_rowaddr"].to_numpy(), properties)
    if change.replaced:
        content = (
            parent.schema.empty_table()
            if rows is None
            else stored_batches(change.entity, rows, mapped=change.mapped)
        )
        return stage_overwrite(parent, content, properties)
    content = stored_batches(change.entity, rows, mapped=change.mapped)
    if change.changed is None or change.changed.num_rows == 0:
        return stage_insert(parent, content, properties)
    return stage_upsert(parent, content, properties)


class StagedIndexes:
    """Indexes built for one operation: carried over to a newer state while they still fit."""

    def __init__(self, publisher: Publisher, new_id: Callable[[], str], workers: Workers) -> None:
        self._publisher = publisher
        self._new_id = new_id
        self._workers = workers
        self._staged: dict[str, StagedTable] = {}

    def stage(
        self, base: Base, wanted: Sequence[BuildIndexes], operation_id: str
    ) -> list[PlannedTable]:
        """Build the indexes a change asks for, or carry over those of the attempt before."""
        properties = {OPERATION_PROPERTY: operation_id}

        def staged(item: BuildIndexes) -> StagedTable | None:
            return self._of_table(base, item, properties)

        steps = side_by_side(staged, wanted, at_once=self._workers.tables_at_once)
        planned: list[PlannedTable] = []
        for item, step in zip(wanted, steps, strict=True):
            if step is not None:
                self._staged[item.table_key] = step
                planned.append(PlannedTable(pin=base.capture.pins[item.table_key], step=step))
        return planned

    def _of_table(
        self, base: Base, item: BuildIndexes, properties: dict[str, str]
    ) -> StagedTable | None:
        pin = base.capture.pins[item.table_key]
        table = base.tables.open(pin.path, pin.version)
        known = self._staged.pop(item.table_key, None)
        # What a lost attempt committed will be undone; it must not be committed a second time.
        if (
            known is not None
            and known.path == table.path
            and base.tables.open_latest(table.path).version == table.version
        ):
            if known.parent.version == table.version:
                return known
            carried = rebased(known, table)
            if carried is not None:
                return carried
        own = owned_table(base, table) or make_fork(self._publisher, base, table, self._new_id())
        return stage_indexes(own, item.specs, properties, self._workers)
