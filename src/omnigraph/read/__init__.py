"""Executes read plans on immutable snapshots: scans, traversals, grouping, order."""

from __future__ import annotations

from omnigraph.read.columns import CacheStats
from omnigraph.read.execute import Fetch, Reader
from omnigraph.read.running import QueryControl, Stage, out_of_time, watched

__all__ = ["CacheStats", "Fetch", "QueryControl", "Reader", "Stage", "out_of_time", "watched"]
