"""A graph seen through one branch."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.graph.changes import Diff
from omnigraph.graph.merging import MergePlan, MergeResult
from omnigraph.graph.result import Result
from omnigraph.graph.results import LoadResult, MutationResult, Snapshot
from omnigraph.manifest import MAIN, GraphCommit

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph


class BranchView:
    """The data methods of a graph, on one branch."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name

    def __repr__(self) -> str:
        return f"BranchView({self.graph.uri!r}, {self.name!r})"

    def query(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        version: int | None = None,
        timestamp: datetime.datetime | str | None = None,
    ) -> Result:
        """Run a read query on the branch, now or in its past."""
        return self.graph.query(
            source, params, name=name, branch=self.name, version=version, timestamp=timestamp
        )

    def mutate(
        self, source: str, params: Mapping[str, object] | None = None, **options: Any
    ) -> MutationResult:
        """Run a mutation on the branch; options as for `Graph.mutate`."""
        return self.graph.mutate(source, params, branch=self.name, **options)

    def load(
        self,
        data: str | os.PathLike[str] | bytes | Iterable[Mapping[str, object]],
        *,
        mode: str,
        **options: Any,
    ) -> LoadResult:
        """Load into the branch; options as for `Graph.load`."""
        return self.graph.load(data, mode=mode, branch=self.name, **options)

    def load_table(self, type_name: str, table: Any, *, mode: str, **options: Any) -> LoadResult:
        """Load a frame into the branch; options as for `Graph.load_table`."""
        return self.graph.load_table(type_name, table, mode=mode, branch=self.name, **options)

    def export(
        self, dest: str | os.PathLike[str] | None = None, *, types: Iterable[str] = ()
    ) -> Iterator[dict[str, object]] | int:
        """Export the branch, as `Graph.export` does."""
        return self.graph.export(dest, branch=self.name, types=types)

    def snapshot(self, *, version: int | None = None) -> Snapshot:
        """Return the branch's newest snapshot, or one of its past."""
        return self.graph.snapshot(self.name, version=version)

    def commits(self, *, limit: int | None = None) -> list[GraphCommit]:
        """Return the branch's commits, newest first."""
        return self.graph.commits.list(self.name, limit=limit)

    def head(self) -> GraphCommit:
        """Return the branch's newest commit."""
        return self.graph.commits.head(self.name)

    def diff(self, other: str | int = MAIN) -> Diff:
        """Return what the branch changes compared with another state."""
        return self.graph.diff(other, self.name)

    def merge_plan(self, into: str = MAIN, **options: Any) -> MergePlan:
        """Preview merging the branch into another."""
        return self.graph.branches.merge_plan(self.name, into, **options)

    def merge(self, into: str = MAIN, **options: Any) -> MergeResult:
        """Merge the branch into another; options as for `Branches.merge`."""
        return self.graph.branches.merge(self.name, into, **options)

    def delete(self) -> None:
        """Delete the branch."""
        self.graph.branches.delete(self.name)
