"""The published interface as tests use it: requests that succeed, and what answers must keep to."""

from __future__ import annotations

import io
import itertools
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from omnigraph.values.headers import PARQUET
from tests.server.helpers import ADD, ALL, SCHEMA, Api

load_all_checks()

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"


def no_failure_of_the_server(context: Any, response: Any, case: Any) -> bool | None:
    """Check that the server did not fail. Out of the time that a request gave is none."""
    if response.status_code == 504 and "timeout" in repr(case.body):
        return None
    found: bool | None = not_a_server_error(context, response, case)
    return found


CHECKS = [
    no_failure_of_the_server,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
document: dict[str, Any] = json.loads(DOCUMENT.read_text(encoding="utf-8"))
described = schemathesis.openapi.from_dict(document)
described.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])


@schemathesis.serializer("application/x-ndjson")
def _lines(_context: Any, value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


@schemathesis.serializer(PARQUET)
def _file(_context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"name": ["cleo"]}), out)
    return out.getvalue()


STORED = {"a.gq": ALL, "b.gq": ADD}
"""Stored queries: one that reads and one that writes."""
ROWS = (
    '{"type":"Person","data":{"name":"ann","age":31,"face":"base64:aGVsbG8="}}\n'
    '{"type":"Person","data":{"name":"bob"}}\n'
    '{"edge":"Knows","from":"ann","to":"bob","data":{"since":"2020-01-02"}}\n'
)
FACE = {"entity": "node", "type": "Person", "id": "ann", "property": "face"}
ANN = {"type": "Person", "id": "ann"}
IF_HEAD = "Omnigraph-If-Graph-Commit"


@dataclass
class Known:
    """What there is to name: made at the start, or told by earlier answers."""

    head: str = ""
    commit: str = ""
    branch: str = "work"
    tag: str = "old"
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def new(self) -> str:
        """Return a name that nothing has."""
        return f"new-{next(self.numbers)}"


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of one request."""

    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    media_type: str = "application/json"


def _adding(known: Known) -> dict[str, Any]:
    return {"query": ADD, "params": {"n": known.new()}}


def _body(**members: Any) -> Callable[[Known], Parts]:
    return lambda _known: Parts(body=members)


def _asks(**parameters: Any) -> Callable[[Known], Parts]:
    return lambda _known: Parts(query=parameters)


# In an order in which each finds what it needs.
GOOD: dict[str, Callable[[Known], Parts]] = {
    "access": _asks(branch="main"),
    "getSchema": _asks(),
    "schema_types": _asks(branch="main"),
    "plan_schema": _body(schema_source=SCHEMA),
    "lint": _body(source=ALL),
    "load": _body(data=ROWS, mode="merge"),
    "ingest": _body(data=ROWS, mode="merge"),
    "loadNdjson": lambda _known: Parts(
        query={"mode": "merge"}, body=ROWS, media_type="application/x-ndjson"
    ),
    "loadParquet": lambda _known: Parts(
        query={"type": "Person"}, body=_parquet(), media_type=PARQUET
    ),
    "parquet_columns": lambda _known: Parts(body=_parquet(), media_type=PARQUET),
    "mutate": lambda known: Parts(body=_adding(known)),
    "change": lambda known: Parts(body=_adding(known)),
    "mutate_if_graph_commit": lambda known: Parts(
        headers={IF_HEAD: known.head}, body=_adding(known)
    ),
    "query": _body(query=ALL),
    "read": _body(query_source=ALL),
    "list_queries": _asks(),
    "invoke_query": lambda _known: Parts(path={"name": "all"}, body={}),
    "invoke_query_if_graph_commit": lambda known: Parts(
        path={"name": "add"}, headers={IF_HEAD: known.head}, body={"params": {"n": known.new()}}
    ),
    "export": _body(),
    "listCommits": _asks(limit=3),
    "getCommit": lambda known: Parts(path={"commit_id": known.commit}),
    "getCommitChanges": lambda known: Parts(path={"commit_id": known.commit}),
    "revert": lambda known: Parts(path={"commit_id": known.commit}, body={}),
    "pick": lambda known: Parts(path={"commit_id": known.commit}, body={}),
    "history": _asks(limit=3),
    "diff": lambda known: Parts(query={"from": known.commit, "to": "main"}),
    "blame": _asks(**ANN),
    "entity": _asks(table="node:Person", id="ann"),
    "entity_history": _asks(**ANN),
    "neighbours": _asks(**ANN),
    "subgraph": _body(nodes=[["Person", "ann"], ["Person", "bob"]]),
    "getBlob": _asks(**FACE),
    "headBlob": _asks(**FACE),
    "pollChanges": _asks(start="beginning"),
    "captureChangeBaseline": _body(),
    "getSnapshot": _asks(branch="main"),
    "createBranch": lambda known: Parts(body={"name": known.new()}),
    "listBranches": _asks(),
    "branch_heads": _asks(base="main"),
    "merge_preview": lambda known: Parts(body={"source": known.branch}),
    "mergeBranches": lambda known: Parts(body={"source": known.branch}),
    "deleteBranch": lambda known: Parts(path={"branch": known.branch}),
    "create_tag": lambda known: Parts(body={"name": known.new()}),
    "list_tags": _asks(),
    "delete_tag": lambda known: Parts(path={"name": known.tag}),
    "tables": _asks(branch="main"),
    "recoveries": _asks(),
    "recover": _asks(),
    "optimize": _body(dry_run=True),
    "repair": _body(),
    "cleanup": _body(dry_run=True, keep_versions=100),
    "applySchema": _body(schema_source=SCHEMA),
}


def prepare(api: Api) -> Known:
    """Fill a server with what the requests name."""
    api.load(ROWS)
    api.ok(api.post("/branches", {"name": "work"}))
    api.add("on-work", branch="work")
    api.ok(api.post("/tags", {"name": "old"}))
    added = api.add("first")["commit"]["graph_commit_id"]
    return Known(head=added, commit=added)


def operation_id(case: schemathesis.Case[Any]) -> str:
    """Return the name of the operation a case is of."""
    found: str = case.operation.definition.raw["operationId"]
    return found


def make_good(case: schemathesis.Case[Any], known: Known) -> None:
    """Put what is known into three of four generated requests, so that many of them succeed.

    A third of those keep what else was generated.
    """
    good = GOOD.get(operation_id(case).removeprefix("cluster_"))
    drawn = zlib.crc32(repr((case.path_parameters, case.query, case.body)).encode()) % 4
    if good is None or drawn == 0:
        return
    parts, keeps = good(known), drawn == 1
    for name in ("query", "headers"):
        before = dict(getattr(case, name) or {}) if keeps else {}
        setattr(case, name, {**before, **getattr(parts, name)})
    case.path_parameters = {**(case.path_parameters or {}), **parts.path}
    if "graph_id" in case.path_parameters:
        case.path_parameters["graph_id"] = "default"
    if parts.body is not None:
        generated: Any = case.body if keeps and isinstance(case.body, dict) else {}
        is_object = isinstance(parts.body, dict)
        case.body = {**generated, **parts.body} if is_object else parts.body
        case.media_type = parts.media_type
