"""How a served graph is doing."""

# Made from src/omnigraph/remote/maintenance.py by `make client`: change that, not this.
from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from omnigraph.remote.aio.connection import AsyncConnection
from omnigraph.remote.maintenance import _ON_STORAGE, not_served
from omnigraph.values.answers import RecoveryList
from omnigraph.values.recoveries import PendingWrite, RecoveryRecord


class AsyncRemoteMaintenance:
    """Interrupted writes of a served graph, and what was recovered."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    if not TYPE_CHECKING:  # A type checker would take it for every name that is missing.

        def __getattr__(self, name: str) -> NoReturn:
            if name in _ON_STORAGE:
                raise not_served(name)
            raise AttributeError(name)

    async def recoveries(self) -> list[RecoveryRecord]:
        """Return every recovery this graph has seen, oldest first."""
        return list((await self._found()).recoveries)

    async def pending_writes(self) -> list[PendingWrite]:
        """Return the writes that are under way or wait for recovery."""
        return list((await self._found()).pending)

    async def _found(self) -> RecoveryList:
        return RecoveryList.from_json(await self._connection.get("/recoveries"))
