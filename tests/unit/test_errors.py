"""The error tree: what each class means on the wire, and where it hangs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from omnigraph import errors
from omnigraph.error_kinds import ErrorKind
from omnigraph.errors import (
    AlreadyExists,
    AlreadyExistsError,
    AlreadyInitializedError,
    BadRequestError,
    BlobRangeError,
    ChangeFeedGapError,
    CheckFailedError,
    CompileError,
    Conflict,
    ConflictError,
    CursorRejectedError,
    DataError,
    DiffRefusedError,
    DriftError,
    EmbeddingError,
    ExternalBlobPolicyError,
    ExternalBlobSourceError,
    Forbidden,
    FormatError,
    FormatVersionError,
    InternalError,
    InvalidInput,
    KeyConflictError,
    LimitExceeded,
    MergeConflict,
    MergeConflictError,
    NotFound,
    NotFoundError,
    OmniGraphError,
    OutcomeUnknown,
    OutcomeUnknownError,
    PolicyDeniedError,
    PreconditionFailedError,
    QueryError,
    ReadSetConflictError,
    RecoveryRequired,
    RecoveryRequiredError,
    ResourceLimitError,
    StorageError,
    StorageFailure,
    StorageFailureKind,
    TooManyRequestsError,
    UnauthorizedError,
    VersionConflictError,
    VersionReclaimedError,
)

CATEGORIES = {
    InvalidInput,
    NotFound,
    AlreadyExists,
    Forbidden,
    Conflict,
    MergeConflict,
    RecoveryRequired,
    LimitExceeded,
    StorageFailure,
    OutcomeUnknown,
    FormatError,
    InternalError,
}


@dataclass(frozen=True)
class Row:
    """One class as the interface specification describes it."""

    make: Callable[[], OmniGraphError]
    cls: type[OmniGraphError]
    kind: str
    category: type[OmniGraphError]
    status: int
    code: str | None
    detail: dict[str, object]


# The specification's table of errors, row by row, then the classes it leaves to us.
ROWS = [
    Row(
        lambda: CompileError([]),
        CompileError,
        "compile",
        InvalidInput,
        400,
        "bad_request",
        {"diagnostics": []},
    ),
    Row(lambda: QueryError("m"), QueryError, "query", InvalidInput, 400, "bad_request", {}),
    Row(
        lambda: BadRequestError("m"),
        BadRequestError,
        "bad_request",
        InvalidInput,
        400,
        "bad_request",
        {},
    ),
    Row(
        lambda: PolicyDeniedError("m", action="change", actor="act-guest"),
        PolicyDeniedError,
        "policy_denied",
        Forbidden,
        403,
        "forbidden",
        {"policy_denial": {"action": "change", "actor": "act-guest"}},
    ),
    Row(
        lambda: UnauthorizedError("m"),
        UnauthorizedError,
        "unauthorized",
        Forbidden,
        401,
        "unauthorized",
        {},
    ),
    Row(lambda: NotFoundError("m"), NotFoundError, "not_found", NotFound, 404, "not_found", {}),
    Row(
        lambda: VersionConflictError(table_key="node:Paper", expected=12, actual=13),
        VersionConflictError,
        "version_conflict",
        Conflict,
        409,
        "conflict",
        {"manifest_conflict": {"table_key": "node:Paper", "expected": 12, "actual": 13}},
    ),
    Row(lambda: ConflictError("m"), ConflictError, "conflict", Conflict, 409, "conflict", {}),
    Row(
        lambda: ReadSetConflictError(member="branch:main", expected="a", actual="b"),
        ReadSetConflictError,
        "read_set_conflict",
        Conflict,
        409,
        "conflict",
        {"read_set_conflict": {"member": "branch:main", "expected": "a", "actual": "b"}},
    ),
    Row(
        lambda: KeyConflictError(entity_kind="node", type_name="Paper", entity_id="p1"),
        KeyConflictError,
        "key_conflict",
        Conflict,
        409,
        "conflict",
        {"key_conflict": {"entity_kind": "node", "type_name": "Paper", "entity_id": "p1"}},
    ),
    Row(
        lambda: MergeConflictError([{"table_key": "node:A", "kind": "k", "message": "m"}]),
        MergeConflictError,
        "merge_conflict",
        MergeConflict,
        409,
        "conflict",
        {"merge_conflicts": [{"table_key": "node:A", "kind": "k", "message": "m"}]},
    ),
    Row(
        lambda: CheckFailedError("q", [{"a": 1}], 4),
        CheckFailedError,
        "merge_check_failed",
        Conflict,
        409,
        "conflict",
        {"merge_check": {"query_name": "q", "row_count": 4, "rows": [{"a": 1}]}},
    ),
    Row(
        lambda: AlreadyInitializedError("m"),
        AlreadyInitializedError,
        "already_initialized",
        AlreadyExists,
        409,
        "conflict",
        {},
    ),
    Row(
        lambda: PreconditionFailedError(expected="c1", actual="c2"),
        PreconditionFailedError,
        "precondition_failed",
        Conflict,
        412,
        None,
        {"precondition_failure": {"expected": "c1", "actual": "c2"}},
    ),
    Row(
        lambda: ResourceLimitError(resource="rows", limit=8192, actual=9000),
        ResourceLimitError,
        "resource_limit",
        LimitExceeded,
        413,
        "bad_request",
        {"resource_limit": {"resource": "rows", "limit": 8192, "actual": 9000}},
    ),
    Row(
        lambda: RecoveryRequiredError(operation_id="op1"),
        RecoveryRequiredError,
        "recovery_required",
        RecoveryRequired,
        503,
        None,
        {"recovery_required": {"operation_id": "op1"}},
    ),
    Row(
        lambda: DriftError(
            table_path="nodes/1", verdict="foreign", published_version=3, head_version=4
        ),
        DriftError,
        "drift",
        RecoveryRequired,
        503,
        None,
        {
            "drift": {
                "table_path": "nodes/1",
                "verdict": "foreign",
                "published_version": 3,
                "head_version": 4,
            }
        },
    ),
    Row(
        lambda: FormatVersionError(found=1, supported=2, remedy="export, init, load"),
        FormatVersionError,
        "format_version",
        FormatError,
        500,
        "internal",
        {},
    ),
    Row(
        lambda: ChangeFeedGapError(cursor="cur", first_unreadable_commit_id="c1"),
        ChangeFeedGapError,
        "change_feed_gap",
        NotFound,
        410,
        None,
        {"change_feed_gap": {"cursor": "cur", "first_unreadable_commit_id": "c1"}},
    ),
    Row(
        lambda: VersionReclaimedError("m"),
        VersionReclaimedError,
        "version_reclaimed",
        NotFound,
        410,
        "not_found",
        {},
    ),
    Row(
        lambda: CursorRejectedError("m"),
        CursorRejectedError,
        "cursor_rejected",
        InvalidInput,
        400,
        "bad_request",
        {},
    ),
    Row(
        lambda: DiffRefusedError(reason="schema_boundary", graph_commit_id="c1", type_name="Paper"),
        DiffRefusedError,
        "diff_refused",
        Conflict,
        409,
        "conflict",
        {
            "change_diff_refusal": {
                "reason": "schema_boundary",
                "graph_commit_id": "c1",
                "type_name": "Paper",
            }
        },
    ),
    Row(
        lambda: ExternalBlobPolicyError("m"),
        ExternalBlobPolicyError,
        "external_blob_policy",
        InvalidInput,
        400,
        "bad_request",
        {},
    ),
    Row(
        lambda: ExternalBlobSourceError(uri="s3://b/k", reason="denied"),
        ExternalBlobSourceError,
        "external_blob_source",
        StorageFailure,
        424,
        None,
        {"external_blob_source": {"uri": "s3://b/k", "reason": "denied"}},
    ),
    Row(
        lambda: BlobRangeError(start=5, end=9, length=3),
        BlobRangeError,
        "blob_range",
        InvalidInput,
        416,
        "bad_request",
        {"blob_range": {"start": 5, "end": 9, "length": 3}},
    ),
    Row(
        lambda: TooManyRequestsError("m", retry_after_s=3),
        TooManyRequestsError,
        "too_many_requests",
        LimitExceeded,
        429,
        "too_many_requests",
        {},
    ),
    Row(lambda: EmbeddingError("m"), EmbeddingError, "embedding", StorageFailure, 424, None, {}),
    Row(lambda: StorageError("m"), StorageError, "storage", StorageFailure, 500, "internal", {}),
    Row(lambda: InternalError("m"), InternalError, "internal", InternalError, 500, "internal", {}),
    # Ours: refused rows, a taken name, a commit nobody can tell the fate of.
    Row(
        lambda: DataError("m", problems=[{"line": 3, "message": "x"}]),
        DataError,
        "data",
        InvalidInput,
        400,
        "bad_request",
        {"data_errors": {"problems": [{"line": 3, "message": "x"}]}},
    ),
    Row(
        lambda: AlreadyExistsError("m"),
        AlreadyExistsError,
        "already_exists",
        AlreadyExists,
        409,
        "conflict",
        {},
    ),
    Row(
        lambda: OutcomeUnknownError("m", operation_id="op1"),
        OutcomeUnknownError,
        "outcome_unknown",
        OutcomeUnknown,
        500,
        "internal",
        {},
    ),
]
IDS = [row.cls.__name__ for row in ROWS]


def classes() -> list[type[OmniGraphError]]:
    members = [value for _, value in inspect.getmembers(errors, inspect.isclass)]
    return [cls for cls in members if issubclass(cls, OmniGraphError)]


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_each_error_has_the_wire_form_of_the_specification(row: Row) -> None:
    error = row.make()
    assert type(error) is row.cls
    assert error.http_status == row.status
    assert error.code == row.code
    assert error.kind == ErrorKind(row.kind)
    body = json.loads(json.dumps(error.to_json()))
    assert body.pop("error") == error.message == str(error)
    assert body.pop("type") == row.kind
    assert body.pop("code", None) == row.code
    assert body.pop("hint", None) == error.hint
    assert body == row.detail


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_each_error_belongs_to_the_category_of_the_next_move(row: Row) -> None:
    assert issubclass(row.cls, row.category)
    assert row.category in CATEGORIES


def test_the_table_names_every_class_that_is_raised() -> None:
    groups = {*CATEGORIES, OmniGraphError} - {InternalError}
    assert {row.cls for row in ROWS} == set(classes()) - groups
    assert len(IDS) == len(set(IDS))


def test_categories_hang_below_the_root() -> None:
    assert {cls for cls in classes() if OmniGraphError in cls.__bases__} == CATEGORIES
    assert OmniGraphError.__bases__ == (Exception,)


def test_kinds_are_unique_and_complete() -> None:
    kinds = [row.cls.kind for row in ROWS]
    assert len(kinds) == len(set(kinds))
    assert set(kinds) == set(ErrorKind)
    assert len(ErrorKind.__members__) == len(set(ErrorKind))


def test_every_409_is_a_conflict_error() -> None:
    conflicts = {row.cls for row in ROWS if row.status == 409}
    assert conflicts == {cls for cls in classes() if issubclass(cls, ConflictError)}
    assert len(conflicts) == 9


def test_codes_are_those_of_the_closed_wire_enum() -> None:
    assert {row.code for row in ROWS if row.code is not None} <= {
        "unauthorized",
        "forbidden",
        "bad_request",
        "not_found",
        "method_not_allowed",
        "conflict",
        "too_many_requests",
        "internal",
    }


def test_a_status_without_a_code_is_one_the_wire_enum_does_not_know() -> None:
    assert {row.status for row in ROWS if row.code is None} == {410, 412, 424, 503}


def test_the_tree_in_the_docstring_names_every_class() -> None:
    assert errors.__doc__ is not None
    missing = [cls.__name__ for cls in classes() if cls.__name__ not in errors.__doc__]
    assert not missing


def test_a_hint_travels_with_the_error() -> None:
    error = ConflictError("the handle is stale", hint="refresh")
    assert error.hint == "refresh"
    assert error.to_json() == {
        "error": "the handle is stale",
        "type": "conflict",
        "code": "conflict",
        "hint": "refresh",
    }


def test_a_version_conflict_reads_as_the_specification_shows() -> None:
    error = VersionConflictError(table_key="node:Paper", expected=12, actual=13)
    assert error.message == "table node:Paper moved from version 12 to 13"
    assert (error.table_key, error.expected, error.actual) == ("node:Paper", 12, 13)


def test_a_rejected_cursor_keeps_its_prefix() -> None:
    assert str(CursorRejectedError("damaged")) == "change cursor rejected: damaged"


def test_a_merge_conflict_summarises_the_first_three() -> None:
    found = [{"table_key": "node:A", "message": f"m{number}"} for number in range(5)]
    error = MergeConflictError(found)
    assert str(error) == "5 conflicts, nothing merged: m0; m1; m2; and 2 more"
    assert error.conflicts == tuple(found)
    assert error.to_json()["merge_conflicts"] == found


def test_absent_details_are_left_out() -> None:
    unnamed = KeyConflictError(entity_kind="edge", type_name="E", entity_id=None)
    assert unnamed.to_json()["key_conflict"] == {"entity_kind": "edge", "type_name": "E"}
    started = ChangeFeedGapError(cursor=None, first_unreadable_commit_id="c1")
    assert started.to_json()["change_feed_gap"] == {"first_unreadable_commit_id": "c1"}
    untyped = DiffRefusedError(reason="unknown", graph_commit_id="c1")
    assert untyped.to_json()["change_diff_refusal"] == {
        "reason": "unknown",
        "graph_commit_id": "c1",
    }
    assert "data_errors" not in DataError("m").to_json()


@pytest.mark.parametrize(
    ("expected", "actual", "message"),
    [
        ("a", "b", "branch:main changed from a to b before the commit"),
        (None, "b", "branch:main changed to b before the commit"),
        ("a", None, "branch:main changed from a before the commit"),
        (None, None, "branch:main changed before the commit"),
    ],
)
def test_a_read_set_conflict_names_only_the_values_it_knows(
    expected: str | None, actual: str | None, message: str
) -> None:
    error = ReadSetConflictError(member="branch:main", expected=expected, actual=actual)
    assert error.message == message
    known = {"member": "branch:main", "expected": expected, "actual": actual}
    assert error.to_json()["read_set_conflict"] == {
        name: value for name, value in known.items() if value is not None
    }


def test_a_failed_precondition_says_when_there_is_no_head() -> None:
    moved = PreconditionFailedError(expected="c1", actual="c2")
    assert moved.message == "the branch head is c2, not the expected c1"
    empty = PreconditionFailedError(expected="c1", actual=None)
    assert empty.message == "the branch has no head, not the expected c1"
    assert empty.to_json()["precondition_failure"] == {"expected": "c1"}


def test_every_detail_is_an_attribute_and_has_a_place_on_the_wire() -> None:
    for row in ROWS:
        error = row.make()
        assert set(error.details) <= {*row.cls.detail_fields, "problems"}
        assert all(hasattr(error, name) for name in row.cls.detail_fields)
        assert row.cls.detail_name is not None or not error.details


@pytest.mark.parametrize("failure", StorageFailureKind)
def test_only_a_transient_storage_failure_is_worth_repeating(failure: StorageFailureKind) -> None:
    error = StorageError("m", failure=failure)
    assert error.failure is failure
    assert error.retryable is (failure is StorageFailureKind.TRANSIENT)


def test_storage_failures_are_the_kinds_of_the_specification() -> None:
    assert {str(kind) for kind in StorageFailureKind} == {
        "transient",
        "configuration",
        "not_found",
        "precondition",
        "permanent",
        "unknown",
    }


def test_a_format_error_names_both_formats_and_the_remedy() -> None:
    error = FormatVersionError(found=1, supported=2, remedy="export, init, load")
    assert "format 1" in error.message
    assert "format 2" in error.message
    assert error.hint == error.remedy == "export, init, load"
    assert "no format stamp" in str(FormatVersionError(found=None, supported=2, remedy="x"))


def test_an_unknown_outcome_says_how_to_repeat_it() -> None:
    error = OutcomeUnknownError("no answer", operation_id="op1")
    assert error.operation_id == "op1"
    assert error.hint is not None
    assert "op1" in error.hint


def test_a_throttled_caller_is_told_how_long_to_wait() -> None:
    assert TooManyRequestsError("m", retry_after_s=7).retry_after_s == 7


def test_a_compile_error_without_findings_has_no_span() -> None:
    assert CompileError([]).span is None
