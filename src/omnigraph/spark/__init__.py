"""Loading and reading graphs on Spark. PySpark is imported when something is asked of it."""

from __future__ import annotations

from omnigraph.intake.declared import Rows, Sources
from omnigraph.spark.analytics import (
    connected_components,
    label_propagation,
    pagerank,
    shortest_paths,
    triangle_count,
    write_property,
)
from omnigraph.spark.diff import diff
from omnigraph.spark.export import export
from omnigraph.spark.load import load, write, write_batches
from omnigraph.spark.maintain import optimize
from omnigraph.spark.merge import merge
from omnigraph.spark.queries import SparkResult, query
from omnigraph.spark.read import edges, read, vertices
from omnigraph.spark.session import (
    find_session,
    is_configured,
    register_active,
    registered,
    start_session,
)
from omnigraph.spark.tasks import Tuning

__all__ = [
    "Rows",
    "Sources",
    "SparkResult",
    "Tuning",
    "connected_components",
    "diff",
    "edges",
    "export",
    "find_session",
    "is_configured",
    "label_propagation",
    "load",
    "merge",
    "optimize",
    "pagerank",
    "query",
    "read",
    "registered",
    "shortest_paths",
    "start_session",
    "triangle_count",
    "vertices",
    "write",
    "write_batches",
    "write_property",
]

register_active()
