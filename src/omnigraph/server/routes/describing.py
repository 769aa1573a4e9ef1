"""How routes describe what they answer in the published interface."""

from __future__ import annotations

from typing import Any

from omnigraph.values.answers import ErrorOutput
from omnigraph.values.headers import JSON
from omnigraph.values.schemas import ref
from omnigraph.values.value import Value

_WORDS = {
    400: "The request is wrong.",
    404: "Something named does not exist, or not for this caller.",
    405: "Not on this server.",
    409: "The graph is not in the state the caller worked from.",
    410: "What was asked for is no longer kept.",
    412: "The head is not the expected commit.",
    413: "The request is too large.",
    415: "The content type is wrong.",
    416: "The range lies outside the value.",
    424: "Something outside could not be read.",
    429: "Too many writes of this actor are waiting.",
    503: "Not now: an interrupted write is in the way, or the server is busy.",
}
WRITES = (400, 404, 409, 413, 415, 424, 429, 503)

Responses = dict[int | str, dict[str, Any]]


def body(*kinds: type[Value]) -> dict[str, Any]:
    """Describe an answer that is one of some values."""
    schemas = [ref(kind) for kind in kinds]
    return {"content": {JSON: {"schema": schemas[0] if len(kinds) == 1 else {"anyOf": schemas}}}}


def answers(*kinds: type[Value]) -> Responses:
    """Describe what a route answers when all is well."""
    return {200: body(*kinds)}


def errors(*statuses: int) -> Responses:
    """Describe the failures of a route; others follow the same form."""
    found: Responses = {
        status: {"description": _WORDS[status], **body(ErrorOutput)} for status in statuses
    }
    found["default"] = {"description": "Any other failure.", **body(ErrorOutput)}
    return found


def deprecated(successor: str) -> dict[str, str]:
    """Return the headers of an answer under an older name."""
    return {"Deprecation": "true", "Link": f'<{successor}>; rel="successor-version"'}
