"""What states and entities tell: of a graph that is open here, or served elsewhere."""

# Made from src/omnigraph/graph/entity_apis.py by `make client`: change that, not this.
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol

from omnigraph.values.commits import MAIN
from omnigraph.values.inspection import NEIGHBOURS_DEFAULT, VERSIONS_DEFAULT

if TYPE_CHECKING:
    from omnigraph.drawing import Drawing
    from omnigraph.graph.blobs import BlobStat
    from omnigraph.graph.result import Result
    from omnigraph.values.commits import GraphCommit, PublishedTable
    from omnigraph.values.inspection import EntityHistory, NeighbourPage, Subgraph
    from omnigraph.values.words import EntityKind


class AsyncPicturesApi(Protocol):
    """Pictures of a graph."""

    async def draw(
        self,
        what: Result | Subgraph | Iterable[Sequence[str]],
        *,
        neighbours: int = 0,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> Drawing:
        """Draw nodes and the edges between them."""


class AsyncSnapshotApi(Protocol):
    """A graph at one version. Never moves."""

    @property
    def branch(self) -> str:
        """The branch it is of."""

    @property
    def version(self) -> int:
        """The graph's version on that branch."""

    @property
    def commit(self) -> GraphCommit:
        """The commit that made it."""

    @property
    def graph_commit_id(self) -> str:
        """The id of that commit."""

    @property
    def internal_schema_version(self) -> int:
        """How the graph is stored."""

    @property
    def tables(self) -> Mapping[str, PublishedTable]:
        """Its tables, each with the version that is published."""

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""

    async def query(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        **options: object,
    ) -> Result:
        """Run a read query on this snapshot, whatever was committed since; options of `query`."""


class AsyncBlobsApi(Protocol):
    """Reads blobs at a snapshot."""

    async def stat(
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

    async def open(
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


class AsyncEntitiesApi(Protocol):
    """Single nodes and edges of a graph, and what is around them."""

    async def neighbours(
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

    async def history(
        self, type_name: str, id: str, branch: str = MAIN, *, limit: int = VERSIONS_DEFAULT
    ) -> EntityHistory:
        """Return the changes of an entity on a branch, newest first, with who made them."""

    async def subgraph(
        self,
        nodes: Iterable[Sequence[str]] | Result,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> Subgraph:
        """Return some nodes, each given as type and id, and all edges between them."""
