"""What is sent and answered, as described in the published interface.

Requests are checked against these; fields nobody knows are ignored, an actor among them. Answers
are made by the engine's own wire forms: a test holds them against these descriptions.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

JsonObject = dict[str, Any]
Mode = Literal["append", "merge", "overwrite"]


class Request(BaseModel):
    """A body that is sent. Values are taken as they are, never converted."""

    model_config = ConfigDict(strict=True, populate_by_name=True)


class QueryRequest(Request):
    """A read query and the state to run it on."""

    query: str = Field(description="Text of one or more queries.")
    name: str | None = Field(default=None, description="Which query of the text to run.")
    params: JsonObject | None = None
    branch: str | None = None
    snapshot: str | None = Field(default=None, description="Commit id, or manifest:<branch>:v<N>.")
    version: int | None = Field(default=None, description="Graph version of the branch.")
    tag: str | None = None
    timestamp: str | None = Field(default=None, description="Instant, ISO 8601.")
    explain: bool = Field(default=False, description="Answer with how the query ran as well.")
    timeout: float | None = Field(default=None, gt=0, description="Seconds after which to give up.")


class ReadRequest(Request):
    """A read query under the older field names."""

    query_source: str
    query_name: str | None = None
    params: JsonObject | None = None
    branch: str | None = None
    snapshot: str | None = None


class ChangeRequest(Request):
    """A mutation query."""

    query: str = Field(validation_alias=AliasChoices("query", "query_source"))
    name: str | None = Field(default=None, validation_alias=AliasChoices("name", "query_name"))
    params: JsonObject | None = None
    branch: str | None = None
    dry_run: bool = False


class InvokeRequest(Request):
    """Parameters of a stored query."""

    params: JsonObject | None = None
    branch: str | None = None
    snapshot: str | None = None
    expect_mutation: bool | None = None
    dry_run: bool = False


class IngestRequest(Request):
    """Entities to load, as JSONL text."""

    data: str
    branch: str | None = None
    from_: str | None = Field(
        default=None, validation_alias=AliasChoices("from", "from_"), serialization_alias="from"
    )
    mode: Mode = "merge"


class ExportRequest(Request):
    """What to export."""

    branch: str | None = None
    snapshot: str | None = None
    version: int | None = None
    tag: str | None = None
    timestamp: str | None = None
    type_names: list[str] = Field(default_factory=list)
    table_keys: list[str] = Field(default_factory=list)


class BranchRequest(Request):
    """A branch to make."""

    name: str
    from_: str | None = Field(
        default=None, validation_alias=AliasChoices("from", "from_"), serialization_alias="from"
    )


class MergeRequest(Request):
    """A branch to merge, and how to decide conflicts."""

    source: str
    target: str | None = None
    delete_branch: bool = False
    resolve: str | JsonObject | None = Field(
        default=None, description="ours, theirs, or decisions by Type or Type/id."
    )
    property_merge: bool = False
    checks: list[str] = Field(
        default_factory=list, description="Queries that must return no rows once merged."
    )


class SchemaRequest(Request):
    """A schema to plan or apply."""

    schema_source: str
    allow_data_loss: bool = False


class TagRequest(Request):
    """A state to name."""

    name: str
    branch: str | None = None
    snapshot: str | None = None
    version: int | None = None
    timestamp: str | None = Field(default=None, description="Instant, ISO 8601.")


class BaselineRequest(Request):
    """A snapshot with the cursor that follows it; empty filters mean all of it."""

    branch: str | None = None
    kind: list[Literal["node", "edge"]] = Field(default_factory=list)
    type: list[str] = Field(default_factory=list)
    op: list[Literal["insert", "update", "delete"]] = Field(default_factory=list)


class ApplyCommitRequest(Request):
    """A branch to make or undo the changes of a commit on."""

    branch: str | None = None
    resolve: str | JsonObject | None = None
    property_merge: bool = False


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"]
    version: str
    internal_schema_version: int


class Readiness(BaseModel):
    """Whether requests are welcome."""

    ready: bool
    status: Literal["serving", "draining"]
    booted_serving_digest: str | None
    state_revision: int | None
    state_cas: str | None
    served_graph_count: int
    quarantined_graph_count: int
    shutdown_grace_seconds: float


class ErrorOutput(BaseModel):
    """Why a request failed. Details are told apart by their presence."""

    error: str
    type: str | None = None
    code: (
        Literal[
            "unauthorized",
            "forbidden",
            "bad_request",
            "not_found",
            "method_not_allowed",
            "conflict",
            "too_many_requests",
            "internal",
        ]
        | None
    ) = None
    hint: str | None = None
    merge_conflicts: list[JsonObject] | None = None
    manifest_conflict: JsonObject | None = None


class CommitOutput(BaseModel):
    """One commit; the branch is null for main."""

    graph_commit_id: str
    manifest_branch: str | None
    graph_branch: str | None
    manifest_version: int
    graph_manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int = Field(description="Microseconds since 1970, UTC.")


class Target(BaseModel):
    """What was read."""

    branch: str | None
    snapshot: str | None


class ReadOutput(BaseModel):
    """Rows of a query."""

    query_name: str
    target: Target
    row_count: int
    columns: list[str] | None = None
    rows: list[JsonObject]
    graph_commit_id: str | None = None
    explain: JsonObject | None = None


class ChangeOutput(BaseModel):
    """Outcome of a mutation; the commit is null when nothing changed."""

    branch: str
    query_name: str
    affected_nodes: int | None
    affected_edges: int | None
    actor_id: str | None
    dry_run: bool = False
    commit: CommitOutput | None


class LoadedTable(BaseModel):
    """Rows loaded into one table."""

    table_key: str
    rows_loaded: int


class LoadedType(BaseModel):
    """Entities loaded of one type."""

    name: str
    entities_loaded: int


class BatchLoadOutput(BaseModel):
    """Outcome of a load."""

    branch: str
    base_branch: str | None
    branch_created: bool
    mode: Mode
    tables: list[LoadedTable]
    nodes: list[LoadedType]
    edges: list[LoadedType]
    total_entities: int
    actor_id: str | None
    commit: CommitOutput | None


class IngestOutput(BatchLoadOutput):
    """Outcome of a load, with the graph's address."""

    uri: str


