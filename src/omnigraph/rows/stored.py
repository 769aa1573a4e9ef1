"""What checks of rows look up in the state they are made on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from omnigraph.catalog import AcceptedSchema, EdgeType, Entity
from omnigraph.store import Table


class Published(Protocol):
    """A published table version, as far as checks care."""

    @property
    def row_count(self) -> int:
        """Number of rows."""


class Stored(Protocol):
    """The rows a change is made on."""

    @property
    def schema(self) -> AcceptedSchema:
        """The schema of the state."""

    def pin(self, entity: Entity) -> Published:
        """Return the published version of a type's table."""

    def table(self, entity: Entity) -> Table:
        """Open a type's table."""

    def existing_ids(self, entity: Entity, ids: Collection[str]) -> set[str]:
        """Return those of the ids that exist."""

    def rows_where(self, entity: Entity, column: str, values: Sequence[str]) -> Any:
        """Return rows whose id or endpoint is one of the values, blobs as bytes."""

    def edge_ends(self, entity: EdgeType, column: str, values: Sequence[str]) -> Any:
        """Return id, src and dst of edges with one of these endpoints."""
