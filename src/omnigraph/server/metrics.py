"""What operators watch, in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from omnigraph.errors import ConflictError, OmniGraphError
from omnigraph.graph import Graph

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The counters of one server.

    Workers of one server count in files of a folder, `shared_in`: each of them can tell the sums,
    and what one has counted outlives it.
    """

    def __init__(self, *, shared_in: str | None = None) -> None:
        self._shared_in = shared_in
        self._watched: dict[str, Graph] = {}
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "omnigraph_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "omnigraph_request_seconds",
            "Time from the first byte asked to the last byte answered.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "omnigraph_requests_in_flight",
            "Requests being worked on.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._storage = Counter(
            "omnigraph_storage_operations",
            "Calls to storage, by kind of call and of request.",
            ("graph", "work", "operation"),
            registry=registry,
        )
        self._commits = Counter(
            "omnigraph_commits", "Commits made.", ("graph", "kind"), registry=registry
        )
        self._conflicts = Counter(
            "omnigraph_conflicts",
            "Writes refused for a conflict.",
            ("graph", "type"),
            registry=registry,
        )
        self._recoveries = Gauge(
            "omnigraph_recoveries",
            "Interrupted writes resolved so far.",
            ("graph",),
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self._cache_bytes = Gauge(
            "omnigraph_cache_bytes",
            "Memory of the read cache.",
            ("graph",),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._cache_reads = Gauge(
            "omnigraph_cache_reads",
            "Looks into the read cache so far.",
            ("graph", "outcome"),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._refused = Counter(
            "omnigraph_requests_refused",
            "Requests refused before any work.",
            ("reason",),
            registry=registry,
        )

    def answered(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def refused(self, reason: str) -> None:
        """Count a request that was turned away."""
        self._refused.labels(reason).inc()

    def storage(self, *, graph_id: str, work: str, io: Mapping[str, int]) -> None:
        """Add what a piece of work asked of storage."""
        for operation, number in io.items():
            self._storage.labels(graph_id, work, operation).inc(number)

    def committed(self, *, graph_id: str, kind: str) -> None:
        """Count a commit."""
        self._commits.labels(graph_id, kind).inc()

    def failed(self, *, graph_id: str, error: OmniGraphError) -> None:
        """Count a write that met another writer's."""
        if isinstance(error, ConflictError):
            self._conflicts.labels(graph_id, str(error.kind)).inc()

    def watch(self, graph_id: str, graph: Graph) -> None:
        """Read a graph's own numbers whenever a request asks for the metrics."""
        self._watched[graph_id] = graph
        if self._shared_in is not None:
            return  # A request cannot ask another process at that moment: each writes them down.
        about = graph.maintenance
        self._cache_bytes.labels(graph_id).set_function(lambda: about.cache_stats().size_bytes)
        hits = self._cache_reads.labels(graph_id, "hit")
        hits.set_function(lambda: about.cache_stats().hits)
        misses = self._cache_reads.labels(graph_id, "miss")
        misses.set_function(lambda: about.cache_stats().misses)
        self._recoveries.labels(graph_id).set_function(lambda: len(about.recoveries()))

    def refresh(self) -> None:
        """Write down what graphs hold in memory here, for those who ask another worker."""
        for graph_id, graph in self._watched.items():
            stats = graph.maintenance.cache_stats()
            self._cache_bytes.labels(graph_id).set(stats.size_bytes)
            self._cache_reads.labels(graph_id, "hit").set(stats.hits)
            self._cache_reads.labels(graph_id, "miss").set(stats.misses)

    def forget(self, graph_id: str) -> None:
        """Stop reading the numbers of a graph that is not served any more."""
        del self._watched[graph_id]
        for gauge, *labels in (
            (self._cache_bytes, graph_id),
            (self._cache_reads, graph_id, "hit"),
            (self._cache_reads, graph_id, "miss"),
            (self._recoveries, graph_id),
        ):
            if self._shared_in is None:
                gauge.remove(*labels)
            else:
                gauge.labels(*labels).set(0)  # What is in a file stays there.

    def render(self) -> bytes:
        """Return all of it as text."""
        if self._shared_in is None:
            return generate_latest(self._registry)
        self.refresh()
        for graph_id, graph in self._watched.items():
            self._recoveries.labels(graph_id).set(len(graph.maintenance.recoveries()))
        together = CollectorRegistry()
        MultiProcessCollector(together, self._shared_in)  # type: ignore[no-untyped-call]
        return generate_latest(together)
