"""Executes read plans on immutable snapshots: scans, traversals, grouping, order."""

from __future__ import annotations

from omnigraph.read.execute import Fetch, Reader

__all__ = ["Fetch", "Reader"]
