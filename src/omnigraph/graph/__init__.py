"""The Python API: open a graph, write to it, read it."""

from __future__ import annotations

from omnigraph.graph.changes import Diff
from omnigraph.graph.create import init, open_graph
from omnigraph.graph.graph import Graph
from omnigraph.graph.history import Commits
from omnigraph.graph.merging import MergePlan, MergeResult
from omnigraph.graph.result import Result
from omnigraph.graph.results import LoadResult, MutationResult, Snapshot
from omnigraph.graph.view import BranchView

__all__ = [
    "BranchView",
    "Commits",
    "Diff",
    "Graph",
    "LoadResult",
    "MergePlan",
    "MergeResult",
    "MutationResult",
    "Result",
    "Snapshot",
    "init",
    "open_graph",
]
