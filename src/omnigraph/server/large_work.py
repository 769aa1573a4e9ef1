"""Runs large queries in a process of their own, for the server that started it."""

from __future__ import annotations

import contextlib
import os
import resource

from omnigraph.errors import OmniGraphError, ResourceLimitError
from omnigraph.graph import Graph, open_graph
from omnigraph.graph.seam import limit_queries
from omnigraph.limits import LARGE_PROCESS_BYTES, LARGE_QUERY_NICE, LARGE_QUERY_TABLES, QUERY_MEMORY
from omnigraph.server.large_jobs import Job, Refused, Reply, Rows
from omnigraph.server.result_files import write_result
from omnigraph.store import reaching

OPEN_MAX = 4
"""Graphs kept open; a server of a cluster has many."""


def stand_back(bytes_max: int) -> None:
    """Leave the processor to others, and hold so much memory at most."""
    with contextlib.suppress(OSError):
        os.nice(LARGE_QUERY_NICE)
    limit = bytes_max + LARGE_PROCESS_BYTES
    with contextlib.suppress(ValueError, OSError):
        # Refused where the process may have less already.
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


class LargeWork:
    """Runs one query after the other on graphs that stay open."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._graphs: dict[str, Graph] = {}

    def run(self, job: Job) -> Reply:
        """Return the answer, or why there is none."""
        try:
            return self._answered(job)
        except MemoryError:
            return Refused.of(too_large(self._bytes_max))
        except OmniGraphError as error:
            return Refused.of(error)

    def _answered(self, job: Job) -> Reply:
        graph = self._graph(job)
        asked = (job.source, job.params)
        if job.explain:
            return graph.explain(*asked, name=job.name, timeout=job.timeout_s, **job.state)
        result = graph.query(*asked, name=job.name, timeout=job.timeout_s, **job.state)
        write_result(result.to_arrow(), job.path)
        return Rows(
            query_name=result.query_name,
            commit_id=result.commit_id,
            target=dict(result.target),
            column_types=result.column_types,
        )

    def _graph(self, job: Job) -> Graph:
        graph = self._graphs.pop(job.uri, None)
        if graph is None:
            while len(self._graphs) >= OPEN_MAX:
                self._graphs.pop(next(iter(self._graphs))).close()
            with reaching(job.reach):
                graph = open_graph(job.uri, mode="ro", embedder=job.embedder)
            limit_queries(graph, self._bytes_max // LARGE_QUERY_TABLES)
        self._graphs[job.uri] = graph
        return graph


def too_large(bytes_max: int) -> ResourceLimitError:
    """Return what is told about a query that took all the memory it may take."""
    return ResourceLimitError(
        "the query needs more memory than a query may take on this server",
        resource=QUERY_MEMORY,
        limit=bytes_max,
        actual=bytes_max,
        hint="narrow the pattern, return fewer columns, or count instead of listing",
    )
