"""What a client is told about a failure."""

from __future__ import annotations

import pytest

from omnigraph import errors
from omnigraph.server.http_errors import HttpProblem, failure, invalid_request


@pytest.mark.parametrize(
    ("error", "status", "headers"),
    [
        (errors.BadRequestError("x"), 400, {}),
        (errors.UnauthorizedError("x"), 401, {"WWW-Authenticate": "Bearer"}),
        (errors.TooManyRequestsError("x", retry_after_s=7), 429, {"Retry-After": "7"}),
        (errors.RecoveryRequiredError(operation_id="op"), 503, {"Retry-After": "1"}),
        (errors.VersionReclaimedError("x"), 410, {}),
        (HttpProblem(405, "x", type_="method", headers={"Allow": "GET"}), 405, {"Allow": "GET"}),
    ],
)
def test_status_and_headers_follow_the_error(
    error: Exception, status: int, headers: dict[str, str]
) -> None:
    found = failure(error)
    assert (found.status, found.headers) == (status, headers)


def test_an_error_that_is_not_ours_says_nothing_of_itself() -> None:
    found = failure(RuntimeError("secret at /var/lib"))
    assert found.status == 500
    assert found.body["type"] == "internal"
    assert "secret" not in str(found.body)


def test_passwords_in_addresses_are_left_out() -> None:
    found = failure(errors.StorageError("cannot reach s3://me:word@host/bucket"))
    assert found.body["error"] == "cannot reach s3://host/bucket"


def test_conflicts_also_name_kind_and_type() -> None:
    body = failure(errors.MergeConflictError([{"table_key": "edge:Knows", "row_id": "e"}])).body
    assert body["merge_conflicts"] == [
        {"table_key": "edge:Knows", "row_id": "e", "entity_kind": "edge", "type_name": "Knows"}
    ]
    moved = errors.VersionConflictError(table_key="node:A", expected=1, actual=2)
    assert failure(moved).body["published_dataset_version_conflict"] == {
        "entity_kind": "node",
        "type_name": "A",
        "expected_published_dataset_version": 1,
        "actual_published_dataset_version": 2,
    }


def test_a_request_with_many_problems_names_five() -> None:
    problems = [{"loc": ("body", "rows", n), "msg": "Value error, no"} for n in range(7)]
    body = invalid_request(problems).body
    named = "; ".join(f"rows.{n}: no" for n in range(5))
    assert body["error"] == f"{named}; and 2 more"
