"""Failures a server reports, as the same exceptions the embedded engine raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omnigraph import errors
from omnigraph.errors import (
    BadRequestError,
    CompileError,
    ConflictError,
    DataError,
    InternalError,
    MergeConflictError,
    NotFoundError,
    OmniGraphError,
    OutcomeUnknownError,
    PolicyDeniedError,
    PreconditionFailedError,
    ResourceLimitError,
    StorageError,
    StorageFailureKind,
    TooManyRequestsError,
    UnauthorizedError,
)

Body = Mapping[str, Any]
_BY_STATUS: dict[int, type[OmniGraphError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: PolicyDeniedError,
    404: NotFoundError,
    409: ConflictError,
    412: PreconditionFailedError,
    413: ResourceLimitError,
    429: TooManyRequestsError,
    503: StorageError,
}
# Where several classes share a kind, the one people catch.
_PREFERRED = {"bad_request": BadRequestError, "policy_denied": PolicyDeniedError}


class RemoteDiagnostic:
    """A compiler's finding that came over the wire."""

    def __init__(self, body: Body) -> None:
        self._body = dict(body)

    def render(self) -> str:
        """Return text for people."""
        body = self._body
        place = f"{body.get('file')}:{body.get('line')}:{body.get('column')}"
        text = f"{place}: {body.get('severity')}[{body.get('code')}]: {body.get('message')}"
        return f"{text}\n = help: {body['hint']}" if body.get("hint") else text

    def to_json(self) -> dict[str, object]:
        """Return it as plain data."""
        return dict(self._body)


def error_from(status: int, body: Body) -> OmniGraphError:
    """Return the exception a failure stands for; unknown kinds fall back to the status."""
    cls = _class_of(status, body.get("type"))
    error = cls.__new__(cls)
    OmniGraphError.__init__(error, str(body.get("error", "")), hint=body.get("hint"))
    for name, value in _attributes(cls, body):
        setattr(error, name, value)
    return error


def _class_of(status: int, kind: object) -> type[OmniGraphError]:
    if kind in _PREFERRED:
        return _PREFERRED[str(kind)]
    for cls in _leaves(OmniGraphError):
        if str(cls.kind) == kind and cls.__module__ == errors.__name__:
            return cls
    return _BY_STATUS.get(status, InternalError if status >= 500 else BadRequestError)


def _leaves(cls: type[OmniGraphError]) -> Iterator[type[OmniGraphError]]:
    """Yield classes, the most special ones first."""
    for child in cls.__subclasses__():
        yield from _leaves(child)
    yield cls


def _attributes(cls: type[OmniGraphError], body: Body) -> Iterator[tuple[str, object]]:
    details = body.get(cls.detail_name, {}) if cls.detail_name is not None else {}
    for name in cls.detail_fields:
        yield name, details.get(name)
    if issubclass(cls, CompileError):
        yield "diagnostics", tuple(RemoteDiagnostic(item) for item in body.get("diagnostics", ()))
    elif issubclass(cls, MergeConflictError):
        yield "conflicts", tuple(dict(item) for item in body.get("merge_conflicts", ()))
    elif issubclass(cls, DataError):
        yield "problems", tuple(dict(item) for item in details.get("problems", ()))
    elif issubclass(cls, PolicyDeniedError):
        yield "denied", dict(details)
    elif issubclass(cls, StorageError):
        yield "failure", StorageFailureKind.UNKNOWN
    elif issubclass(cls, OutcomeUnknownError):
        yield "operation_id", ""
    elif issubclass(cls, TooManyRequestsError):
        yield "retry_after_s", 0
