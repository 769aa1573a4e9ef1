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

from omnigraph.errors import ConflictError, OmniGraphError
from omnigraph.graph import Graph

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
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
            "omnigraph_requests_in_flight", "Requests being worked on.", registry=registry
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
        )
        self._cache_bytes = Gauge(
            "omnigraph_cache_bytes", "Memory of the read cache.", ("graph",), registry=registry
        )
        self._cache_reads = Gauge(
            "omnigraph_cache_reads",
            "Looks into the read cache so far.",
            ("graph", "outcome"),
            registry=registry,
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
        """Count a write that met somebody else's."""
        if isinstance(error, ConflictError):
            self._conflicts.labels(graph_id, str(error.kind)).inc()

    def watch(self, graph_id: str, graph: Graph) -> None:
        """Read a graph's own numbers whenever somebody looks."""
        about = graph.maintenance
        self._cache_bytes.labels(graph_id).set_function(lambda: about.cache_stats().size_bytes)
        hits = self._cache_reads.labels(graph_id, "hit")
        hits.set_function(lambda: about.cache_stats().hits)
        misses = self._cache_reads.labels(graph_id, "miss")
        misses.set_function(lambda: about.cache_stats().misses)
        self._recoveries.labels(graph_id).set_function(lambda: len(about.recoveries()))

    def forget(self, graph_id: str) -> None:
        """Stop reading the numbers of a graph that is not served any more."""
        for gauge, *labels in (
            (self._cache_bytes, graph_id),
            (self._cache_reads, graph_id, "hit"),
            (self._cache_reads, graph_id, "miss"),
            (self._recoveries, graph_id),
        ):
            gauge.remove(*labels)

    def render(self) -> bytes:
        """Return all of it as text."""
        return generate_latest(self._registry)
