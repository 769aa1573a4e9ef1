"""What writes and snapshots return, under the names they are imported by."""

from __future__ import annotations

from omnigraph.values.commits import Snapshot
from omnigraph.values.results import LoadResult, MutationResult

__all__ = ["LoadResult", "MutationResult", "Snapshot"]
