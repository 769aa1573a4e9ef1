"""A running server's parts, and how it comes to have them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from omnigraph import __version__
from omnigraph.cluster import read_cluster
from omnigraph.embed import embedder_from
from omnigraph.errors import BadRequestError, OmniGraphError
from omnigraph.graph import Graph, open_graph
from omnigraph.policy import Policy, ServerState, load_policy, policy_for, server_state
from omnigraph.server.admission import Admission
from omnigraph.server.graphs import ServedGraph, ServedGraphs
from omnigraph.server.identity import Tokens
from omnigraph.server.logs import log
from omnigraph.server.metrics import Metrics
from omnigraph.server.settings import Settings
from omnigraph.server.stored import stored_in
from omnigraph.server.threads import Threads


@dataclass(slots=True, kw_only=True)
class Service:
    """Everything requests share."""

    settings: Settings
    graphs: ServedGraphs
    tokens: Tokens
    state: ServerState
    policy: Policy
    """Decides about the server itself; every graph has its own."""
    digest: str | None = None
    """Digest of the cluster's applied configuration."""
    revision: int | None = None
    cas: str | None = None
    version: str = __version__
    draining: bool = False
    metrics: Metrics = field(default_factory=Metrics)
    threads: Threads = field(init=False)
    admission: Admission = field(init=False)
    _busy: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.threads = Threads(self.settings.threads)
        self.admission = Admission(
            writes_max=self.settings.actor_writes_max, bytes_max=self.settings.actor_bytes_max
        )
        for item in self.graphs.all():
            self.metrics.watch(item.graph_id, item.graph)

    def enter(self) -> bool:
        """Take a place for a request; False when there is none left."""
        with self._lock:
            if self._busy >= self.settings.requests_max:
                return False
            self._busy += 1
        self.metrics.in_flight.inc()
        return True

    def leave(self) -> None:
        """Give a place back."""
        with self._lock:
            self._busy -= 1
        self.metrics.in_flight.dec()

    def close(self) -> None:
        """Close the graphs."""
        self.graphs.close()


def open_service(
    settings: Settings, tokens: Tokens, env: Mapping[str, str], *, policy: Policy | None = None
) -> Service:
    """Open what the settings name. Raises what a server must not start with."""
    if settings.cluster is not None:
        return _open_cluster(settings, tokens, env)
    if policy is None and settings.policy is not None:
        policy = load_policy(settings.policy)
    state = server_state(
        tokens=len(tokens) > 0,
        policy=policy is not None,
        unauthenticated=settings.unauthenticated,
    )
    decides = policy_for(state, policy)
    graph = open_one(str(settings.store), env)
    queries = {}
    if settings.queries is not None:
        queries = stored_in(settings.queries, graph.catalog)
    served = ServedGraph(graph_id=settings.graph_id, graph=graph, policy=decides, queries=queries)
    return Service(
        settings=settings,
        graphs=ServedGraphs([served], default_id=settings.graph_id),
        tokens=tokens,
        state=state,
        policy=decides,
    )


def open_one(uri: str, env: Mapping[str, str]) -> Graph:
    """Open one graph the way servers do."""
    return open_graph(
        uri, durability=env.get("OMNIGRAPH_DURABILITY", "full"), embedder=embedder_from(env)
    )


def _open_cluster(settings: Settings, tokens: Tokens, env: Mapping[str, str]) -> Service:
    """Open every graph that was applied; one that cannot be served is left out and reported."""
    cluster = read_cluster(str(settings.cluster))
    state = server_state(
        tokens=len(tokens) > 0,
        policy=cluster.has_policy,
        unauthenticated=settings.unauthenticated,
    )
    served: list[ServedGraph] = []
    quarantined: list[str] = []
    for graph_id, found in cluster.graphs.items():
        try:
            if found.problems:
                raise BadRequestError("\n".join(item.render() for item in found.problems))
            graph = open_one(found.uri, env)
        except OmniGraphError as error:
            if settings.require_all_graphs:
                _close(served)
                raise
            log(
                "graph quarantined",
                level=logging.WARNING,
                graph=graph_id,
                error_type=str(error.kind),
                reason=error.message,
            )
            quarantined.append(graph_id)
            continue
        served.append(
            ServedGraph(
                graph_id=graph_id,
                graph=graph,
                policy=policy_for(state, found.policy),
                queries=found.queries,
                schema_is_managed=True,
            )
        )
    if not served:
        raise BadRequestError(
            f"the cluster {settings.cluster} has no graph that can be served",
            hint="run `omnigraph cluster status`",
        )
    return Service(
        settings=settings,
        graphs=ServedGraphs(served, quarantined=quarantined),
        tokens=tokens,
        state=state,
        policy=policy_for(state, cluster.policy),
        digest=cluster.config_digest,
        revision=cluster.state_revision,
        cas=cluster.state_cas,
    )


def _close(served: Iterable[ServedGraph]) -> None:
    for item in served:
        item.graph.close()
