"""How a served graph is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from omnigraph.errors import BadRequestError
from omnigraph.remote.connection import Connection
from omnigraph.values.answers import RecoveryList
from omnigraph.values.recoveries import PendingWrite, RecoveryRecord

_ON_STORAGE = frozenset(
    {"ensure_indices", "dump", "recover", "recovered", "tables", "upkeep", "cache_stats"}
)


def not_served(name: str) -> BadRequestError:
    """Return why a served graph cannot do what works on storage."""
    return BadRequestError(
        f"{name} works on storage and is not served", hint="open the graph where it lies"
    )


class RemoteMaintenance:
    """Interrupted writes of a served graph, and what was recovered."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    if not TYPE_CHECKING:  # A type checker would take it for every name that is missing.

        def __getattr__(self, name: str) -> NoReturn:
            if name in _ON_STORAGE:
                raise not_served(name)
            raise AttributeError(name)

    def recoveries(self) -> list[RecoveryRecord]:
        """Return every recovery this graph has seen, oldest first."""
        return list(self._found().recoveries)

    def pending_writes(self) -> list[PendingWrite]:
        """Return the writes that are under way or wait for recovery."""
        return list(self._found().pending)

    def _found(self) -> RecoveryList:
        return RecoveryList.from_json(self._connection.get("/recoveries"))
