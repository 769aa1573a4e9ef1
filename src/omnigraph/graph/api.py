"""What a graph can do wherever it is: the calls that an open graph and a served one share.

What works on storage itself (`bulk`, `dump` and their like) is not among them.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from omnigraph.commits import MAIN, GraphCommit, Tag
from omnigraph.graph.entity_apis import BlobsApi as BlobsApi
from omnigraph.graph.entity_apis import EntitiesApi as EntitiesApi
from omnigraph.graph.entity_apis import PicturesApi as PicturesApi
from omnigraph.graph.entity_apis import SnapshotApi as SnapshotApi
from omnigraph.graph.upkeep_apis import MaintenanceApi as MaintenanceApi
from omnigraph.graph.upkeep_apis import UpkeepApi as UpkeepApi
from omnigraph.limits import FEED_CHANGES_DEFAULT
from omnigraph.values.inspection import (
    HISTORY_COMMITS_DEFAULT,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.catalog import Catalog
    from omnigraph.drawing import Drawing
    from omnigraph.graph.changes import Baseline, ChangeBlock, Diff, FeedPage
    from omnigraph.graph.explanation import Explanation
    from omnigraph.graph.prepared import PreparedQuery
    from omnigraph.graph.result import Result
    from omnigraph.graph.results import LoadResult, MutationResult
    from omnigraph.graph.view import BranchView
    from omnigraph.intake.declared import Given
    from omnigraph.ops.load import LoadMode
    from omnigraph.ops.merge.merging import MergePlan, MergeResult, Resolution
    from omnigraph.values.inspection import (
        AllowedActions,
        BranchHeads,
        CommitGraph,
        LintReport,
        SchemaDescription,
    )
    from omnigraph.values.words import ChangeOp, EntityKind, ExportFormat, Language, LoadWord

Path = str | os.PathLike[str]
Loadable = Path | bytes | Iterable[Mapping[str, object]]
Moment = datetime.datetime | str | None
Params = Mapping[str, object] | None


class BranchApi(Protocol):
    """What is known of a branch."""

    @property
    def name(self) -> str:
        """Its name."""


class BranchesApi(Protocol):
    """The branches of a graph."""

    def list(self) -> list[str]:
        """Return the names of all branches, main first."""

    def details(self) -> tuple[BranchApi, ...]:
        """Return all branches."""

    def heads(self, base: str = MAIN) -> BranchHeads:
        """Return all branches with their newest commits, and how far each is from a base."""

    def history(
        self, *, limit: int = HISTORY_COMMITS_DEFAULT, page_token: str | None = None
    ) -> CommitGraph:
        """Return the commits of all branches, each before its parents, with branches and tags."""

    def allowed(self, branch: str = MAIN) -> AllowedActions:
        """Return what the actor may do on a branch; whether it exists is not told."""

    def exists(self, name: str) -> bool:
        """Whether there is a branch of this name."""

    def create(
        self, name: str, from_: str | int = MAIN, *, expected_head: str | None = None
    ) -> BranchApi:
        """Make a branch from a branch, commit id, tag, or `branch@version`."""

    def delete(self, name: str, *, expected_head: str | None = None) -> None:
        """Remove a branch. Commits merged elsewhere stay there."""

    def merge_plan(
        self,
        source: str,
        into: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
    ) -> MergePlan:
        """Compute a merge for review; nothing is written."""

    def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
        checks: Iterable[str] = (),
        delete_source: bool = False,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> MergeResult:
        """Merge a branch into another as one commit with two parents."""

    def cherry_pick(
        self,
        commit_id: str,
        branch: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> GraphCommit | None:
        """Make the changes of one commit on another branch; None when they are there already."""

    def revert(
        self,
        commit_id: str,
        branch: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> GraphCommit | None:
        """Undo the changes of one commit in a new one; None when nothing of it is left."""


class TagsApi(Protocol):
    """Names for states of the graph that never move."""

    def list(self) -> list[Tag]:
        """Return all tags, by name."""

    def create(
        self,
        name: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        timestamp: Moment = None,
        expected_head: str | None = None,
    ) -> Tag:
        """Name the newest state of a branch, or an older one."""

    def delete(self, name: str, *, expected_head: str | None = None) -> None:
        """Forget a tag; the state it named stays."""


class CommitsApi(Protocol):
    """The commits of a graph."""

    def list(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        since: datetime.datetime | None = None,
        until: datetime.datetime | None = None,
        limit: int | None = None,
    ) -> list[GraphCommit]:
        """Return commits, newest first, optionally of one actor and within a time."""

    def get(self, commit_id: str) -> GraphCommit:
        """Return one commit, whatever branch it is on."""

    def changes(
        self,
        commit_id: str,
        *,
        kinds: Iterable[EntityKind] = (),
        types: Iterable[str] = (),
        ops: Iterable[ChangeOp] = (),
    ) -> ChangeBlock:
        """Return what a commit changed, against its first parent."""

    def head(self, branch: str = MAIN) -> GraphCommit:
        """Return the newest commit of a branch."""

    def last_change(self, type_name: str, id: str, branch: str = MAIN) -> GraphCommit | None:
        """Return the commit that last changed an entity; None when it never existed."""


class FeedApi(Protocol):
    """Delivers commits with their changes, in order, at least once each."""

    def poll(
        self,
        start: str = "now",
        *,
        cursor: str | None = None,
        page_token: str | None = None,
        branch: str = MAIN,
        limit: int = FEED_CHANGES_DEFAULT,
        kinds: Iterable[EntityKind] = (),
        types: Iterable[str] = (),
        ops: Iterable[ChangeOp] = (),
    ) -> FeedPage:
        """Return the next commits and what they changed."""

    def follow(
        self,
        start: str = "now",
        *,
        cursor: str | None = None,
        branch: str = MAIN,
        interval_s: float = 1.0,
        limit: int = FEED_CHANGES_DEFAULT,
    ) -> Iterator[FeedPage]:
        """Yield answers as commits arrive, for ever."""

    def baseline(
        self,
        dest: Path,
        *,
        branch: str = MAIN,
        kinds: Iterable[EntityKind] = (),
        types: Iterable[str] = (),
        ops: Iterable[ChangeOp] = (),
    ) -> Baseline:
        """Write a whole snapshot as JSONL; the feed resumes right after it."""


class SchemaChangeApi(Protocol):
    """A planned or applied change of the schema."""

    @property
    def supported(self) -> bool:
        """Whether every difference has a step."""

    @property
    def applied(self) -> bool:
        """Whether a commit was made."""

    @property
    def is_empty(self) -> bool:
        """Whether the graph has that schema already."""

    @property
    def drops(self) -> bool:
        """Whether a type or property goes away."""

    @property
    def problems(self) -> tuple[Mapping[str, object], ...]:
        """The rows that stand against the change."""

    @property
    def commit(self) -> GraphCommit | None:
        """The commit that was made."""

    @property
    def manifest_version(self) -> int:
        """The graph's version."""

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""

    def render(self) -> str:
        """Return text for people."""


