"""A running server's parts, and how it comes to have them."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

import msgspec

from omnigraph.cluster import ServedGraph as ClusterGraph
from omnigraph.cluster import read_cluster
from omnigraph.commits import MAIN, GraphCommit
from omnigraph.embed import Embedder, embedder_from
from omnigraph.errors import BadRequestError, OmniGraphError
from omnigraph.graph import Graph, GroupWrites, Upkeep, open_graph
from omnigraph.graph.seam import domain, limit_cache, limit_queries, note_commits
from omnigraph.identity import Tokens
from omnigraph.policy import Policy, ServerState, load_policy, policy_for, server_state
from omnigraph.server.admission import Admission
from omnigraph.server.graphs import ServedGraph, ServedGraphs
from omnigraph.server.large_queries import LargeQueries
from omnigraph.server.logs import log
from omnigraph.server.metrics import Metrics
from omnigraph.server.peers import Peers
from omnigraph.server.result_files import ResultFiles
from omnigraph.server.settings import Settings
from omnigraph.server.stored import stored_in
from omnigraph.server.threads import Threads
from omnigraph.values.words import DurabilityWord
from omnigraph.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What is served, and to whom. A reload replaces all of it at once."""

    graphs: ServedGraphs
    tokens: Tokens
    state: ServerState
    policy: Policy
    """Decides about the server itself; every graph has its own."""
    digest: str | None = None
    """Digest of the cluster's applied configuration."""
    revision: int | None = None
    cas: str | None = None


