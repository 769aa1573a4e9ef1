"""What open and served graphs have in common about their care."""

from __future__ import annotations

import datetime
from typing import Protocol

from omnigraph.values.commits import MAIN
from omnigraph.values.recoveries import PendingWrite, RecoveryRecord, Verdict
from omnigraph.values.reports import CleanupReport, OptimizeReport, RepairReport, TableHealth


class MaintenanceApi(Protocol):
    """How a graph is doing."""

    def recover(self) -> list[Verdict]:
        """Resolve every interrupted write now, as opening does; return what became of each."""

    def recoveries(self) -> list[RecoveryRecord]:
        """Return every recovery this graph has seen, oldest first."""

    def pending_writes(self) -> list[PendingWrite]:
        """Return the writes that are under way or wait for recovery."""

    def tables(self, branch: str = MAIN) -> list[TableHealth]:
        """Return how each table of a branch is doing: rows, files, bytes, what indexes cover."""


class UpkeepApi(Protocol):
    """Keeping a graph fast and small."""

    def optimize(self, branch: str = MAIN, *, dry_run: bool = False) -> OptimizeReport:
        """Compact small fragments and index every row; no entity changes."""

    def repair(
        self,
        branch: str = MAIN,
        *,
        confirm: bool = False,
        force: bool = False,
        discard: bool = False,
    ) -> RepairReport:
        """Find tables that another program changed; keep or drop the changes when told to."""

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: datetime.timedelta | float | None = None,
        dry_run: bool = True,
    ) -> CleanupReport:
        """Remove old versions and the files only they used."""
