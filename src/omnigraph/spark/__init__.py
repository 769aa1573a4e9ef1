"""Loading and reading graphs on Spark. PySpark is imported when something is asked of it."""

from __future__ import annotations

from omnigraph.spark.load import load
from omnigraph.spark.read import edges, read, vertices
from omnigraph.spark.session import find_session, start_session
from omnigraph.spark.sources import Rows, Sources

__all__ = [
    "Rows",
    "Sources",
    "edges",
    "find_session",
    "load",
    "read",
    "start_session",
    "vertices",
]
