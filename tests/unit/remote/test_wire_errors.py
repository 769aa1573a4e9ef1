"""An error that crossed the wire is the error that was sent."""

from __future__ import annotations

import pytest

from omnigraph import errors
from omnigraph.errors import OmniGraphError
from omnigraph.remote.wire_errors import error_from
from omnigraph.server.http_errors import failure

SENT: list[OmniGraphError] = [
    errors.QueryError("too deep"),
    errors.BadRequestError("no", hint="do this"),
    errors.DataError("2 problems", problems=[{"line": 3, "message": "bad"}]),
    errors.CursorRejectedError("torn"),
    errors.BlobRangeError(start=1, end=9, length=4),
    errors.NotFoundError("gone"),
    errors.VersionReclaimedError("cleaned"),
    errors.ChangeFeedGapError(cursor=None, first_unreadable_commit_id="c1"),
    errors.UnauthorizedError("who"),
    errors.PolicyDeniedError("no", action="read", actor="a", near_rule_ids=["r"]),
    errors.ConflictError("moved"),
    errors.VersionConflictError(table_key="node:A", expected=1, actual=2),
    errors.ReadSetConflictError(member="node:A", expected=None, actual="2"),
    errors.KeyConflictError(entity_kind="node", type_name="A", entity_id="x"),
    errors.DiffRefusedError(reason="schema", graph_commit_id="c"),
    errors.AlreadyExistsError("taken"),
    errors.AlreadyInitializedError("taken"),
    errors.CheckFailedError("q", [{"n": 1}], 1),
    errors.PreconditionFailedError(expected="a", actual=None),
    errors.RecoveryRequiredError(operation_id="op"),
    errors.DriftError(table_path="p", verdict="v", published_version=1, head_version=2),
    errors.ResourceLimitError(resource="rows", limit=1, actual=2),
    errors.TooManyRequestsError("slow", retry_after_s=2),
    errors.StorageError("disk"),
    errors.ExternalBlobSourceError(uri="u", reason="r"),
    errors.EmbeddingError("model"),
    errors.OutcomeUnknownError("perhaps", operation_id="op"),
    errors.InternalError("bug"),
]


@pytest.mark.parametrize("sent", SENT, ids=lambda error: type(error).__name__)
def test_class_text_hint_and_details_come_through(sent: OmniGraphError) -> None:
    answer = failure(sent)
    found = error_from(answer.status, answer.body)
    assert type(found) is type(sent)
    assert (str(found), found.hint) == (str(sent), sent.hint)
    assert found.details == sent.details


def test_merge_conflicts_come_through() -> None:
    answer = failure(errors.MergeConflictError([{"table_key": "node:A", "row_id": "x"}]))
    found = error_from(answer.status, answer.body)
    assert isinstance(found, errors.MergeConflictError)
    assert [(c["row_id"], c["type_name"]) for c in found.conflicts] == [("x", "A")]


def test_diagnostics_come_through() -> None:
    body = {"file": "q.gq", "line": 2, "column": 5, "severity": "error", "code": "T4"}
    body |= {"message": "unknown edge", "hint": "did you mean knows?"}
    found = error_from(400, {"error": "text", "type": "compile", "diagnostics": [body]})
    assert isinstance(found, errors.CompileError)
    assert found.diagnostics[0].to_json() == body
    assert found.diagnostics[0].render() == (
        "q.gq:2:5: error[T4]: unknown edge\n = help: did you mean knows?"
    )


@pytest.mark.parametrize(
    ("status", "cls"),
    [
        (400, errors.BadRequestError),
        (401, errors.UnauthorizedError),
        (404, errors.NotFoundError),
        (409, errors.ConflictError),
        (412, errors.PreconditionFailedError),
        (418, errors.BadRequestError),
        (500, errors.InternalError),
        (502, errors.InternalError),
        (503, errors.StorageError),
    ],
)
def test_a_kind_of_a_later_release_falls_back_to_its_status(
    status: int, cls: type[OmniGraphError]
) -> None:
    found = error_from(status, {"error": "x", "type": "invented_later"})
    assert (type(found), str(found)) == (cls, "x")