class SchemaApi(Protocol):
    """The schema of a graph: plan a change, apply it."""

    def plan(
        self, schema: Path, *, allow_data_loss: bool = False, name: str | None = None
    ) -> SchemaChangeApi:
        """Return the steps that lead to a schema, and what stored rows say to them."""

    def apply(
        self,
        schema: Path,
        *,
        allow_data_loss: bool = False,
        name: str | None = None,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> SchemaChangeApi:
        """Make a schema the graph's, with its tables, as one atomic commit."""

    def describe(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> SchemaDescription:
        """Return the types of a state as data: of the newest one, or of one in the past."""

    def draw(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> Drawing:
        """Draw the types of a state and what connects them."""

    def lint(
        self,
        source: str,
        *,
        language: Language = "gq",
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> LintReport:
        """Check queries (`gq`) or a schema (`pg`) against a state, and run nothing."""


class GraphParts(Protocol):
    """What a graph is made of."""

    @property
    def branches(self) -> BranchesApi:
        """Its branches."""

    @property
    def tags(self) -> TagsApi:
        """Its tags."""

    @property
    def commits(self) -> CommitsApi:
        """Its history."""

    @property
    def feed(self) -> FeedApi:
        """Its changes, as they are made."""

    @property
    def blobs(self) -> BlobsApi:
        """Its blobs."""

    @property
    def schema(self) -> SchemaApi:
        """Changes of its schema."""

    @property
    def entities(self) -> EntitiesApi:
        """Its entities, one by one."""

    @property
    def maintenance(self) -> MaintenanceApi:
        """How it is doing."""


class GraphApi(GraphParts, UpkeepApi, PicturesApi, Protocol):
    """A graph that is open here, or served elsewhere.

    >>> def tasks(graph: og.GraphApi) -> int:
    ...     return len(graph.query(TASKS))
    >>> tasks(graph)
    2
    """

    def __enter__(self) -> Self:
        """Return the graph."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""

    @property
    def actor(self) -> str | None:
        """Who commits are by, if that is known here."""

    @property
    def uri(self) -> str:
        """Where the graph is."""

    @property
    def schema_source(self) -> str:
        """Text of the accepted schema."""

    @property
    def catalog(self) -> Catalog:
        """The accepted schema as data."""

    def close(self) -> None:
        """Release what it holds. Twice is fine."""

    def refresh(self, branch: str | None = None) -> None:
        """Look at the newest state of a branch, or of all in use."""

    def query(
        self,
        source: str,
        params: Params = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
        timeout: float | None = None,
    ) -> Result:
        """Run a read query on one snapshot."""

    def prepare(self, source: str, *, name: str | None = None) -> PreparedQuery:
        """Check a read query now, to be run many times with other parameters."""

    def explain(
        self,
        source: str,
        params: Params = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
        timeout: float | None = None,
    ) -> Explanation:
        """Run a read query and return how."""

    def snapshot(
        self,
        branch: str | None = None,
        *,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> SnapshotApi:
        """Return the newest snapshot, or the one at a commit id, graph version, tag or moment."""

    def diff(
        self,
        a: str | int,
        b: str | int,
        *,
        kinds: Iterable[EntityKind] = (),
        types: Iterable[str] = (),
        ops: Iterable[ChangeOp] = (),
    ) -> Diff:
        """Return what turns one state into another."""

    def entity_at(
        self,
        table_key: str,
        id: str,
        *,
        version: int | None = None,
        branch: str | None = None,
        commit: str | None = None,
        tag: str | None = None,
    ) -> dict[str, object] | None:
        """Return one entity at a graph version, commit or tag, None when it did not exist."""

    def get(
        self, type_name: str, id: str, *, branch: str | None = None, commit: str | None = None
    ) -> dict[str, Any] | None:
        """Return one entity by its id as a dictionary, None when there is none."""

    def export(
        self,
        dest: Path | None = None,
        *,
        format: ExportFormat | None = None,
        branch: str | None = None,
        types: Iterable[str] = (),
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> Iterator[dict[str, object]] | int:
        """Yield every entity as an envelope, nodes before edges; with `dest` write a file."""

    def to_networkx(
        self,
        *,
        types: Iterable[str] = (),
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> Any:
        """Return a state as a `networkx.MultiDiGraph`."""

    def to_igraph(
        self,
        *,
        types: Iterable[str] = (),
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> Any:
        """Return a state as a directed `igraph.Graph`."""

    def export_table(
        self,
        type_name: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> pa.Table:
        """Return the rows of one type as an Arrow table, by id."""

    def mutate(
        self,
        source: str,
        params: Params = None,
        *,
        name: str | None = None,
        branch: str = MAIN,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
    ) -> MutationResult:
        """Run a mutation query as one atomic commit."""

    def load(
        self,
        data: Loadable,
        *,
        mode: LoadMode | LoadWord,
        branch: str = MAIN,
        create_from: str | None = None,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> LoadResult:
        """Load nodes and edges as one atomic commit."""

    def load_table(
        self,
        type_name: str,
        table: Given,
        *,
        mode: LoadMode | LoadWord,
        branch: str = MAIN,
        from_col: str = "from",
        to_col: str = "to",
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
    ) -> LoadResult:
        """Load rows of one type, a frame or the path of a Parquet file, as one commit."""

    def branch(self, name: str, *, from_: str | int = MAIN) -> BranchView:
        """Return a view of one branch; it is made from another one if it does not exist."""

    def transaction(
        self, *, base: str = MAIN, name: str | None = None
    ) -> AbstractContextManager[BranchView]:
        """Work on a branch of its own: merged at the end of the block, dropped on an error."""
