"""A graph seen through one branch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypedDict, Unpack

from omnigraph.commits import MAIN, GraphCommit
from omnigraph.graph.api import GraphApi, Loadable, Moment, Params, Path, SnapshotApi
from omnigraph.graph.changes import Diff
from omnigraph.graph.result import Result
from omnigraph.graph.results import LoadResult, MutationResult
from omnigraph.intake.declared import Given
from omnigraph.ops.load import LoadMode
from omnigraph.ops.merge.merging import MergePlan, MergeResult, Resolution
from omnigraph.values.words import ExportFormat, LoadWord


class WriteOptions(TypedDict, total=False):
    """What every write takes beside the data."""

    expected_head: str | None
    operation_id: str | None
    message: str | None
    dry_run: bool


class MutateOptions(WriteOptions, total=False):
    """Options of `Graph.mutate`."""

    name: str | None


class LoadOptions(WriteOptions, total=False):
    """Options of `Graph.load`."""

    create_from: str | None
    progress: Callable[[int], None] | None


class LoadTableOptions(WriteOptions, total=False):
    """Options of `Graph.load_table`."""

    from_col: str
    to_col: str


class PlanOptions(TypedDict, total=False):
    """Options of `Branches.merge_plan`."""

    resolve: Resolution | None
    property_merge: bool


class MergeOptions(PlanOptions, total=False):
    """Options of `Branches.merge`."""

    checks: Iterable[str]
    delete_source: bool
    expected_head: str | None
    operation_id: str | None
    message: str | None


class BranchView:
    """The data methods of a graph, on one branch.

    >>> dev = graph.branch("dev")
    >>> len(dev.diff().changes), dev.merge().outcome
    (1, 'fast_forward')
    """

    def __init__(self, graph: GraphApi, name: str) -> None:
        self.graph = graph
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.graph.uri!r}, {self.name!r})"

    def query(
        self,
        source: str,
        params: Params = None,
        *,
        name: str | None = None,
        version: int | None = None,
        timestamp: Moment = None,
    ) -> Result:
        """Run a read query on the branch, now or in its past.

        >>> graph.branch("dev").query(TASKS)[1]["title"]
        'Water'
        """
        return self.graph.query(
            source, params, name=name, branch=self.name, version=version, timestamp=timestamp
        )

    def mutate(
        self, source: str, params: Params = None, **options: Unpack[MutateOptions]
    ) -> MutationResult:
        """Run a mutation on the branch; options as for `Graph.mutate`.

        >>> graph.branch("dev").mutate(RENAME, {"slug": "t1", "title": "Mow"}).affected_nodes
        1
        """
        return self.graph.mutate(source, params, branch=self.name, **options)

    def load(
        self, data: Loadable, *, mode: LoadMode | LoadWord, **options: Unpack[LoadOptions]
    ) -> LoadResult:
        """Load into the branch; options as for `Graph.load`.

        >>> row = {"type": "Person", "data": {"name": "cy"}}
        >>> graph.branch("dev").load([row], mode="append").branch
        'dev'
        """
        return self.graph.load(data, mode=mode, branch=self.name, **options)

    def load_table(
        self,
        type_name: str,
        table: Given,
        *,
        mode: LoadMode | LoadWord,
        **options: Unpack[LoadTableOptions],
    ) -> LoadResult:
        """Load a frame into the branch; options as for `Graph.load_table`.

        >>> graph.branch("dev").load_table("Person", [{"name": "cy"}], mode="append").nodes
        {'Person': 1}
        """
        return self.graph.load_table(type_name, table, mode=mode, branch=self.name, **options)

    def export(
        self,
        dest: Path | None = None,
        *,
        format: ExportFormat | None = None,
        types: Iterable[str] = (),
    ) -> Iterator[dict[str, object]] | int:
        """Export the branch, as `Graph.export` does.

        >>> graph.branch("dev").export("dev.jsonl")
        5
        """
        return self.graph.export(dest, format=format, branch=self.name, types=types)

    def snapshot(self, *, version: int | None = None) -> SnapshotApi:
        """Return the branch's newest snapshot, or one of its past.

        >>> graph.branch("dev").snapshot().branch
        'dev'
        """
        return self.graph.snapshot(self.name, version=version)

    def commits(self, *, limit: int | None = None) -> list[GraphCommit]:
        """Return the branch's commits, newest first.

        >>> [commit.kind for commit in graph.branch("dev").commits()]
        ['mutation', 'load', 'init']
        """
        return self.graph.commits.list(self.name, limit=limit)

    def head(self) -> GraphCommit:
        """Return the branch's newest commit.

        >>> graph.branch("dev").head().kind
        'mutation'
        """
        return self.graph.commits.head(self.name)

    def diff(self, other: str | int = MAIN) -> Diff:
        """Return what the branch changes compared with another state.

        >>> len(graph.branch("dev").diff().changes)
        1
        """
        return self.graph.diff(other, self.name)

    def merge_plan(self, into: str = MAIN, **options: Unpack[PlanOptions]) -> MergePlan:
        """Preview merging the branch into another.

        >>> graph.branch("dev").merge_plan().outcome
        'fast_forward'
        """
        return self.graph.branches.merge_plan(self.name, into, **options)

    def merge(self, into: str = MAIN, **options: Unpack[MergeOptions]) -> MergeResult:
        """Merge the branch into another; options as for `Branches.merge`.

        >>> graph.branch("dev").merge().outcome
        'fast_forward'
        """
        return self.graph.branches.merge(self.name, into, **options)

    def delete(self) -> None:
        """Delete the branch.

        >>> graph.branch("dev").delete()
        >>> graph.branches.list()
        ['main']
        """
        self.graph.branches.delete(self.name)


@contextlib.contextmanager
def transaction(
    graph: GraphApi, name: str, base: str, view_of: Callable[[str], BranchView]
) -> Iterator[BranchView]:
    """Give a view of a new branch: merged at the end of the block, dropped on an error."""
    graph.branches.create(name, base)
    view = view_of(name)
    try:
        yield view
    except BaseException:
        graph.branches.delete(name)
        raise
    view.merge(base, delete_source=True)
