"""Keeping a graph fast and small: optimize, repair and cleanup."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from omnigraph.catalog import AcceptedSchema
from omnigraph.commits import (
    MAIN,
    BranchInfo,
    ManifestReader,
    lines_in_use,
    parse_branch_uid,
)
from omnigraph.commits.meetings import Meetings
from omnigraph.commits.open_branches import OpenBranches
from omnigraph.errors import Conflict, NotFoundError
from omnigraph.graph.upkeep import Upkeep
from omnigraph.limits import MERGE_PAIRS_MAX, OPTIMIZE_ATTEMPTS_MAX, UPKEEP_LOSSES_MAX
from omnigraph.ops.cleanup import Cleanup, Retention, State
from omnigraph.ops.compact_tail import indexed_columns
from omnigraph.ops.indexing import (
    Indexing,
    PendingIndex,
    keep_what_reads_need,
    partial_indexes,
    pending_indexes,
)
from omnigraph.ops.merge.merging import Merging
from omnigraph.ops.optimize import Optimize, OptimizedTable
from omnigraph.ops.repair import Repair
from omnigraph.store import Tables, side_by_side
from omnigraph.store.tables.workers import Workers
from omnigraph.values.reports import CleanupReport as CleanupReport
from omnigraph.values.reports import OptimizeReport as OptimizeReport
from omnigraph.values.reports import RepairReport as RepairReport

Progress = Callable[[str], None]


def _with_pending(table: OptimizedTable, pending: list[PendingIndex]) -> OptimizedTable:
    indexes = tuple(
        {"column": item.column, "kind": item.kind, "reason": item.reason}
        for item in pending
        if item.table_key == table.table_key
    )
    return replace(table, pending_indexes=indexes)


class Maintenance:
    """Maintains one graph."""

    def __init__(self, uri: str, lines: OpenBranches, tables: Tables, merging: Merging) -> None:
        self._uri = uri
        self._merging = merging
        self._lines = lines
        self._tables = tables
        self._meetings = Meetings(lines)

    def optimize(
        self,
        schema: AcceptedSchema,
        branch: str,
        progress: Progress | None,
        workers: Workers | None = None,
        *,
        losses_max: int = OPTIMIZE_ATTEMPTS_MAX,
    ) -> OptimizeReport:
        """Compact and index the tables a branch owns; on main also build what is declared."""
        writer = self._lines.get(branch).writer
        work = Optimize(
            columns_of=indexed_columns, progress=progress, workers=workers, losses_max=losses_max
        )
        commit, _changes = writer.maintain(work, schema)
        tables = work.tables
        if branch == MAIN and not any(item.skipped for item in tables):
            # A branch would get tables of its own by this, and a moved table is for repair.
            indexed, _changes = writer.maintain(Indexing(workers), schema)
            commit = commit or indexed
            base = writer.base(schema)
            keep_what_reads_need(base)
            pending = pending_indexes(base)
            tables = [_with_pending(item, pending) for item in tables]
        return OptimizeReport(uri=self._uri, branch=branch, commit=commit, tables=tuple(tables))

    def optimize_plan(self, schema: AcceptedSchema, branch: str) -> OptimizeReport:
        """Tell what an optimize would do; nothing is written."""
        base = self._lines.get(branch).writer.base(schema)
        tables = Optimize(columns_of=indexed_columns).look(base)
        own = {item.table_key for item in tables if item.skipped is None}
        entities = [item for item in schema.catalog.entities() if item.table_key in own]
        pending = partial_indexes(base, entities)
        if branch != MAIN:
            probed = {(item.table_key, name) for item in entities for name in indexed_columns(item)}
            pending = [item for item in pending if (item.table_key, item.column) in probed]
        return OptimizeReport(
            uri=self._uri,
            branch=branch,
            commit=None,
            tables=tuple(_with_pending(item, pending) for item in tables),
            dry_run=True,
        )

    def keep_up(
        self, schema: AcceptedSchema, branches: Iterable[str], upkeep: Upkeep
    ) -> CleanupReport:
        """Optimize branches that were written to, and remove old states, beside the writers."""
        if upkeep.optimize:
            for name in sorted(branches):
                with contextlib.suppress(Conflict, NotFoundError):
                    # Writers came first, or the branch was deleted: another time.
                    self.optimize(schema, name, None, losses_max=UPKEEP_LOSSES_MAX)
        return self.cleanup(upkeep.retention(), dry_run=False, progress=None)

    def ensure_indices(
        self, schema: AcceptedSchema, branch: str, actor_id: str | None
    ) -> list[PendingIndex]:
        """Build the declared indexes of a branch; return those that have nothing to hold yet."""
        writer = self._lines.get(branch).writer
        writer.maintain(Indexing(), schema, actor_id=actor_id)
        base = writer.base(schema)
        keep_what_reads_need(base)
        return pending_indexes(base)

    def repair(self, branch: str, *, confirm: bool, force: bool, discard: bool) -> RepairReport:
        """Look for tables moved past the engine."""
        writer = self._lines.get(branch).writer
        work = Repair(writer, confirm=confirm, force=force, discard=discard)
        commit, tables = work.run()
        return RepairReport(
            uri=self._uri, confirm=confirm, force=force, commit=commit, tables=tuple(tables)
        )

    def cleanup(
        self, retention: Retention, *, dry_run: bool, progress: Progress | None
    ) -> CleanupReport:
        """Remove old versions; one cleanup at a time."""
        directory = self._lines.directory
        with directory.cleaning() as slot:
            with directory.control():
                branches = directory.branches()
                retired, gone = self._retired(branches)
                ended = {info.branch_uid for info in gone}
                if not dry_run:
                    directory.forget_unmade()
                work = Cleanup(
                    self._manifests(branches),
                    lambda: self._kept_states(ended),
                    self._tables,
                    retention,
                    retired=retired,
                    gone=[info.id for info in gone],
                    lapsed=lambda: slot.lapsed,
                    dry_run=dry_run,
                    progress=progress,
                )
                removal = work.plan()
            # What was announced may go while branches and tags are made.
            tables = work.run(removal)
            if gone and not dry_run and not slot.lapsed:
                with directory.control():
                    directory.purge(gone)
        return CleanupReport(
            uri=self._uri,
            keep=retention.keep,
            older_than_s=retention.older_than_s,
            dry_run=dry_run,
            tables=tuple(tables),
        )

    def _manifests(self, branches: Sequence[BranchInfo]) -> list[ManifestReader]:
        return side_by_side(
            lambda info: self._lines.get(info.name).manifest,
            branches,
            at_once=self._tables.files.calls_at_once,
        )

    def _retired(
        self, living: Sequence[BranchInfo]
    ) -> tuple[list[ManifestReader], list[BranchInfo]]:
        """Return the deleted branches that merges may still start from, and the others."""
        infos = self._lines.directory.retired()
        if not infos:
            return [], []
        needed = lines_in_use(self._meetings.of(living), self._meetings.of_retired(infos))
        kept = [self._lines.history(name) for name in sorted(needed)]
        gone = [info for info in infos if info.branch_uid not in needed]
        return [item for item in kept if item is not None], gone

    def _kept_states(self, gone: Collection[str]) -> Iterator[State]:
        """Yield the states that stay whatever their age."""
        # First: a merge that is published meanwhile has its slot until its commit can be seen.
        yield from self._merging.pending_states()
        directory = self._lines.directory
        for tag in directory.tags():
            yield tag.branch, tag.version
            if tag.commit_id is not None:
                # A branch from inside a version is made from the one before.
                yield tag.branch, tag.version - 1
        for info in (*directory.branches(), *directory.retired()):
            parent = parse_branch_uid(info.parent or MAIN)
            if not info.id.is_main and parent is not None and info.branch_uid not in gone:
                yield parent, info.forked_at
        yield from self._merge_bases()

    def _merge_bases(self) -> list[State]:
        """Return the states that merging each branch with its parent or main would look at."""
        directory = self._lines.directory
        infos = directory.branches()
        names = {info.branch_uid: info.name for info in infos}
        met = self._meetings.merged(infos, directory.retired())
        pairs = {
            frozenset((info.name, other))
            for info in infos
            if met.reached(info)
            for other in {names.get(info.parent or MAIN, MAIN), MAIN} - {info.name}
        }
        takers = [info.name for info in infos if met.took(info)]
        if len(takers) * len(infos) <= MERGE_PAIRS_MAX:
            # What a branch took from another may be what it and main have in common later.
            pairs |= {
                frozenset((name, info.name))
                for name in takers
                for info in infos
                if info.name != name
            }
        return self._merging.kept_bases([sorted(pair) for pair in pairs])
