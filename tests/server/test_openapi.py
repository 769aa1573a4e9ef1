"""The published interface: it is what the server does, whatever is sent to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from omnigraph.cli.openapi_doc import render
from omnigraph.server.gate import PROTECTED_RESOURCE
from tests.server.helpers import ALL, TOKENS, Api, Serve

load_all_checks()


@schemathesis.serializer("application/x-ndjson")
def _lines(_context: Any, value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 6
document: dict[str, Any] = json.loads(DOCUMENT.read_text(encoding="utf-8"))
described = schemathesis.openapi.from_dict(document)
described.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
flat = described.exclude(path_regex=r"^/graphs")


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
        "healthz",
        "readyz",
        "list_graphs",
        "metrics",
        "protected_resource",
        "plan_cluster",
        "deploy",
        "deployment",
        "deployment_status",
    }
    for path, methods in document["paths"].items():
        for operation in methods.values():
            open_to_all = ("/healthz", "/readyz", "/graphs", "/metrics", PROTECTED_RESOURCE)
            assert ("security" in operation) == (path not in open_to_all), path
            assert operation["summary"]


def test_every_route_is_in_the_document() -> None:
    for method, path in (
        ("get", "/healthz"), ("get", "/readyz"), ("get", "/graphs"), ("get", "/metrics"),
        ("get", "/snapshot"), ("post", "/query"), ("post", "/read"), ("post", "/mutate"),
        ("post", "/change"), ("post", "/mutate/if-graph-commit"), ("get", "/queries"),
        ("post", "/queries/{name}"), ("post", "/queries/{name}/if-graph-commit"),
        ("get", "/schema"), ("post", "/schema/apply"), ("post", "/load"), ("post", "/ingest"),
        ("post", "/load/ndjson"), ("post", "/export"), ("get", "/branches"),
        ("post", "/branches"), ("delete", "/branches/{branch}"), ("post", "/branches/merge"),
        ("post", "/branches/merge/preview"), ("get", "/commits"), ("get", "/commits/{commit_id}"),
        ("get", "/commits/{commit_id}/changes"), ("get", "/changes"),
        ("post", "/changes/baseline"), ("get", "/blob"), ("head", "/blob"), ("get", "/recoveries"),
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
def target(serve: Serve) -> Api:
    api = serve(queries={"a.gq": ALL})
    api.load()
    api.ok(api.post("/branches", {"name": "work"}))
    return api


@flat.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
def test_nothing_that_is_sent_breaks_the_server(case: schemathesis.Case[Any], target: Api) -> None:
    """Requests made from the document, good and bad, get an answer the document describes."""
    case.call_and_validate(base_url=target.url, checks=CHECKS)
