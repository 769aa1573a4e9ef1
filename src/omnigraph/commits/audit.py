"""The record of recoveries: one row for every interrupted write that was finished or undone.

It is written for people. No verdict ever rests on it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa

from omnigraph.clock import now_us
from omnigraph.errors import AlreadyExistsError, StorageError
from omnigraph.limits import PUBLISH_ATTEMPTS_MAX
from omnigraph.store import Journal, JournalView, StaleJournal, Syncer, primary_key_field
from omnigraph.values.recoveries import RecoveryKind as RecoveryKind
from omnigraph.values.recoveries import RecoveryRecord as RecoveryRecord
from omnigraph.values.recoveries import TableOutcome as TableOutcome

AUDIT = "_graph_commit_recoveries.lance"


def audit_schema() -> pa.Schema:
    """Return the columns of the audit table."""
    outcome = pa.struct(
        [
            pa.field("table_key", pa.string(), nullable=False),
            pa.field("from_version", pa.uint64(), nullable=False),
            pa.field("to_version", pa.uint64(), nullable=False),
        ]
    )
    return pa.schema(
        [
            primary_key_field("graph_commit_id"),
            pa.field("recovery_kind", pa.string(), nullable=False),
            pa.field("recovery_for_actor", pa.string()),
            pa.field("operation_id", pa.string(), nullable=False),
            pa.field("sidecar_writer_kind", pa.string(), nullable=False),
            pa.field("per_table_outcomes", pa.list_(outcome)),
            pa.field("created_at", pa.int64(), nullable=False),
        ]
    )


class RecoveryAudit:
    """Reads and appends the recoveries of one graph."""

    def __init__(self, journal: Journal, syncer: Syncer) -> None:
        self._journal = journal
        self._syncer = syncer

    def add(self, record: RecoveryRecord) -> bool:
        """Add a record unless its commit has one; whether it was added."""
        for _attempt in range(PUBLISH_ATTEMPTS_MAX):
            self.set_aside_torn()
            if not self._journal.exists():
                self._create()
            view = self._journal.open_latest()
            if any(row["graph_commit_id"] == record.graph_commit_id for row in self._rows(view)):
                return False
            rows = pa.Table.from_pylist([record.to_json()], schema=audit_schema())
            staged = self._journal.stage(view, rows)
            self._syncer.sync(self._journal.data_files(staged))
            try:
                _view, version = self._journal.append(staged, {})
            except StaleJournal:
                # Another recovery recorded something: look whether it was this.
                continue
            self._syncer.sync([version])
            return True
        raise StorageError("the recovery could not be recorded", hint="try again")

    def set_aside_torn(self) -> None:
        """Remove what a power loss tore, be it everything: no verdict rests on this record."""
        self._journal.set_aside_torn(keep=0)

    def records(self) -> list[RecoveryRecord]:
        """Return every recovery, oldest first."""
        if not self._journal.exists():
            return []
        rows = self._rows(self._journal.open_latest())
        return sorted(map(_record, rows), key=lambda item: item.created_at_us)

    def _rows(self, view: JournalView) -> list[dict[str, object]]:
        tables = self._journal.unread_rows(view, set())
        try:
            return [row for table in tables for row in table.to_pylist()]
        except ValueError as error:
            raise StorageError(f"the record of recoveries is damaged: {error}") from error

    def _create(self) -> None:
        try:
            view = self._journal.create(audit_schema().empty_table(), {})
        except AlreadyExistsError:
            return
        self._syncer.sync(self._journal.files_of(view))


def _record(row: dict[str, object]) -> RecoveryRecord:
    outcomes = row.get("per_table_outcomes") or ()
    try:
        return msgspec.convert({**row, "per_table_outcomes": outcomes}, RecoveryRecord)
    except msgspec.ValidationError as error:
        raise StorageError(f"the record of recoveries is damaged: {error}") from error


def new_record(
    *,
    commit_id: str,
    kind: RecoveryKind,
    actor_id: str | None,
    operation_id: str,
    writer_kind: str,
    tables: Iterable[TableOutcome],
) -> RecoveryRecord:
    """Return a record of a recovery that happens now."""
    return RecoveryRecord(
        graph_commit_id=commit_id,
        recovery_kind=kind,
        recovery_for_actor=actor_id,
        operation_id=operation_id,
        writer_kind=writer_kind,
        tables=tuple(tables),
        created_at_us=now_us(),
    )