@dataclass(slots=True, kw_only=True)
class Service:
    """Everything requests share."""

    settings: Settings
    serving: Serving
    env: Mapping[str, str] = field(default_factory=dict)
    given_policy: Policy | None = None
    """A policy that was handed over as it is, not named by the settings."""
    version: str = __version__
    draining: bool = False
    metrics: Metrics = field(default_factory=Metrics)
    threads: Threads = field(init=False)
    admission: Admission = field(init=False)
    reading: Admission = field(init=False)
    files: ResultFiles = field(init=False)
    large: LargeQueries | None = field(init=False)
    """Runs what needs much memory; None where such queries are refused."""
    peers: Peers | None = None
    """The other workers, if there are any."""
    tells_commits: bool = False
    """Whether another worker does the upkeep, and is told of the commits of this one."""
    _busy: int = 0
    _noted: Counter[tuple[str, str]] = field(default_factory=Counter)
    _retired: list[Graph] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _reloading: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.threads = Threads(reads=self.settings.threads, writes=self.settings.write_threads)
        self.admission = Admission(
            writes_max=self.settings.actor_writes_max,
            bytes_max=self.settings.actor_bytes_max,
            queue_max=self.settings.actor_queue_max,
            wait_s=self.settings.actor_wait_seconds,
        )
        # However many reads one actor sends, a thread is left to those of others.
        reads_max = min(self.settings.actor_reads_max, self.settings.threads - 1)
        self.reading = Admission(
            writes_max=max(1, reads_max),
            bytes_max=self.settings.actor_bytes_max,
            queue_max=self.settings.actor_queue_max,
            wait_s=self.settings.actor_wait_seconds,
            noun="read",
        )
        self.files = ResultFiles(self.settings.result_files_bytes_max)
        self.large = None
        if self.settings.large_queries_max:
            self.large = LargeQueries(
                processes=self.settings.large_queries_max,
                bytes_max=self.settings.large_query_bytes_max,
                files=self.files,
            )
        self._watch({})

    def _watch(self, before: Mapping[str, Graph]) -> None:
        """Let the metrics follow the graphs that are served now."""
        after = {item.graph_id: item.graph for item in self.serving.graphs.all()}
        for graph_id in before.keys() - after.keys():
            self.metrics.forget(graph_id)
        for graph_id, graph in after.items():
            if before.get(graph_id) is not graph:
                self.metrics.watch(graph_id, graph)

    def enter(self) -> bool:
        """Take a place for a request; False when there is none left."""
        with self._lock:
            if self._busy >= self.settings.requests_max:
                return False
            self._busy += 1
        self.metrics.in_flight.inc()
        return True

    def leave(self) -> None:
        """Give a place back; with no request left, graphs that are served no more are closed."""
        with self._lock:
            self._busy -= 1
            idle = self._retired if self._busy == 0 else []
            if idle:
                self._retired = []
        for graph in idle:
            graph.close()
        self.metrics.in_flight.dec()

    def committed(self, graph_id: str, commit: GraphCommit) -> None:
        """Count a commit that was made here."""
        self.metrics.committed(graph_id=graph_id, kind=commit.kind)
        if self.tells_commits:
            with self._lock:
                self._noted[graph_id, commit.branch or MAIN] += 1

    def take_noted(self) -> list[tuple[str, str, int]]:
        """Return how many commits branches of graphs got here since this was asked last."""
        with self._lock:
            counts, self._noted = self._noted, Counter()
        return [(*key, number) for key, number in counts.items()]

    def keep_noted(self, commits: Iterable[tuple[str, str, int]]) -> None:
        """Take commits back that could not be told."""
        with self._lock:
            for graph_id, branch, number in commits:
                self._noted[graph_id, branch] += number

    def note(self, commits: Iterable[tuple[str, str, int]]) -> None:
        """Count commits that other workers made, for the upkeep of their graphs."""
        served = {item.graph_id: item.graph for item in self.serving.graphs.all()}
        for graph_id, branch, number in commits:
            if graph_id in served:
                note_commits(served[graph_id], branch, number)

    def reload(self, tokens: Tokens) -> None:
        """Serve what is there now: other tokens, policies, stored queries, graphs of the cluster.

        Requests under way keep what they began with. Raises what a server must not start with;
        then all stays as it was.
        """
        with self._reloading:
            before = {item.graph_id: item.graph for item in self.serving.graphs.all()}
            known = {item.identity: item.graph for item in self.serving.graphs.all()}
            serving = _read(self.settings, tokens, self.env, self.given_policy, known)
            self.serving = serving
            self._watch(before)
            kept = {id(item.graph) for item in serving.graphs.all()}
            with self._lock:
                self._retired += [graph for graph in before.values() if id(graph) not in kept]
            # They are closed here if no request is there to do it.
            if self.enter():
                self.leave()

    def close(self) -> None:
        """Close the graphs."""
        self.threads.close()
        if self.large is not None:
            self.large.close()
        self.files.close()
        self.serving.graphs.close()
        for graph in self._retired:
            graph.close()


def open_service(
    settings: Settings,
    tokens: Tokens,
    env: Mapping[str, str],
    *,
    policy: Policy | None = None,
    metrics: Metrics | None = None,
) -> Service:
    """Open what the settings name. Raises what a server must not start with."""
    serving = _read(settings, tokens, env, policy, {})
    return Service(
        settings=settings,
        serving=serving,
        env=env,
        given_policy=policy,
        metrics=metrics or Metrics(),
    )


Known = Mapping[tuple[object, ...], Graph]


def _read(
    settings: Settings,
    tokens: Tokens,
    env: Mapping[str, str],
    policy: Policy | None,
    known: Known,
) -> Serving:
    """Return what the settings name; graphs that are open already stay open."""
    if settings.cluster is not None:
        return _read_cluster(settings, tokens, env, known)
    if policy is None and settings.policy is not None:
        policy = load_policy(settings.policy)
    state = server_state(
        tokens=len(tokens) > 0,
        policy=policy is not None,
        unauthenticated=settings.unauthenticated,
    )
    decides = policy_for(state, policy)
    graph = next(iter(known.values()), None)
    if graph is None:
        graph = open_one(str(settings.store), settings, env, embedder_from(env))
    queries = {}
    if settings.queries is not None:
        queries = stored_in(settings.queries, graph.catalog)
    served = ServedGraph(
        graph_id=settings.graph_id,
        graph=graph,
        policy=decides,
        key_seconds=settings.key_seconds,
        queries=queries,
    )
    return Serving(
        graphs=ServedGraphs([served], default_id=settings.graph_id),
        tokens=tokens,
        state=state,
        policy=decides,
    )


