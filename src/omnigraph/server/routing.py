"""Which worker a write belongs to: the writes of a branch meet in one process.

Nothing rests on it but speed. A write that is not recognised here is run where it arrived.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qs

import msgspec

from omnigraph.cluster import StoredQuery
from omnigraph.values.commits import MAIN

NESTED: Final = "/graphs/{graph_id}"
_IN_BODY: Final = frozenset(
    {"/mutate", "/change", "/mutate/if-graph-commit", "/load", "/ingest", "/branches/merge"}
)
_FILES: Final = frozenset({"/load/ndjson", "/load/parquet"})


class _Named(msgspec.Struct):
    """The branch that a body names; a merge names the one it writes to as its target."""

    branch: str | None = None
    target: str | None = None


_decode = msgspec.json.Decoder(_Named).decode


class Write(msgspec.Struct, frozen=True):
    """A request that writes: its route, and the branch it writes to."""

    route: str
    branch: str


def write_of(
    method: str, path: str, query: bytes, body: bytes, queries: Mapping[str, StoredQuery]
) -> Write | None:
    """Return the write that a request is; None for what reads, and for what names no branch.

    The path may begin with a graph. A body that cannot be read is for the route to refuse.
    """
    if method != "POST":
        return None
    nested, below = _below(path)
    match = _route(below, queries)
    if match is None:
        return None
    route, branch_of = match
    try:
        branch = branch_of(query, body) or MAIN
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
        return None
    return Write(f"{NESTED}{route}" if nested else route, branch.strip())


def _below(path: str) -> tuple[bool, str]:
    if not path.startswith("/graphs/"):
        return False, path
    _graph_id, separator, rest = path[len("/graphs/") :].partition("/")
    return True, separator + rest


BranchOf = Callable[[bytes, bytes], str | None]


def _route(below: str, queries: Mapping[str, StoredQuery]) -> tuple[str, BranchOf] | None:
    if below in _IN_BODY:
        return below, _target if below == "/branches/merge" else _branch
    if below in _FILES:
        return below, _parameter
    parts = below.split("/")
    if parts[1:2] == ["queries"] and parts[3:] in ([], ["if-graph-commit"]):
        stored = queries.get(parts[2]) if len(parts) > 2 else None
        if stored is not None and stored.mutation:
            return "/".join(["/queries/{name}", *parts[3:]]), _branch
    if parts[1:2] == ["commits"] and parts[3:] in (["revert"], ["pick"]):
        return f"/commits/{{commit_id}}/{parts[3]}", _branch
    return None


def _branch(_query: bytes, body: bytes) -> str | None:
    return _decode(body).branch if body else None


def _target(_query: bytes, body: bytes) -> str | None:
    return _decode(body).target if body else None


def _parameter(query: bytes, _body: bytes) -> str | None:
    return parse_qs(query.decode()).get("branch", [None])[0]


def owners(graph_id: str, branch: str, workers: int) -> list[int]:
    """Return all workers, the one that a branch belongs to first.

    While a worker is away its branches go to others, and no other branch moves.
    """

    def weight(worker: int) -> bytes:
        text = msgspec.json.encode((graph_id, branch, worker))
        return hashlib.blake2b(text, digest_size=8).digest()

    return sorted(range(workers), key=weight)
