"""Queries on Spark: read plans as frames, with the answers of the local engine."""

from __future__ import annotations

from omnigraph.spark.queries.result import SparkResult
from omnigraph.spark.queries.run import query

__all__ = ["SparkResult", "query"]
