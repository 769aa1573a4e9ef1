"""Answers as the values the embedded engine returns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.graph import (
    Diff,
    LoadResult,
    MergePlan,
    MergeResult,
    MutationResult,
    Result,
    Snapshot,
)
from omnigraph.graph.changes import ChangeBlock, FeedPage
from omnigraph.graph.explanation import Explanation
from omnigraph.manifest import (
    BranchId,
    GraphCommit,
    PendingWrite,
    Pin,
    RecoveryKind,
    RecoveryRecord,
    Tag,
)
from omnigraph.manifest.audit import TableOutcome
from omnigraph.ops.diff import EntityChange
from omnigraph.read import Stage
from omnigraph.write.three_way import Conflict, ConflictKind

Body = Mapping[str, Any]
ARROW_METADATA = b"omnigraph"


def commit_from(body: Body) -> GraphCommit:
    """Return a commit; what only the storage knows of it is left empty."""
    return GraphCommit(
        graph_commit_id=body["graph_commit_id"],
        manifest_version=body["manifest_version"],
        parent_commit_id=body["parent_commit_id"],
        merged_parent_commit_id=body["merged_parent_commit_id"],
        actor_id=body["actor_id"],
        created_at_us=body["created_at"],
        kind=body.get("kind", ""),
        recovery_for_actor=body.get("recovery_for_actor"),
        branch=body["manifest_branch"],
    )


def maybe_commit(body: Body | None) -> GraphCommit | None:
    """Return a commit if there is one."""
    return None if body is None else commit_from(body)


def table_from(data: bytes) -> Any:
    """Return the table of an Arrow stream."""
    return pa.ipc.open_stream(data).read_all()


def result_from(data: bytes) -> Result:
    """Return the rows of an Arrow stream."""
    table = table_from(data)
    metadata = dict(table.schema.metadata or {})
    about = json.loads(metadata.pop(ARROW_METADATA))
    return Result(
        table.replace_schema_metadata(metadata or None),
        query_name=about["query_name"],
        commit_id=about["graph_commit_id"],
        branch=about["target"]["branch"],
        snapshot=about["target"]["snapshot"],
    )


def mutation_from(body: Body) -> MutationResult:
    """Return the outcome of a mutation."""
    return MutationResult(
        affected_nodes=body["affected_nodes"],
        affected_edges=body["affected_edges"],
        commit=maybe_commit(body["commit"]),
        repeated=body.get("repeated", False),
        branch=body["branch"],
        query_name=body["query_name"],
        actor_id=body["actor_id"],
        dry_run=body.get("dry_run", False),
    )


def load_from(body: Body) -> LoadResult:
    """Return the outcome of a load."""
    return LoadResult(
        mode=body["mode"],
        nodes={item["name"]: item["entities_loaded"] for item in body["nodes"]},
        edges={item["name"]: item["entities_loaded"] for item in body["edges"]},
        commit=maybe_commit(body["commit"]),
        repeated=body.get("repeated", False),
        branch=body["branch"],
        base_branch=body["base_branch"],
        branch_created=body["branch_created"],
        actor_id=body["actor_id"],
        dry_run=body.get("dry_run", False),
    )


def merge_from(body: Body) -> MergeResult:
    """Return the outcome of a merge."""
    return MergeResult(
        outcome=body["outcome"],
        source=body["source"],
        target=body["target"],
        commit=maybe_commit(body["commit"]),
        actor_id=body["actor_id"],
        branch_deleted=body.get("branch_deleted", False),
        branch_delete_error=body.get("branch_delete_error"),
    )


def merge_plan_from(body: Body) -> MergePlan:
    """Return the preview of a merge."""
    return MergePlan(
        source=body["source"],
        target=body["target"],
        outcome=body["outcome"],
        base_commit_ids=tuple(body["base_commit_ids"]),
        changes=tuple(body["changes"]),
        conflicts=tuple(
            Conflict(
                table_key=item["table_key"],
                entity_id=item["entity_id"],
                kind=ConflictKind(item["kind"]),
                message=item["message"],
                base=item["base"],
                ours=item["ours"],
                theirs=item["theirs"],
            )
            for item in body["merge_conflicts"]
        ),
    )


def snapshot_from(body: Body) -> Snapshot:
    """Return a snapshot."""
    return Snapshot(
        version=body["manifest_version"],
        commit=commit_from(body["commit"]),
        tables={item["table_key"]: _pin(item) for item in body["tables"]},
        internal_schema_version=body["internal_schema_version"],
        branch=body["branch"],
    )


def _pin(body: Body) -> Pin:
    return Pin(
        table_key=body["table_key"],
        incarnation=0,
        path=body["table_path"],
        version=body["table_version"],
        row_count=body["row_count"],
        transaction_uuid="",
        seq=0,
    )


def change_from(body: Body) -> EntityChange:
    """Return one changed entity."""
    return EntityChange(
        kind=body["kind"],
        type_id=int(body["type"]["id"]),
        type_name=body["type"]["name"],
        id=body["id"],
        op=body["op"],
        before=body.get("before"),
        after=body.get("after"),
    )


def block_from(body: Body) -> ChangeBlock:
    """Return what a commit changed. Its cause is all that is known of the commit."""
    cause = body["cause"]
    branch = cause["authored_branch"]
    return ChangeBlock(
        commit=GraphCommit(
            graph_commit_id=cause["graph_commit_id"],
            manifest_version=cause.get("manifest_version", 0),
            parent_commit_id=cause["parent_commit_id"],
            merged_parent_commit_id=cause["merged_parent_commit_id"],
            actor_id=cause["actor_id"],
            created_at_us=cause["authored_at"],
            kind=cause.get("kind", ""),
            branch=None if branch == "main" else branch,
        ),
        changes=tuple(change_from(item) for item in body["changes"]),
        schema_boundary=body.get("schema_boundary", False),
    )


def page_from(body: Body) -> FeedPage:
    """Return one answer of the feed."""
    return FeedPage(
        blocks=tuple(block_from(item) for item in body["blocks"]),
        cursor=body.get("cursor"),
        next_page_token=body.get("next_page_token"),
        caught_up=body.get("caught_up", False),
    )


def diff_from(body: Body) -> Diff:
    """Return a difference."""
    changes = tuple(change_from(item) for item in body["changes"])
    return Diff(before=body["from"], after=body["to"], changes=changes)


def tag_from(body: Body) -> Tag:
    """Return a tag; which life of its branch it belongs to only the storage knows."""
    return Tag(
        name=body["name"],
        branch=BranchId(body["branch"], body["branch"]),
        version=body["manifest_version"],
        created_at_us=body["created_at"],
    )


def recovery_from(body: Body) -> RecoveryRecord:
    """Return one recovery."""
    return RecoveryRecord(
        graph_commit_id=body["graph_commit_id"],
        recovery_kind=RecoveryKind(body["recovery_kind"]),
        recovery_for_actor=body["recovery_for_actor"],
        operation_id=body["operation_id"],
        writer_kind=body["sidecar_writer_kind"],
        tables=tuple(
            TableOutcome(
                table_key=item["table_key"],
                from_version=item["from_version"],
                to_version=item["to_version"],
            )
            for item in body["per_table_outcomes"]
        ),
        created_at_us=body["created_at"],
    )


def pending_from(body: Body) -> PendingWrite:
    """Return a write under way."""
    return PendingWrite(
        slot=body["slot"],
        alive=body["owner_alive"],
        operation_id=body["operation_id"],
        writer_kind=body["writer_kind"],
        actor_id=body["actor_id"],
        branch=body["branch"],
        tables=tuple(body["tables"]),
    )


def explanation_from(body: Body) -> Explanation:
    """Return how a query ran."""
    return Explanation(
        plan="\n".join(body["plan"]),
        stages=tuple(
            Stage(
                text=item["step"],
                estimated_rows=item["estimated_rows"],
                rows=item["rows"],
                seconds=item["ms"] / 1e3,
            )
            for item in body["stages"]
        ),
        rows=body["row_count"],
        seconds=body["ms"] / 1e3,
        io=body["io"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSchemaChange:
    """A planned or applied change of a served graph's schema."""

    body: Body

    @property
    def uri(self) -> str:
        """The graph."""
        return str(self.body["uri"])

    @property
    def supported(self) -> bool:
        """Whether every difference has a step."""
        return bool(self.body["supported"])

    @property
    def applied(self) -> bool:
        """Whether a commit was made."""
        return bool(self.body["applied"])

    @property
    def is_empty(self) -> bool:
        """Whether the graph has that schema already."""
        return not self.body["steps"]

    @property
    def drops(self) -> bool:
        """Whether a type or property goes away."""
        return any(step["kind"] in ("drop_type", "drop_property") for step in self.body["steps"])

    @property
    def problems(self) -> tuple[Mapping[str, object], ...]:
        """The rows that stand against the change."""
        return tuple(self.body.get("problems", ()))

    @property
    def commit(self) -> GraphCommit | None:
        """The commit that was made."""
        return maybe_commit(self.body.get("commit"))

    @property
    def manifest_version(self) -> int:
        """The graph's version."""
        return int(self.body["manifest_version"])

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        return {name: value for name, value in self.body.items() if name != "render"}

    def render(self) -> str:
        """Return text for people."""
        return str(self.body.get("render", ""))
