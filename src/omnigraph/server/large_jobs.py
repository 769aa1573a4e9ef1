"""What a server and a process that runs large queries for it tell each other."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from omnigraph.embed import Embedder
from omnigraph.errors import OmniGraphError
from omnigraph.server.http_errors import Failure, failure
from omnigraph.store import GivenOptions
from omnigraph.values.results import Explanation

_LENGTH: Final = struct.Struct("<Q")


class Job(Struct, frozen=True, kw_only=True):
    """A query that is allowed already."""

    uri: str
    reach: GivenOptions | None
    embedder: Embedder | None
    source: str
    params: Mapping[str, object] | None
    name: str | None
    state: Mapping[str, Any]
    explain: bool = False
    timeout_s: float = 0.0
    path: str = ""
    """The file for the rows."""


class Rows(Struct, frozen=True, kw_only=True):
    """The rows are in the file; this is what they are the answer to."""

    query_name: str
    commit_id: str
    target: dict[str, str | None]
    column_types: Sequence[Mapping[str, object]]


class Refused(Struct, frozen=True):
    """What the client is told instead."""

    failure: Failure

    @classmethod
    def of(cls, error: OmniGraphError) -> Refused:
        """Return the answer to a query that failed."""
        return cls(failure(error))


Reply = Rows | Explanation | Refused


class Source(Protocol):
    """Where messages come from."""

    def read(self, size: int, /) -> bytes | None:
        """Return some bytes, none at the end."""


def encoded(message: Job | Reply) -> bytes:
    """Return a message as it is sent."""
    content = pickle.dumps(message)
    return _LENGTH.pack(len(content)) + content


def read_message(source: Source) -> Any:  # noqa: ANN401  # a job or a reply
    """Return the next message; None at the end. Both ends are one program of one user."""
    head = _exactly(source, _LENGTH.size)
    content = None if head is None else _exactly(source, _LENGTH.unpack(head)[0])
    return None if content is None else pickle.loads(content)  # noqa: S301  # see above


def _exactly(source: Source, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        part = source.read(size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
