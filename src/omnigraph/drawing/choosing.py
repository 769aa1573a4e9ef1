"""Which nodes a picture is of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from omnigraph.errors import BadRequestError
from omnigraph.limits import DRAWN_NODES_MAX
from omnigraph.values.inspection import NeighbourPage, PictureNode, Subgraph


def drawn_state(
    what: object,
    branch: str | None,
    commit: str | None,
    version: int | None,
    tag: str | None,
) -> dict[str, Any]:
    """Return the state to look at: that of a query's answer, unless another one is named."""
    named = {"branch": branch, "commit": commit, "version": version, "tag": tag}
    given = {name: value for name, value in named.items() if value is not None}
    if isinstance(what, str | bytes):
        raise BadRequestError("what to draw is a list of nodes, each as type and id")
    if isinstance(what, Subgraph):
        if given:
            raise BadRequestError("a subgraph is of its own state", hint="name no other one")
        return {}
    answered = getattr(what, "commit_id", None)
    return given if given or answered is None else {"commit": str(answered)}


def drawn_first(picture: Subgraph) -> Sequence[PictureNode]:
    """Return the nodes that a picture has room for."""
    return picture.nodes[:DRAWN_NODES_MAX]


def with_neighbours(picture: Subgraph, pages: Iterable[NeighbourPage]) -> list[tuple[str, str]]:
    """Return nodes and their neighbours, each once."""
    nodes = [(item.type, item.id) for item in picture.nodes]
    nodes += [(item.type, item.id) for page in pages for item in page.neighbours]
    return list(dict.fromkeys(nodes))
