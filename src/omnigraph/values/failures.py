"""The body of a failure, and every detail it may have. Details are told apart by their presence."""

from __future__ import annotations

from typing import ClassVar, Literal

from omnigraph.values.value import Json, Value


class Diagnostic(Value, frozen=True, kw_only=True):
    """What a compiler found, and where."""

    optional: ClassVar[frozenset[str]] = frozenset({"file", "line", "column", "hint"})

    code: str
    severity: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    hint: str | None = None


class Problem(Value, frozen=True, kw_only=True, rename={"type_name": "type", "entity_id": "id"}):
    """A row that was refused."""

    published_as: ClassVar[str] = "DataProblem"
    optional: ClassVar[frozenset[str]] = frozenset(
        {"file", "line", "element", "type", "id", "field"}
    )
    hidden: ClassVar[frozenset[str]] = frozenset({"kind", "table_key"})

    file: str | None = None
    line: int | None = None
    element: int | None = None
    """Which of the things that share lines with others it is about, counted in its file."""
    type_name: str | None = None
    entity_id: str | None = None
    field: str | None = None
    message: str
    kind: str = "value_constraint_violation"
    table_key: str | None = None


class DataErrors(Value, frozen=True, kw_only=True):
    """Rows that were refused, in the order they came."""

    problems: list[Problem]


class PolicyDenial(Value, frozen=True, kw_only=True):
    """What was asked of the policy."""

    optional: ClassVar[frozenset[str]] = frozenset(
        {
            *("action", "resource", "actor", "branch", "target_branch"),
            *("policy", "near_rule_ids"),
        }
    )

    action: str | None = None
    resource: str | None = None
    actor: str | None = None
    branch: str | None = None
    target_branch: str | None = None
    policy: str | None = None
    near_rule_ids: list[str] | None = None


class ManifestConflict(Value, frozen=True, kw_only=True):
    """A table that moved."""

    table_key: str
    expected: int
    actual: int


class DatasetVersionConflict(Value, frozen=True, kw_only=True):
    """A table that moved, under the newer names."""

    entity_kind: str
    type_name: str
    expected_published_dataset_version: int
    actual_published_dataset_version: int


class ReadSetConflict(Value, frozen=True, kw_only=True):
    """What the operation relied on and found changed."""

    optional: ClassVar[frozenset[str]] = frozenset({"expected", "actual"})

    member: str
    expected: str | None = None
    actual: str | None = None


class KeyConflict(Value, frozen=True, kw_only=True):
    """An id that must be new and is not."""

    optional: ClassVar[frozenset[str]] = frozenset({"entity_id"})

    entity_kind: str
    type_name: str
    entity_id: str | None = None


class ChangeDiffRefusal(Value, frozen=True, kw_only=True):
    """Why a commit cannot be compared with its parent."""

    optional: ClassVar[frozenset[str]] = frozenset({"type_name"})

    reason: str
    graph_commit_id: str
    type_name: str | None = None


class MergeConflictDetail(Value, frozen=True, kw_only=True):
    """One conflict of a merge."""

    optional: ClassVar[frozenset[str]] = frozenset(
        {"row_id", "entity_id", "entity_kind", "type_name", "base", "ours", "theirs"}
    )

    table_key: str
    kind: str
    message: str
    row_id: str | None = None
    entity_id: str | None = None
    entity_kind: str | None = None
    type_name: str | None = None
    base: Json | None = None
    ours: Json | None = None
    theirs: Json | None = None


class MergeCheck(Value, frozen=True, kw_only=True):
    """A check that returned rows."""

    query_name: str
    row_count: int
    rows: list[Json]


class ChangeFeedGap(Value, frozen=True, kw_only=True):
    """Where the feed begins by now."""

    optional: ClassVar[frozenset[str]] = frozenset({"cursor"})

    first_unreadable_commit_id: str
    cursor: str | None = None


class PreconditionFailure(Value, frozen=True, kw_only=True):
    """The head that was expected, and the one there is."""

    optional: ClassVar[frozenset[str]] = frozenset({"actual"})

    expected: str
    actual: str | None = None


class ResourceLimit(Value, frozen=True, kw_only=True):
    """A limit that was reached."""

    resource: str
    limit: int
    actual: int


class BlobRange(Value, frozen=True, kw_only=True):
    """A part that lies outside a value."""

    start: int
    end: int
    length: int


class ExternalBlobSource(Value, frozen=True, kw_only=True):
    """An address that could not be read."""

    uri: str
    reason: str


class RecoveryNeeded(Value, frozen=True, kw_only=True):
    """The interrupted write that is in the way."""

    operation_id: str


class Drift(Value, frozen=True, kw_only=True):
    """A table that another program changed."""

    table_path: str
    verdict: str
    published_version: int
    head_version: int


class ErrorOutput(Value, frozen=True, kw_only=True):
    """Why a request failed. Details are told apart by their presence."""

    optional: ClassVar[frozenset[str]] = frozenset(
        {
            *("type", "code", "hint", "diagnostics", "data_errors", "policy_denial"),
            *("manifest_conflict", "published_dataset_version_conflict", "read_set_conflict"),
            *("key_conflict", "change_diff_refusal", "merge_conflicts", "merge_check"),
            *("change_feed_gap", "precondition_failure", "resource_limit", "blob_range"),
            *("external_blob_source", "recovery_required", "drift"),
        }
    )

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
    diagnostics: list[Diagnostic] | None = None
    data_errors: DataErrors | None = None
    policy_denial: PolicyDenial | None = None
    manifest_conflict: ManifestConflict | None = None
    published_dataset_version_conflict: DatasetVersionConflict | None = None
    read_set_conflict: ReadSetConflict | None = None
    key_conflict: KeyConflict | None = None
    change_diff_refusal: ChangeDiffRefusal | None = None
    merge_conflicts: list[MergeConflictDetail] | None = None
    merge_check: MergeCheck | None = None
    change_feed_gap: ChangeFeedGap | None = None
    precondition_failure: PreconditionFailure | None = None
    resource_limit: ResourceLimit | None = None
    blob_range: BlobRange | None = None
    external_blob_source: ExternalBlobSource | None = None
    recovery_required: RecoveryNeeded | None = None
    drift: Drift | None = None
