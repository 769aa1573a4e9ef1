"""The published interface: it is what the server does, whatever is sent to it."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings

from omnigraph.cli.openapi_doc import render
from omnigraph.server.gate import PROTECTED_RESOURCE
from omnigraph.server.http_errors import failure
from omnigraph.values.failures import ErrorOutput
from omnigraph.values.schemas import shape
from tests.server.helpers import TOKENS, Api, Serve
from tests.server.published import (
    CHECKS,
    DOCUMENT,
    STORED,
    Known,
    described,
    document,
    make_good,
    prepare,
)
from tests.unit.test_errors import ROWS

EXAMPLES = 100 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 5
# A server of one graph has no cluster: those paths say so whatever is sent.
flat = described.exclude(path_regex=r"^/(graphs|cluster)")


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == render(), "run `make docs`"


def test_the_document_is_of_the_promised_kind() -> None:
    assert document["openapi"].startswith("3.1.")
    operations = {
        operation["operationId"]: path
        for path, methods in document["paths"].items()
        for operation in methods.values()
    }
    nested = {name for name, path in operations.items() if path.startswith("/graphs/{graph_id}/")}
    assert nested == {name for name in operations if name.startswith("cluster_")}
    graph_routes = {name.removeprefix("cluster_") for name in nested}
    assert graph_routes <= set(operations)
    assert set(operations) - nested - graph_routes == {
        "health",
        "readyz",
        "listGraphs",
        "metrics",
        "whoami",
        "protected_resource",
        "plan_cluster",
        "deploy",
        "deployment",
        "deployment_status",
    }
    for path, methods in document["paths"].items():
        for operation in methods.values():
            open_to_all = (
                *("/healthz", "/readyz", "/graphs", "/metrics", "/whoami"),
                PROTECTED_RESOURCE,
            )
            assert ("security" in operation) == (path not in open_to_all), path
            assert operation["summary"]


# What the document of the original calls them; clients are made from it.
ORIGINAL_IDS = {
    ("get", "/healthz"): "health",
    ("get", "/graphs"): "listGraphs",
    ("get", "/blob"): "getBlob",
    ("head", "/blob"): "headBlob",
    ("get", "/branches"): "listBranches",
    ("post", "/branches"): "createBranch",
    ("post", "/branches/merge"): "mergeBranches",
    ("delete", "/branches/{branch}"): "deleteBranch",
    ("post", "/change"): "change",
    ("get", "/changes"): "pollChanges",
    ("post", "/changes/baseline"): "captureChangeBaseline",
    ("get", "/commits"): "listCommits",
    ("get", "/commits/{commit_id}"): "getCommit",
    ("get", "/commits/{commit_id}/changes"): "getCommitChanges",
    ("post", "/export"): "export",
    ("post", "/ingest"): "ingest",
    ("post", "/load"): "load",
    ("post", "/load/ndjson"): "loadNdjson",
    ("post", "/mutate"): "mutate",
    ("post", "/mutate/if-graph-commit"): "mutate_if_graph_commit",
    ("get", "/queries"): "list_queries",
    ("post", "/queries/{name}"): "invoke_query",
    ("post", "/queries/{name}/if-graph-commit"): "invoke_query_if_graph_commit",
    ("post", "/query"): "query",
    ("post", "/read"): "read",
    ("get", "/schema"): "getSchema",
    ("post", "/schema/apply"): "applySchema",
    ("get", "/snapshot"): "getSnapshot",
}


def test_operations_have_the_names_clients_know() -> None:
    found = {place: document["paths"][place[1]][place[0]]["operationId"] for place in ORIGINAL_IDS}
    assert found == ORIGINAL_IDS


def test_headers_are_declared_and_every_guarded_operation_has_its_failures() -> None:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            names = {item["name"] for item in operation.get("parameters", [])}
            if "422" in operation["responses"]:
                assert {"Idempotency-Key", "Omnigraph-If-Graph-Commit"} <= names, path
            if "security" in operation:
                assert {"401", "403", "500"} <= operation["responses"].keys(), path
    blob = document["paths"]["/blob"]["get"]["parameters"]
    assert {"Range", "If-Range", "If-Match", "If-None-Match"} <= {item["name"] for item in blob}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.cls.__name__)
def test_every_detail_of_a_failure_is_described(row: Any) -> None:
    body = json.loads(json.dumps(failure(row.make()).body))
    strict = msgspec.convert(body, shape(ErrorOutput))
    assert msgspec.to_builtins(strict) == body


def test_the_document_is_there_at_once(serve: Serve) -> None:
    api = serve()
    api.get("/openapi.json")
    begun = time.perf_counter()
    assert api.get("/openapi.json").status_code == 200
    assert time.perf_counter() - begun < 0.2


def test_every_route_is_in_the_document() -> None:
    for method, path in (
        ("get", "/healthz"), ("get", "/readyz"), ("get", "/graphs"), ("get", "/metrics"),
        ("get", "/snapshot"), ("post", "/query"), ("post", "/read"), ("post", "/mutate"),
        ("post", "/change"), ("post", "/mutate/if-graph-commit"), ("get", "/queries"),
        ("post", "/queries/{name}"), ("post", "/queries/{name}/if-graph-commit"),
        ("get", "/schema"), ("post", "/schema/apply"), ("post", "/load"), ("post", "/ingest"),
        ("post", "/load/ndjson"), ("post", "/load/parquet"), ("post", "/load/parquet/columns"),
        ("post", "/export"), ("get", "/branches"),
        ("post", "/branches"), ("delete", "/branches/{branch}"), ("post", "/branches/merge"),
        ("post", "/branches/merge/preview"), ("get", "/commits"), ("get", "/commits/{commit_id}"),
        ("get", "/commits/{commit_id}/changes"), ("get", "/changes"),
        ("post", "/changes/baseline"), ("get", "/blob"), ("head", "/blob"), ("get", "/recoveries"),
        ("post", "/recover"),
        ("get", "/whoami"), ("get", "/access"), ("post", "/lint"), ("get", "/schema/types"),
        ("get", "/branches/heads"), ("get", "/history"), ("get", "/neighbours"),
        ("post", "/subgraph"), ("get", "/entity/history"),
        ("get", "/entity"), ("post", "/cluster/plan"), ("post", "/cluster/deployments"),
    ):  # fmt: skip
        assert method in document["paths"][path], (method, path)


def test_an_open_server_publishes_no_security(serve: Serve) -> None:
    opened = serve().get("/openapi.json").json()
    assert "securitySchemes" not in opened["components"]
    assert "security" not in opened["paths"]["/query"]["post"]
    closed = serve(tokens=TOKENS).get("/openapi.json").json()
    assert closed == document
    assert closed["components"]["securitySchemes"]


@pytest.fixture(scope="module")
def target(serve: Serve) -> tuple[Api, Known]:
    api = serve(queries=STORED)
    return api, prepare(api)


@flat.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
def test_nothing_that_is_sent_breaks_the_server(
    case: schemathesis.Case[Any], target: tuple[Api, Known]
) -> None:
    """Requests made from the document, good and bad, get an answer the document describes."""
    api, known = target
    make_good(case, known)
    case.call_and_validate(base_url=api.url, checks=CHECKS)
