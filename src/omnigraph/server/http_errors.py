"""The one place where failures become HTTP: status, body and headers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.errors import (
    BlobRangeError,
    InternalError,
    MergeConflictError,
    OmniGraphError,
    RecoveryRequiredError,
    ResourceLimitError,
    TooManyRequestsError,
    UnauthorizedError,
    VersionConflictError,
)
from omnigraph.limits import QUERY_TIME

RECOVERY_RETRY_AFTER_S = 1
_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "bad_request",
    408: "bad_request",
    409: "conflict",
    413: "bad_request",
    415: "bad_request",
    421: "bad_request",
    422: "bad_request",
    429: "too_many_requests",
}
_USERINFO = re.compile(r"(?<=://)[^/@\s]*@")


class HttpProblem(Exception):
    """A failure that only exists over HTTP, such as a wrong content type."""

    def __init__(
        self, status: int, message: str, *, type_: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.type = status, message, type_
        self.headers = dict(headers or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What is sent to a client whose request failed."""

    status: int
    body: dict[str, object]
    headers: dict[str, str] = field(default_factory=dict)


class KnownFailure(Exception):
    """A failure of another process, which said already what the client is told."""

    def __init__(self, told: Failure) -> None:
        super().__init__(str(told.body.get("error")))
        self.told = told


def failure(error: BaseException) -> Failure:
    """Return what a client is told about an error. What is not ours says nothing of itself."""
    if isinstance(error, KnownFailure):
        return error.told
    if isinstance(error, HttpProblem):
        body = problem_body(error.status, error.message, type_=error.type)
        return Failure(status=error.status, body=body, headers=error.headers)
    if not isinstance(error, OmniGraphError):
        error = InternalError(
            "the server failed to answer", hint="the log has the cause under the request id"
        )
    body = error.to_json()
    if isinstance(body["error"], str):
        body["error"] = _USERINFO.sub("", body["error"])
    body |= _twins(error)
    status = error.http_status
    if isinstance(error, ResourceLimitError) and error.resource == QUERY_TIME:
        # The server gave up, whatever was sent. The closed list of codes has none for it.
        status = 504
        body.pop("code", None)
    return Failure(status=status, body=body, headers=_headers(error))


def problem_body(status: int, message: str, *, type_: str) -> dict[str, object]:
    """Return the body of a failure that has no class of its own."""
    body: dict[str, object] = {"error": message, "type": type_}
    if status in _CODES:
        body["code"] = _CODES[status]
    return body


def invalid_request(problems: Sequence[Any]) -> Failure:
    """Return what is told about a request that does not fit its description."""
    texts = []
    for item in problems[:5]:
        place = ".".join(str(part) for part in item["loc"] if part != "body")
        message = str(item["msg"]).removeprefix("Value error, ")
        texts.append(f"{place}: {message}" if place else message)
    more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
    text = "; ".join(texts) + more
    return Failure(status=400, body=problem_body(400, text, type_="bad_request"))


def _headers(error: OmniGraphError) -> dict[str, str]:
    if isinstance(error, UnauthorizedError):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, TooManyRequestsError):
        return {"Retry-After": str(error.retry_after_s)}
    if isinstance(error, BlobRangeError):
        return {"Content-Range": f"bytes */{error.length}"}
    if isinstance(error, RecoveryRequiredError):
        return {"Retry-After": str(RECOVERY_RETRY_AFTER_S)}
    return {}


def _twins(error: OmniGraphError) -> dict[str, object]:
    """Return the newer names of details, beside the older ones."""
    if isinstance(error, VersionConflictError):
        kind, _, name = error.table_key.partition(":")
        return {
            "published_dataset_version_conflict": {
                "entity_kind": kind,
                "type_name": name,
                "expected_published_dataset_version": error.expected,
                "actual_published_dataset_version": error.actual,
            }
        }
    if isinstance(error, MergeConflictError):
        return {"merge_conflicts": [_with_type(item) for item in error.conflicts]}
    return {}


def _with_type(conflict: Mapping[str, object]) -> dict[str, object]:
    kind, _, name = str(conflict.get("table_key", "")).partition(":")
    return {**conflict, "entity_kind": kind, "type_name": name}
