"""How routes describe what they answer in the published interface."""

from __future__ import annotations

from typing import Any

from omnigraph.values.failures import ErrorOutput
from omnigraph.values.headers import IDEMPOTENCY_KEY, IF_COMMIT, JSON, MESSAGE
from omnigraph.values.schemas import ref
from omnigraph.values.value import Value

_WORDS = {
    400: "The request is wrong.",
    401: "A token is missing, or it is not known.",
    403: "The policy does not allow it.",
    404: "Something named does not exist, or not for this caller.",
    405: "Not on this server.",
    406: "No form of the answer is one the caller accepts.",
    409: "The graph is not in the state the caller worked from.",
    410: "What was asked for is no longer kept.",
    412: "The head is not the expected commit.",
    413: "The request is too large.",
    415: "The content type is wrong.",
    416: "The range lies outside the value.",
    422: "The key was used for another request.",
    424: "Something outside could not be read.",
    429: "Too many requests of this actor are waiting.",
    500: "The server failed to answer.",
    504: "The query took longer than it may.",
    503: "Not now: an interrupted write is in the way, or the server is busy.",
}
_HEADERS: dict[str, tuple[str, str | None]] = {
    IF_COMMIT: ("Fail unless this commit is the head.", "^[0-9A-HJKMNP-TV-Z]{26}$"),
    IDEMPOTENCY_KEY: ("Makes the request safe to repeat.", "^[!-~]{1,128}$"),
    MESSAGE: ("What the commit says about itself, percent-encoded UTF-8.", None),
    "If-Match": ("Entity tags, compared strongly, or *.", None),
    "If-None-Match": ("Entity tags, compared weakly, or *.", None),
    "Range": ("One range of bytes; others are ignored.", None),
    "If-Range": ("A strong entity tag; else the value is sent whole.", None),
}
READS = (400, 404, 406, 410, 413, 429, 504)
WRITES = (400, 404, 409, 413, 415, 422, 424, 429, 503)

Responses = dict[int | str, dict[str, object]]


def body(*kinds: type[Value]) -> dict[str, object]:
    """Describe an answer that is one of some values."""
    schemas = [ref(kind) for kind in kinds]
    return {"content": {JSON: {"schema": schemas[0] if len(kinds) == 1 else {"anyOf": schemas}}}}


def answers(*kinds: type[Value]) -> Responses:
    """Describe what a route answers when all is well."""
    return {200: body(*kinds)}


def errors(*statuses: int) -> Responses:
    """Describe the failures of a route; others follow the same form."""
    responses: Responses = {
        status: {"description": _WORDS[status], **body(ErrorOutput)} for status in statuses
    }
    responses["default"] = {"description": "Any other failure.", **body(ErrorOutput)}
    return responses


def complete(path: str, method: str, operation: dict[str, Any]) -> None:
    """Add to an operation what holds for many: headers it reads, failures any of them may have."""
    given = operation.setdefault("parameters", [])
    known = {item["name"] for item in given}
    headers = [IF_COMMIT, IDEMPOTENCY_KEY, MESSAGE] if "422" in operation["responses"] else []
    if path.endswith("/blob"):
        headers += ["If-Match", "If-None-Match"]
        headers += ["Range", "If-Range"] if method == "get" else []
    given += [_header(name) for name in headers if name not in known]
    if not given:
        del operation["parameters"]
    if "default" in operation["responses"]:
        for status in (401, 403, 500):
            response = {"description": _WORDS[status], **body(ErrorOutput)}
            operation["responses"].setdefault(str(status), response)


def _header(name: str) -> dict[str, object]:
    words, pattern = _HEADERS[name]
    schema: dict[str, str] = {"type": "string"}
    if pattern is not None:
        schema["pattern"] = pattern
    return {"name": name, "in": "header", "required": False, "description": words, "schema": schema}


def deprecated(successor: str) -> dict[str, str]:
    """Return the headers of an answer under an older name."""
    return {"Deprecation": "true", "Link": f'<{successor}>; rel="successor-version"'}
