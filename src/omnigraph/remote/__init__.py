"""The client: a served graph, used like one that is opened."""

from __future__ import annotations

from omnigraph.limits import CLIENT_TIMEOUT_S
from omnigraph.remote.graph import RemoteGraph


def connect(
    url: str,
    *,
    graph: str | None = None,
    token: str | None = None,
    timeout: float = CLIENT_TIMEOUT_S,
) -> RemoteGraph:
    """Return a graph of a server; nothing is sent before the first call.

    Args:
        url: Address of the server.
        graph: Id of the graph; None on a server that serves one.
        token: Bearer token; it decides who the commits are by.
        timeout: How long to wait for an answer, in seconds.
    """
    return RemoteGraph(url, graph=graph, token=token, timeout=timeout)


__all__ = ["RemoteGraph", "connect"]