class SnapshotTable(BaseModel):
    """A published table."""

    table_key: str
    table_path: str
    table_version: int
    table_branch: str | None
    row_count: int


class SnapshotOutput(BaseModel):
    """Which version of every table is published."""

    branch: str
    graph_branch: str
    manifest_version: int
    graph_manifest_version: int
    internal_schema_version: int
    graph_commit_id: str
    tables: list[SnapshotTable]
    datasets: list[JsonObject]
    commit: CommitOutput


class MergeOutput(BaseModel):
    """Outcome of a merge."""

    source: str
    target: str
    outcome: Literal["already_up_to_date", "fast_forward", "merged"]
    actor_id: str | None
    commit: CommitOutput | None
    branch_deleted: bool | None = None
    branch_delete_error: str | None = None
    branch_delete_error_details: JsonObject | None = None


class MergePlanOutput(BaseModel):
    """What a merge would do."""

    source: str
    target: str
    outcome: str
    base_commit_id: str | None
    base_commit_ids: list[str]
    changes: list[JsonObject]
    merge_conflicts: list[JsonObject]


class BranchOutput(BaseModel):
    """A branch was made."""

    uri: str
    from_: str = Field(alias="from")
    name: str
    actor_id: str | None


class BranchDeleted(BaseModel):
    """A branch was deleted."""

    uri: str
    name: str
    actor_id: str | None


class BranchList(BaseModel):
    """Names of branches, main first."""

    branches: list[str]
    next_page_token: str | None = None


class CommitList(BaseModel):
    """Commits, newest first."""

    commits: list[CommitOutput]
    next_page_token: str | None = None


class SchemaOutput(BaseModel):
    """The accepted schema."""

    schema_source: str


class SchemaApplyOutput(BaseModel):
    """Steps of a schema change, planned or applied."""

    uri: str
    supported: bool
    applied: bool
    manifest_version: int
    graph_manifest_version: int
    step_count: int
    steps: list[JsonObject]


class ChangesOutput(BaseModel):
    """What one commit changed."""

    cause: JsonObject
    changes: list[JsonObject]
    next_page_token: str | None = None


class FeedOutput(BaseModel):
    """Commits and what they changed; the cursor comes once all of them were delivered whole."""

    blocks: list[ChangesOutput]
    next_page_token: str | None = None
    cursor: str | None = None
    caught_up: bool | None = None


class DiffOutput(BaseModel):
    """What turns one state into another."""

    from_: str = Field(alias="from")
    to: str
    changes: list[JsonObject]


class TagOutput(BaseModel):
    """A named state."""

    name: str
    branch: str
    manifest_version: int
    created_at: int


class TagList(BaseModel):
    """All tags."""

    tags: list[TagOutput]


class RecoveryList(BaseModel):
    """What became of interrupted writes."""

    recoveries: list[JsonObject]
    pending: list[JsonObject]


class ClusterReport(BaseModel):
    """What a command of the cluster says; other fields depend on the command."""

    model_config = ConfigDict(extra="allow")

    ok: bool
    diagnostics: list[JsonObject]


class Deployment(BaseModel):
    """What was applied last, and whether this process serves it."""

    deployment_id: str
    active: bool
    deployment: ClusterReport


class ProtectedResource(BaseModel):
    """How callers identify themselves here (RFC 9728)."""

    resource: str
    resource_name: str
    bearer_methods_supported: list[str]


class GraphInfo(BaseModel):
    """A graph of this server."""

    graph_id: str
    uri: str


class GraphList(BaseModel):
    """The graphs of this server."""

    graphs: list[GraphInfo]


class QueryEntry(BaseModel):
    """A stored query."""

    name: str
    tool_name: str | None
    mutation: bool
    description: str | None = None
    instruction: str | None = None
    params: list[JsonObject]


class QueryList(BaseModel):
    """The stored queries of a graph."""

    queries: list[QueryEntry]


class EntityOutput(BaseModel):
    """One entity as a load takes it, null when it did not exist."""

    entity: JsonObject | None


class CommitMade(BaseModel):
    """The commit that was made, null when there was nothing to change."""

    commit: CommitOutput | None
