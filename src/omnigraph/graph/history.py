"""Reads the commit history."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from omnigraph.commits import MAIN, GraphCommit
from omnigraph.commits.contract import SchemaContract
from omnigraph.errors import StorageError, StorageFailureKind
from omnigraph.graph.changes import ChangeBlock, Changes
from omnigraph.graph.permits import Reachable
from omnigraph.graph.revisions import resolve_commit
from omnigraph.ops.diff import ChangeFilter
from omnigraph.ops.export import export_rows
from omnigraph.store import Tables

_UNSEEN = object()


class Commits:
    """The commits of a graph."""

    def __init__(self, lines: Reachable, tables: Tables, contract: SchemaContract) -> None:
        self._lines = lines
        self._tables = tables
        self._contract = contract

    def list(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        since: datetime.datetime | None = None,
        until: datetime.datetime | None = None,
        limit: int | None = None,
    ) -> list[GraphCommit]:
        """Return commits, newest first, optionally of one actor and within a time."""
        coordinator = self._lines.get(branch).coordinator
        since, until = _zoned(since), _zoned(until)
        capture = coordinator.capture()
        found = reversed(coordinator.ledger.commits_to(capture.version))
        kept = [
            commit
            for commit in found
            if (actor is None or commit.actor_id == actor)
            and (since is None or commit.created_at >= since)
            and (until is None or commit.created_at <= until)
        ]
        return kept if limit is None else kept[:limit]

    def get(self, commit_id: str) -> GraphCommit:
        """Return one commit, by its id or any name of a state. Raises `NotFoundError`."""
        return resolve_commit(self._lines, commit_id)[1]

    def changes(
        self,
        commit_id: str,
        *,
        kinds: Iterable[str] = (),
        types: Iterable[str] = (),
        ops: Iterable[str] = (),
    ) -> ChangeBlock:
        """Return what a commit changed, against its first parent, with before and after images.

        Raises `DiffRefusedError` for the first commit, and across a change of schema.
        """
        line, commit = resolve_commit(self._lines, commit_id)
        wanted = ChangeFilter.of(kinds, types, ops)
        self._contract.validate()
        changes = Changes(self._lines, self._tables, self._contract)
        return changes.of_commit(commit, line, wanted)

    def last_change(self, type_name: str, id: str, branch: str = MAIN) -> GraphCommit | None:
        """Return the commit that last changed an entity; None when it never existed."""
        entity = self._contract.validate().catalog.entity_named(type_name)
        line = self._lines.get(branch)
        capture = line.coordinator.capture()
        ledger = line.coordinator.ledger
        pins = ledger.pin_history(entity.table_key, capture.version)
        newer: object = _UNSEEN
        for number in range(len(pins) - 1, -1, -1):
            pin = pins[number]
            table = self._tables.open(pin.path, pin.version)
            # Each version under its own schema: a rename is no reason not to find the entity.
            then = self._contract.at(ledger.head_at(pin.seq).schema_hash).catalog
            try:
                image = next(export_rows(then, pin.table_key, table, only_id=id), None)
            except StorageError as error:
                if error.failure is StorageFailureKind.NOT_FOUND:
                    # A cleanup that was killed leaves versions whose files are gone already.
                    later = pins[number + 1].seq - 1 if number + 1 < len(pins) else capture.version
                    self._lines.state(line, later)
                raise
            if newer is not _UNSEEN and image != newer:
                return ledger.author(pins[number + 1].seq, pins[number + 1].table_key, id)
            newer = image
        if newer in (None, _UNSEEN):
            return None
        return ledger.author(pins[0].seq, pins[0].table_key, id)

    def head(self, branch: str = MAIN) -> GraphCommit:
        """Return the newest commit of a branch."""
        return self._lines.get(branch).coordinator.capture().head


def _zoned(moment: datetime.datetime | None) -> datetime.datetime | None:
    """Return an instant; without a zone it is UTC."""
    if moment is None or moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=datetime.UTC)
