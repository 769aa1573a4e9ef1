"""Keeping a graph fast and small: optimize, repair and cleanup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from omnigraph.catalog import AcceptedSchema
from omnigraph.graph.lines import Lines
from omnigraph.graph.merging import Merging
from omnigraph.ids import UlidSource
from omnigraph.manifest import (
    MAIN,
    BranchId,
    BranchInfo,
    Coordinator,
    GraphCommit,
    OwnHistory,
    lines_in_use,
)
from omnigraph.ops.cleanup import CleanedTable, Cleanup, Retention
from omnigraph.ops.fold import indexed_columns
from omnigraph.ops.indexing import Indexing, PendingIndex
from omnigraph.ops.optimize import Optimize, OptimizedTable
from omnigraph.ops.repair import Repair, RepairedTable
from omnigraph.store import Tables
from omnigraph.store.workers import Workers

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeReport:
    """What an optimize did; `commit` is None when nothing needed it."""

    uri: str
    branch: str
    commit: GraphCommit | None
    tables: tuple[OptimizedTable, ...]

    def to_json(self) -> dict[str, object]:
        """Return the wire form. The manifest folds itself while it is written."""
        manifest = OptimizedTable(table_key="__manifest")
        return {
            "uri": self.uri,
            "branch": self.branch,
            "commit": None if self.commit is None else self.commit.to_json(),
            "tables": [item.to_json() for item in (*self.tables, manifest)],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """What a repair found and did."""

    uri: str
    confirm: bool
    force: bool
    commit: GraphCommit | None
    tables: tuple[RepairedTable, ...]

    @property
    def refused(self) -> bool:
        """Whether something was found that only force would publish."""
        return any(item.action == "refused" for item in self.tables)

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        return {
            "uri": self.uri,
            "confirm": self.confirm,
            "force": self.force,
            "manifest_version": None if self.commit is None else self.commit.manifest_version,
            "tables": [item.to_json() for item in self.tables],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport:
    """What a cleanup removed, or would remove."""

    uri: str
    keep: int | None
    older_than_s: float | None
    dry_run: bool
    tables: tuple[CleanedTable, ...]

    @property
    def versions(self) -> int:
        """Versions removed over all tables."""
        return sum(item.old_versions_removed for item in self.tables)

    @property
    def bytes(self) -> int:
        """Bytes freed over all tables."""
        return sum(item.bytes_removed for item in self.tables)

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        return {
            "uri": self.uri,
            "keep_versions": self.keep,
            "older_than_secs": self.older_than_s,
            "dry_run": self.dry_run,
            "tables": [item.to_json() for item in self.tables],
        }


def _with_pending(table: OptimizedTable, pending: list[PendingIndex]) -> OptimizedTable:
    found = tuple(
        {"column": item.column, "kind": item.kind, "reason": item.reason}
        for item in pending
        if item.table_key == table.table_key
    )
    return replace(table, pending_indexes=found)


class Maintenance:
    """Maintains one graph."""

    def __init__(
        self, uri: str, lines: Lines, tables: Tables, ids: UlidSource, merging: Merging
    ) -> None:
        self._uri = uri
        self._merging = merging
        self._lines = lines
        self._tables = tables
        self._ids = ids

    def optimize(
        self,
        schema: AcceptedSchema,
        branch: str,
        progress: Progress | None,
        workers: Workers | None = None,
    ) -> OptimizeReport:
        """Compact and index the tables a branch owns; on main also build what is declared."""
        line = self._lines.get(branch)
        work = Optimize(
            line.publisher,
            line.recovery,
            schema,
            self._ids,
            columns_of=indexed_columns,
            progress=progress,
            workers=workers,
        )
        commit, tables = work.run()
        if branch == MAIN and not any(item.skipped for item in tables):
            # A branch would get tables of its own by this, and a moved table is for repair.
            work_on = Indexing(line.publisher, line.recovery, self._ids, workers)
            indexes = work_on.run(schema)
            commit = commit or indexes.commit
            tables = [_with_pending(item, indexes.pending) for item in tables]
        return OptimizeReport(uri=self._uri, branch=branch, commit=commit, tables=tuple(tables))

    def ensure_indices(
        self, schema: AcceptedSchema, branch: str, actor_id: str | None
    ) -> list[PendingIndex]:
        """Build the declared indexes of a branch; return those that have nothing to hold yet."""
        line = self._lines.get(branch)
        work = Indexing(line.publisher, line.recovery, self._ids)
        return work.run(schema, actor_id=actor_id).pending

    def repair(self, branch: str, *, confirm: bool, force: bool) -> RepairReport:
        """Look for tables moved past the engine."""
        line = self._lines.get(branch)
        commit, tables = Repair(line.publisher, self._ids, confirm=confirm, force=force).run()
        return RepairReport(
            uri=self._uri, confirm=confirm, force=force, commit=commit, tables=tuple(tables)
        )

    def cleanup(
        self, retention: Retention, *, dry_run: bool, progress: Progress | None
    ) -> CleanupReport:
        """Remove old versions while nobody makes or removes a branch or tag."""
        directory = self._lines.directory
        with directory.control():
            coordinators = [self._lines.get(info.name).coordinator for info in directory.branches()]
            retired, gone = self._retired()
            work = Cleanup(
                coordinators,
                [(tag.branch, tag.version) for tag in directory.tags()] + self._merge_bases(),
                self._tables,
                retention,
                retired=retired,
                gone=gone,
                dry_run=dry_run,
                progress=progress,
            )
            tables = work.run()
            if not dry_run:
                for branch in gone:
                    directory.purge(branch)
        return CleanupReport(
            uri=self._uri,
            keep=retention.keep,
            older_than_s=retention.older_than_s,
            dry_run=dry_run,
            tables=tuple(tables),
        )

    def _retired(self) -> tuple[list[Coordinator], list[BranchId]]:
        """Return the deleted branches that merges may still start from, and the others."""
        directory = self._lines.directory
        infos = directory.retired()
        if not infos:
            return [], []
        retired = [self._own_history(info) for info in infos]
        needed = lines_in_use(map(self._own_history, directory.branches()), retired)
        kept = [self._lines.history(name) for name in sorted(needed)]
        gone = [info.id for info in infos if info.id.incarnation not in needed]
        return [item for item in kept if item is not None], gone

    def _own_history(self, info: BranchInfo) -> OwnHistory:
        found = self._lines.history(info.id.incarnation)
        commits = [] if found is None else found.ledger.commits_to(found.capture().version)
        return OwnHistory(
            branch=info.id.incarnation,
            parent=info.parent,
            commits=[item for item in commits if item.manifest_version > info.forked_at],
        )

    def _merge_bases(self) -> list[tuple[BranchId, int]]:
        """Return the states that merging each branch with its parent or main would look at."""
        infos = self._lines.directory.branches()
        names = {info.id.incarnation: info.name for info in infos}
        found: list[tuple[BranchId, int]] = []
        for info in infos:
            for other in {names.get(info.parent or MAIN, MAIN), MAIN} - {info.name}:
                found += self._merging.bases(info.name, other)
        return found