def open_one(
    uri: str, settings: Settings, env: Mapping[str, str], embedder: Embedder | None
) -> Graph:
    """Open one graph the way servers do."""
    upkeep = Upkeep(keep=settings.retain_versions, older_than_s=settings.retain_seconds)
    graph = open_graph(
        uri,
        mode="ro" if settings.read_only else "rw",
        durability=cast("DurabilityWord", env.get("OMNIGRAPH_DURABILITY", "full")),
        embedder=embedder,
        upkeep=upkeep if settings.upkeep else False,
        group_writes=_grouping(settings),
    )
    limit_cache(graph, settings.cache_bytes_max)
    limit_queries(graph, settings.small_query_bytes_max)
    return graph


def _grouping(settings: Settings) -> GroupWrites | bool:
    names = (name.strip() for name in settings.ungrouped_actors.split(","))
    never = frozenset(name for name in names if name)
    return GroupWrites(never_for=never) if settings.group_writes else False


def _read_cluster(
    settings: Settings, tokens: Tokens, env: Mapping[str, str], known: Known
) -> Serving:
    """Return every graph that was applied; one that cannot be served is left out and reported."""
    cluster = read_cluster(str(settings.cluster))
    state = server_state(
        tokens=len(tokens) > 0,
        policy=cluster.has_policy,
        unauthenticated=settings.unauthenticated,
    )
    served: list[ServedGraph] = []
    quarantined: list[str] = []
    try:
        for graph_id, cluster_graph in cluster.graphs.items():
            try:
                graph, identity = _graph_of(cluster_graph, settings, env, known)
            except OmniGraphError as error:
                if settings.require_all_graphs:
                    raise
                _quarantine(graph_id, error)
                quarantined.append(graph_id)
                continue
            served.append(
                ServedGraph(
                    graph_id=graph_id,
                    graph=graph,
                    policy=policy_for(state, cluster_graph.policy),
                    key_seconds=settings.key_seconds,
                    queries=cluster_graph.queries,
                    schema_is_managed=True,
                    identity=identity,
                )
            )
        if not served:
            raise BadRequestError(
                f"the cluster {settings.cluster} has no graph that can be served",
                hint="run `omnigraph cluster status`",
            )
    except BaseException:
        for item in served:
            if item.identity not in known:
                item.graph.close()
        raise
    return Serving(
        graphs=ServedGraphs(served, quarantined=quarantined),
        tokens=tokens,
        state=state,
        policy=policy_for(state, cluster.policy),
        digest=cluster.config_digest,
        revision=cluster.state_revision,
        cas=cluster.state_cas,
    )


def _graph_of(
    cluster_graph: ClusterGraph, settings: Settings, env: Mapping[str, str], known: Known
) -> tuple[Graph, tuple[object, ...]]:
    """Return a graph of the cluster and what tells it from others of its name."""
    if cluster_graph.problems:
        raise BadRequestError("\n".join(item.render() for item in cluster_graph.problems))
    about = (
        cluster_graph.uri,
        None if cluster_graph.provider is None else msgspec.json.encode(cluster_graph.provider),
    )
    for (*same, known_domain), graph in known.items():
        # A graph that was removed and made again lies in the same place.
        if tuple(same) == about and _domain(cluster_graph.uri) == known_domain:
            return graph, (*about, known_domain)
    graph = open_one(cluster_graph.uri, settings, env, cluster_graph.embedder(env))
    return graph, (*about, domain(graph))


def _domain(uri: str) -> str:
    """Return what tells a graph from every other one."""
    with open_graph(uri, mode="ro") as graph:
        return domain(graph)


def _quarantine(graph_id: str, error: OmniGraphError) -> None:
    log(
        "graph quarantined",
        level=logging.WARNING,
        graph=graph_id,
        error_type=str(error.kind),
        reason=error.message,
    )
