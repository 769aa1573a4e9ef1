"""What checks of rows look up in the state they are made on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import pyarrow as pa

from omnigraph.catalog import AcceptedSchema, EdgeType, Entity


class Stored(Protocol):
    """The rows a change is made on."""

    @property
    def schema(self) -> AcceptedSchema:
        """The schema of the state."""

    def row_count(self, entity: Entity) -> int:
        """Return how many rows a type has; 0 means that there is nothing to look at."""

    def scan(
        self, entity: Entity, columns: Sequence[str], where: str | None, *, blobs: bool = False
    ) -> pa.Table:
        """Return rows that match a filter, and maybe some that do not; `blobs` as bytes."""

    def existing_ids(self, entity: Entity, ids: Collection[str]) -> set[str]:
        """Return those of the ids that exist."""

    def rows_where(self, entity: Entity, column: str, values: Sequence[str]) -> pa.Table:
        """Return rows whose id or endpoint is one of the values, blobs as bytes."""

    def edge_ends(self, entity: EdgeType, column: str, values: Sequence[str]) -> pa.Table:
        """Return id, src and dst of edges with one of these endpoints."""


def ids_by_ends(base: Stored, edge: EdgeType, sources: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return the ids of the edges from some nodes, by both ends; of several the last one."""
    ends = base.edge_ends(edge, "src", sources)
    columns = (ends[name].to_pylist() for name in ("src", "dst", "id"))
    return {(src, dst): entity_id for src, dst, entity_id in zip(*columns, strict=True)}
