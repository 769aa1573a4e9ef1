"""The Python API: open a graph, write to it, read it."""

from __future__ import annotations

from omnigraph.commits.grouping import GroupWrites
from omnigraph.graph.api import GraphApi
from omnigraph.graph.blobs import Blobs, BlobStat, blob_range
from omnigraph.graph.changes import Diff
from omnigraph.graph.create import init, open_graph, restore
from omnigraph.graph.graph import Graph
from omnigraph.graph.history import Commits
from omnigraph.graph.result import Result
from omnigraph.graph.results import LoadResult, MutationResult, Snapshot
from omnigraph.graph.session import Session
from omnigraph.graph.upkeep import Caretaker, Upkeep
from omnigraph.graph.view import BranchView
from omnigraph.intake.declared import Rows
from omnigraph.intake.mapping import read_mapping
from omnigraph.ops.dump import DumpReport
from omnigraph.ops.indexing import PendingIndex
from omnigraph.ops.merge.merging import MergePlan, MergeResult

__all__ = [
    "BlobStat",
    "Blobs",
    "BranchView",
    "Caretaker",
    "Commits",
    "Diff",
    "DumpReport",
    "Graph",
    "GraphApi",
    "GroupWrites",
    "LoadResult",
    "MergePlan",
    "MergeResult",
    "MutationResult",
    "PendingIndex",
    "Result",
    "Rows",
    "Session",
    "Snapshot",
    "Upkeep",
    "blob_range",
    "init",
    "open_graph",
    "read_mapping",
    "restore",
]
