"""The table of exit codes is complete, and scripts can rely on it."""

from __future__ import annotations

import inspect

import pytest

from omnigraph import errors
from omnigraph.cli import exit_codes
from omnigraph.cli.exit_codes import EXIT_CODES
from omnigraph.error_kinds import ErrorKind
from omnigraph.errors import NotFoundError, OmniGraphError, PreconditionFailedError

EXPECTED = {
    1: {
        "compile",
        "query",
        "bad_request",
        "data",
        "cursor_rejected",
        "external_blob_policy",
        "blob_range",
        "change_feed_gap",
        "version_reclaimed",
        "storage",
        "external_blob_source",
        "embedding",
        "outcome_unknown",
        "format_version",
        "internal",
    },
    3: {"not_found"},
    4: {"precondition_failed"},
    5: {
        "conflict",
        "version_conflict",
        "read_set_conflict",
        "key_conflict",
        "diff_refused",
        "already_exists",
        "already_initialized",
        "merge_conflict",
        "merge_check_failed",
        "too_many_requests",
    },
    6: {"unauthorized", "policy_denied"},
    7: {"recovery_required", "drift"},
    8: {"resource_limit"},
}


def _classes() -> list[type[OmniGraphError]]:
    members = (value for _, value in inspect.getmembers(errors, inspect.isclass))
    return [value for value in members if issubclass(value, OmniGraphError)]


def test_every_kind_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == set(ErrorKind)


@pytest.mark.parametrize("kind", ErrorKind)
def test_each_kind_has_its_published_code(kind: ErrorKind) -> None:
    assert str(kind) in EXPECTED[EXIT_CODES[kind]]


def test_the_published_table_names_every_kind_once() -> None:
    listed = [kind for kinds in EXPECTED.values() for kind in kinds]
    assert sorted(listed) == sorted(map(str, ErrorKind))


def test_the_codes_are_the_published_numbers() -> None:
    assert tuple(range(10)) == (
        exit_codes.OK,
        exit_codes.FAILURE,
        exit_codes.USAGE,
        exit_codes.NOT_FOUND,
        exit_codes.PRECONDITION,
        exit_codes.CONFLICT,
        exit_codes.DENIED,
        exit_codes.RECOVERY,
        exit_codes.LIMIT,
        exit_codes.PREVIEW_CONFLICTS,
    )


def test_no_error_counts_as_success_misuse_or_a_preview() -> None:
    others = {exit_codes.OK, exit_codes.USAGE, exit_codes.PREVIEW_CONFLICTS}
    assert not others & set(EXIT_CODES.values())


def test_an_error_exits_with_the_code_of_its_kind() -> None:
    assert exit_codes.exit_code(NotFoundError("no such branch")) == 3
    assert exit_codes.exit_code(PreconditionFailedError(expected="a", actual="b")) == 4


@pytest.mark.parametrize("error", _classes(), ids=lambda error: error.__name__)
def test_exit_codes_agree_with_http_statuses(error: type[OmniGraphError]) -> None:
    code = EXIT_CODES[error.kind]
    by_status = {401: 6, 403: 6, 404: 3, 409: 5, 412: 4, 413: 8, 429: 5, 503: 7}
    assert code == by_status.get(error.http_status, 1)
