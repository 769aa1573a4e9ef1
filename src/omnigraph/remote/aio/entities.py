"""Single entities of a served graph."""

# Made from src/omnigraph/remote/entities.py by `make client`: change that, not this.
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from omnigraph.drawing import Drawing, draw_subgraph, drawn_first, drawn_state, with_neighbours
from omnigraph.errors import BadRequestError
from omnigraph.remote.aio.connection import AsyncConnection
from omnigraph.remote.connection import Json, state_fields
from omnigraph.remote.entities import _pairs
from omnigraph.values.commits import MAIN
from omnigraph.values.inspection import (
    NEIGHBOURS_DEFAULT,
    NEIGHBOURS_MAX,
    VERSIONS_DEFAULT,
    EntityHistory,
    NeighbourPage,
    Subgraph,
)

if TYPE_CHECKING:
    from omnigraph.graph import Result


class AsyncRemoteEntities:
    """Single nodes and edges of a served graph, and what is around them."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

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
        if not 0 <= limit <= NEIGHBOURS_MAX:
            raise BadRequestError(f"limit must be 0 to {NEIGHBOURS_MAX}, not {limit}")
        if direction not in (None, "out", "in"):
            raise BadRequestError(f"direction must be out or in, not {direction!r}")
        params: Json = {"type": type_name, "id": id, "edge": edge, "direction": direction}
        params |= {"limit": limit, "page_token": page_token}
        params |= {"branch": branch, "commit": commit, "version": version, "tag": tag}
        return NeighbourPage.from_json(await self._connection.get("/neighbours", params))

    async def history(
        self, type_name: str, id: str, branch: str = MAIN, *, limit: int = VERSIONS_DEFAULT
    ) -> EntityHistory:
        """Return the changes of an entity on a branch, newest first, with who made them."""
        if limit < 1:
            raise BadRequestError(f"limit must be at least 1, not {limit}")
        params: Json = {"type": type_name, "id": id, "branch": branch, "limit": limit}
        return EntityHistory.from_json(await self._connection.get("/entity/history", params))

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
        named = _pairs(nodes)
        body = state_fields(branch, commit, version, tag, None) | {"nodes": [*map(list, named)]}
        return Subgraph.from_json((await self._connection.post("/subgraph", body)).json())


class AsyncRemotePictures:
    """Pictures of a served graph, made here."""

    entities: AsyncRemoteEntities

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
        """Draw nodes and the edges between them; a notebook shows the picture."""
        at = drawn_state(what, branch, commit, version, tag)
        picture = what if isinstance(what, Subgraph) else await self.entities.subgraph(what, **at)
        if neighbours > 0:
            at = {"commit": picture.graph_commit_id}
            pages = [
                await self.entities.neighbours(item.type, item.id, limit=neighbours, **at)
                for item in drawn_first(picture)
            ]
            picture = await self.entities.subgraph(with_neighbours(picture, pages), **at)
        return draw_subgraph(picture)
