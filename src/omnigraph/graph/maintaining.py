"""The care of an open graph: indexes, dumps, interrupted writes, its memory and upkeep."""

from __future__ import annotations

import os
from collections.abc import Callable

from omnigraph.commits import MAIN, PendingWrite, RecoveryRecord, Verdict
from omnigraph.graph.acting import Acting
from omnigraph.graph.api import Path
from omnigraph.graph.health import TableHealth, tables_health
from omnigraph.graph.targets import At
from omnigraph.graph.upkeep import Caretaker
from omnigraph.ops.dump import DumpReport, dump
from omnigraph.ops.indexing import PendingIndex
from omnigraph.policy import Action
from omnigraph.read import CacheStats


class MaintenanceOps:
    """What operators do and look at, beside `optimize`, `repair` and `cleanup` of the graph."""

    def __init__(self, acting: Acting) -> None:
        self._acting = acting
        self._engine = acting.engine

    @property
    def upkeep(self) -> Caretaker | None:
        """What looks after the graph in the background, None when nothing does.

        >>> graph.maintenance.upkeep is None
        False
        """
        return self._engine.upkeep

    @property
    def recovered(self) -> list[Verdict]:
        """What became of each interrupted write when the graph was opened.

        >>> graph.maintenance.recovered
        []
        """
        return self._engine.recovered

    def ensure_indices(self, branch: str = MAIN) -> list[PendingIndex]:
        """Build what the schema's indexes lack, as one commit that changes no entity.

        >>> graph.maintenance.ensure_indices()
        []

        Returns the declared indexes that could not be built yet, for want of anything to index.
        """
        self._acting.check_maintainable()
        schema = self._engine.accepted_schema()
        actor = self._acting.caller.actor
        return self._engine.maintenance.ensure_indices(schema, branch, actor)

    def dump(self, archive: Path, *, progress: Callable[[str], None] | None = None) -> DumpReport:
        """Write the whole graph, with branches, tags and history, into one archive.

        >>> sorted(graph.maintenance.dump("tasks.tar").heads)
        ['dev', 'main']

        `archive` is a tar file, on a disk or in a bucket, compressed if its name ends in `.gz`.
        Others may go on writing: the archive holds the state of one moment. `og.restore` makes a
        graph of it again.
        """
        self._acting.check_writable()
        # All branches at once: an export of some of them only does not cover it.
        self._acting.permit(Action.EXPORT)
        return dump(self._engine.location, self._engine.lines, os.fspath(archive), progress)

    def recover(self) -> list[Verdict]:
        """Resolve every interrupted write now, as opening does; return what became of each.

        >>> graph.maintenance.recover()
        []
        """
        self._acting.check_maintainable()
        return self._engine.lines.sweep()

    def recoveries(self) -> list[RecoveryRecord]:
        """Return every recovery this graph has seen, oldest first.

        >>> graph.maintenance.recoveries()
        []
        """
        self._acting.permit(Action.READ)
        return self._engine.audit.records()

    def pending_writes(self) -> list[PendingWrite]:
        """Return the writes that are under way or wait for recovery.

        >>> graph.maintenance.pending_writes()
        []
        """
        self._acting.permit(Action.READ)
        return self._engine.lines.main.recovery.pending()

    def tables(self, branch: str = MAIN) -> list[TableHealth]:
        """Return how each table of a branch is doing: rows, files, bytes, what indexes cover.

        >>> [(item.table_key, item.rows) for item in graph.maintenance.tables()]
        [('node:Person', 2), ('node:Task', 2), ('edge:Owns', 1)]
        """
        engine = self._engine
        state = self._acting.state(At(branch=branch))
        catalog = engine.schema_of(state.head.schema_hash).catalog
        return tables_health(catalog, engine.opened(state), engine.tables)

    def cache_stats(self) -> CacheStats:
        """Return how much of what queries read is kept in memory, and how often it helped.

        >>> graph.maintenance.cache_stats().hits >= 0
        True
        """
        return self._engine.reader.cache_stats()
