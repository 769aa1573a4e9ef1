"""What can be asked about single entities: of a graph that is open here, or served elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol

from omnigraph.values.commits import MAIN
from omnigraph.values.inspection import NEIGHBOURS_DEFAULT, VERSIONS_DEFAULT

if TYPE_CHECKING:
    from omnigraph.graph.blobs import BlobStat
    from omnigraph.graph.result import Result
    from omnigraph.values.inspection import EntityHistory, NeighbourPage, Subgraph
    from omnigraph.values.words import EntityKind


class BlobsApi(Protocol):
    """Reads blobs at a snapshot."""

    def stat(
        self,
        kind: EntityKind,
        type_name: str,
        id: str,
        prop: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
    ) -> BlobStat:
        """Describe a blob."""

    def open(
        self,
        kind: EntityKind,
        type_name: str,
        id: str,
        prop: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
    ) -> BinaryIO:
        """Open a blob as a binary file."""


class EntitiesApi(Protocol):
    """Single nodes and edges of a graph, and what is around them."""

    def neighbours(
        self,
        type_name: str,
        id: str,
        *,
        edge: str | None = None,
        direction: str | None = None,
        limit: int = NEIGHBOURS_DEFAULT,
        page_token: str | None = None,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> NeighbourPage:
        """Return how many edges a node has by type and direction, and a page of its neighbours."""

    def history(
        self, type_name: str, id: str, branch: str = MAIN, *, limit: int = VERSIONS_DEFAULT
    ) -> EntityHistory:
        """Return the changes of an entity on a branch, newest first, with who made them."""

    def subgraph(
        self,
        nodes: Iterable[Sequence[str]] | Result,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> Subgraph:
        """Return some nodes, each given as type and id, and all edges between them."""
