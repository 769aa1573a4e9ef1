"""The client: a served graph, used like one that is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

from omnigraph.errors import BadRequestError
from omnigraph.limits import CLIENT_RETRIES, CLIENT_TIMEOUT_S
from omnigraph.remote.graph import RemoteGraph

if TYPE_CHECKING:
    from omnigraph.embed import Embedder
    from omnigraph.graph import Graph
    from omnigraph.store import Durability
    from omnigraph.values.words import DurabilityWord


@overload
def connect(
    place: str,
    *,
    graph: str | None = None,
    token: str | None = None,
    timeout: float = ...,
    retries: int = ...,
) -> RemoteGraph: ...


@overload
def connect(
    place: str | os.PathLike[str],
    *,
    schema: str | os.PathLike[str],
    actor: str | None = None,
    durability: Durability | DurabilityWord = ...,
    embedder: Embedder | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Graph: ...


def connect(
    place: str | os.PathLike[str],
    *,
    schema: str | os.PathLike[str] | None = None,
    graph: str | None = None,
    token: str | None = None,
    timeout: float = CLIENT_TIMEOUT_S,
    retries: int = CLIENT_RETRIES,
    **options: Any,
) -> RemoteGraph | Graph:
    """Return a graph: one of a server, or one on storage, which is created if it is not there.

    >>> graph = og.connect("people.omni", schema="node Person { name: String @key }")
    >>> served = og.connect("http://127.0.0.1:8080", token="...")

    Args:
        place: Address of a server, or, with `schema`, a path or bucket.
        schema: Schema text or `.pg` file that the graph has, or gets when it is created. A graph
            with another schema is refused.
        graph: Id of the server's graph; None on a server that serves one.
        token: Bearer token of the server; it decides who the commits are by.
        timeout: How long to wait for an answer of the server, in seconds.
        retries: How often a request is sent again to a server that is busy, or hung up; a write
            still happens once.
        options: For storage: `actor`, `durability`, `embedder`, `storage_options`, as for `open`.

    Of a server nothing is asked before the first call.
    """
    text = os.fspath(place)
    if text.startswith(("http://", "https://")):
        if schema is not None or options:
            given = ", ".join([*(["schema"] if schema is not None else []), *options])
            raise BadRequestError(f"{given}: a server's graph has its own", hint="leave it out")
        return RemoteGraph(text, graph=graph, token=token, timeout=timeout, retries=retries)
    if schema is None:
        raise BadRequestError(
            f"{text!r} is not a server address, and no schema is given",
            hint=f"og.open({text!r}) opens a graph; with schema=... it is created if absent",
        )
    if graph is not None or token is not None:
        raise BadRequestError("graph and token are for servers", hint="leave them out")
    from omnigraph.graph.create import open_or_create

    return open_or_create(place, schema, **options)


__all__ = ["RemoteGraph", "connect"]
