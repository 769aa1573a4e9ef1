"""The care of a served graph."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, NoReturn

from omnigraph.errors import BadRequestError
from omnigraph.remote.connection import Connection
from omnigraph.values.answers import RecoverOutput, RecoveryList, TableList
from omnigraph.values.commits import MAIN
from omnigraph.values.recoveries import PendingWrite, RecoveryRecord, Verdict
from omnigraph.values.reports import CleanupReport, OptimizeReport, RepairReport, TableHealth

_ON_STORAGE = frozenset({"ensure_indices", "dump", "recovered", "upkeep", "cache_stats"})


def not_served(name: str) -> BadRequestError:
    """Return why a served graph cannot do what works on storage."""
    return BadRequestError(
        f"{name} works on storage and is not served", hint="open the graph where it is stored"
    )


class RemoteMaintenance:
    """Interrupted writes of a served graph, what was recovered, and how its tables are doing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    if not TYPE_CHECKING:  # A type checker would take it for every name that is missing.

        def __getattr__(self, name: str) -> NoReturn:
            if name in _ON_STORAGE:
                raise not_served(name)
            raise AttributeError(name)

    def recover(self) -> list[Verdict]:
        """Resolve every interrupted write now, as opening does; return what became of each."""
        answer = self._connection.post("/recover", {}).json()
        return list(RecoverOutput.from_json(answer).resolved)

    def recoveries(self) -> list[RecoveryRecord]:
        """Return every recovery this graph has seen, oldest first."""
        return list(self._found().recoveries)

    def pending_writes(self) -> list[PendingWrite]:
        """Return the writes that are under way or wait for recovery."""
        return list(self._found().pending)

    def tables(self, branch: str = MAIN) -> list[TableHealth]:
        """Return how each table of a branch is doing: rows, files, bytes, what indexes cover."""
        answer = self._connection.get("/tables", {"branch": branch})
        return list(TableList.from_json(answer).tables)

    def _found(self) -> RecoveryList:
        return RecoveryList.from_json(self._connection.get("/recoveries"))


class RemoteUpkeep:
    """Keeps a served graph fast and small. Its server does the work, and answers when it is done.

    Each may be asked for twice: the second finds nothing left to do.
    """

    _connection: Connection

    def optimize(self, branch: str = MAIN, *, dry_run: bool = False) -> OptimizeReport:
        """Compact small fragments and index every row; no entity changes."""
        response = self._connection.post("/optimize", {"branch": branch, "dry_run": dry_run})
        return OptimizeReport.from_json(response.json())

    def repair(
        self,
        branch: str = MAIN,
        *,
        confirm: bool = False,
        force: bool = False,
        discard: bool = False,
    ) -> RepairReport:
        """Find tables that another program changed; keep or drop the changes when told to."""
        body = {"branch": branch, "confirm": confirm, "force": force, "discard": discard}
        return RepairReport.from_json(self._connection.post("/repair", body).json())

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: datetime.timedelta | float | None = None,
        dry_run: bool = True,
    ) -> CleanupReport:
        """Remove old versions and the files only they used."""
        age = older_than
        if isinstance(age, datetime.timedelta):
            age = age.total_seconds()
        body = {"keep_versions": keep, "older_than_secs": age, "dry_run": dry_run}
        return CleanupReport.from_json(self._connection.post("/cleanup", body).json())
