"""Bodies of HTTP answers that are not a value of the engine by themselves."""

from __future__ import annotations

from typing import ClassVar, Literal

from omnigraph.values.changes import ChangeBlock
from omnigraph.values.commits import BranchInfo, GraphCommit, Tag
from omnigraph.values.inspection import Subgraph
from omnigraph.values.merges import MergeResult
from omnigraph.values.recoveries import PendingWrite, RecoveryRecord, Verdict
from omnigraph.values.reports import TableHealth
from omnigraph.values.results import Explanation, LoadResult
from omnigraph.values.value import Json, Value

NEXT_PAGE: frozenset[str] = frozenset({"next_page_token"})


class Health(Value, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str
    internal_schema_version: int


class Readiness(Value, frozen=True, kw_only=True):
    """Whether requests are welcome."""

    ready: bool
    status: Literal["serving", "draining"]
    booted_serving_digest: str | None
    state_revision: int | None
    state_cas: str | None
    served_graph_count: int
    quarantined_graph_count: int
    shutdown_grace_seconds: float


class ProtectedResource(Value, frozen=True, kw_only=True):
    """How callers identify themselves here (RFC 9728)."""

    optional: ClassVar[frozenset[str]] = frozenset({"authorization_servers"})

    resource: str
    resource_name: str
    bearer_methods_supported: list[str]
    authorization_servers: tuple[str, ...] = ()


class GraphInfo(Value, frozen=True, kw_only=True):
    """A graph of this server."""

    graph_id: str
    uri: str


class GraphList(Value, frozen=True, kw_only=True):
    """The graphs of this server."""

    graphs: list[GraphInfo]


class Target(Value, frozen=True, kw_only=True):
    """What was read."""

    branch: str | None
    snapshot: str | None


class ReadOutput(Value, frozen=True, kw_only=True):
    """Rows of a query."""

    optional: ClassVar[frozenset[str]] = frozenset(
        {"columns", "column_types", "graph", "graph_commit_id", "explain"}
    )

    query_name: str
    target: Target
    row_count: int
    columns: list[str] | None = None
    column_types: list[Json] | None = None
    graph: Subgraph | None = None
    rows: list[Json]
    graph_commit_id: str | None = None
    explain: Explanation | None = None


class IngestOutput(LoadResult, frozen=True, kw_only=True):
    """Outcome of a load, with the graph's address."""

    published_as: ClassVar[str] = "IngestOutput"

    uri: str


class MergeAnswer(MergeResult, frozen=True, kw_only=True):
    """Outcome of a merge; whether the branch was deleted is told if that was asked for."""

    published_as: ClassVar[str] = "MergeOutput"
    optional: ClassVar[frozenset[str]] = MergeResult.optional | {"branch_deleted"}


class ParquetColumn(Value, frozen=True, kw_only=True):
    """A column of a Parquet file, and its value in the first row as text."""

    name: str
    type: str
    first: str | None


class ParquetContent(Value, frozen=True, kw_only=True):
    """What is in a Parquet file."""

    rows: int
    columns: tuple[ParquetColumn, ...]


class BranchList(Value, frozen=True, kw_only=True):
    """Names of branches, main first; with details if they were asked for."""

    optional: ClassVar[frozenset[str]] = NEXT_PAGE | {"details"}

    branches: list[str]
    details: tuple[BranchInfo, ...] = ()
    next_page_token: str | None = None


class BranchOutput(Value, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A branch was made."""

    uri: str
    from_: str
    name: str
    actor_id: str | None
    details: BranchInfo


class BranchDeleted(Value, frozen=True, kw_only=True):
    """A branch was deleted."""

    uri: str
    name: str
    actor_id: str | None


class TagList(Value, frozen=True, kw_only=True):
    """All tags."""

    tags: tuple[Tag, ...]


class CommitList(Value, frozen=True, kw_only=True):
    """Commits, newest first."""

    optional: ClassVar[frozenset[str]] = NEXT_PAGE

    commits: tuple[GraphCommit, ...]
    next_page_token: str | None = None


class CommitMade(Value, frozen=True, kw_only=True):
    """The commit that was made, null when there was nothing to change."""

    commit: GraphCommit | None


class ChangesPage(ChangeBlock, frozen=True, kw_only=True):
    """What one commit changed."""

    published_as: ClassVar[str] = "ChangesOutput"
    optional: ClassVar[frozenset[str]] = ChangeBlock.optional | NEXT_PAGE

    next_page_token: str | None = None


class EntityOutput(Value, frozen=True, kw_only=True):
    """One entity as a load takes it, null when it did not exist."""

    entity: Json | None


class RecoveryList(Value, frozen=True, kw_only=True):
    """What became of interrupted writes."""

    recoveries: tuple[RecoveryRecord, ...]
    pending: tuple[PendingWrite, ...]


class RecoverOutput(Value, frozen=True, kw_only=True):
    """What became of each interrupted write that was resolved now."""

    resolved: tuple[Verdict, ...]


class TableList(Value, frozen=True, kw_only=True):
    """How the tables of a branch are doing."""

    tables: tuple[TableHealth, ...]


class SchemaOutput(Value, frozen=True, kw_only=True):
    """The accepted schema."""

    schema_source: str


class QueryParam(Value, frozen=True, kw_only=True):
    """A parameter of a stored query; `bigint`, `date`, `datetime`, `blob` travel as strings."""

    optional: ClassVar[frozenset[str]] = frozenset({"item_kind", "vector_dim"})

    name: str
    kind: str
    item_kind: str | None = None
    vector_dim: int | None = None
    nullable: bool


class QueryEntry(Value, frozen=True, kw_only=True):
    """A stored query."""

    optional: ClassVar[frozenset[str]] = frozenset({"description", "instruction"})

    name: str
    tool_name: str | None
    mutation: bool
    description: str | None = None
    instruction: str | None = None
    params: tuple[QueryParam, ...]


class QueryList(Value, frozen=True, kw_only=True):
    """The stored queries of a graph."""

    queries: list[QueryEntry]


class ClusterDiagnostic(Value, frozen=True, kw_only=True):
    """One finding. Codes are stable; messages are for people."""

    code: str
    severity: Literal["error", "warning"] = "error"
    path: str = ""
    message: str

    def render(self) -> str:
        """Return it as one line of text."""
        place = f" {self.path}:" if self.path else ""
        return f"{self.severity.upper()}{place} {self.message} [{self.code}]"


class ClusterReport(Value, frozen=True, kw_only=True):
    """What a command of the cluster says; other fields depend on the command."""

    ok: bool
    diagnostics: tuple[ClusterDiagnostic, ...]


class Deployment(Value, frozen=True, kw_only=True):
    """What was applied last, and whether this process serves it."""

    deployment_id: str
    active: bool
    deployment: ClusterReport
