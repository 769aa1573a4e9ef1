"""Every operation of the published interface, on states in which it succeeds."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.core.transport import Response

from omnigraph.server import Settings, Token, Tokens, open_service, running
from tests.cluster.folders import Folder
from tests.policy.bundles import SERVER
from tests.server.conftest import SCRATCH
from tests.server.helpers import TOKENS, Serve
from tests.server.published import (
    CHECKS,
    GOOD,
    STORED,
    Known,
    Parts,
    described,
    document,
    make_good,
    operation_id,
    prepare,
)

FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"
SERVER_WIDE = {"health", "readyz", "metrics", "whoami"}
"""Operations of the server itself that need nothing."""
OF_CLUSTERS = {"listGraphs", "plan_cluster", "deploy", "deployment_status", "deployment"}


def operations() -> dict[str, tuple[str, str]]:
    """Return where each operation is: its path and its method."""
    return {
        operation["operationId"]: (path, method)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def ask(name: str, url: str, parts: Any = None, **path: str) -> Response:
    """Send a request as the document describes it, and check the answer against the document."""
    place, method = operations()[name]
    operation = described[place][method.upper()]
    given: dict[str, Any] = {}
    if parts is not None:
        given = {"query": parts.query, "headers": parts.headers}
        path = {**parts.path, **path}
        if parts.body is not None:
            given |= {"body": parts.body, "media_type": parts.media_type}
    case = operation.Case(path_parameters=path, **given)
    found: Response = case.call_and_validate(base_url=url, checks=CHECKS)
    return found


def test_every_operation_has_a_request_that_succeeds() -> None:
    known = {name for name in operations() if not name.startswith("cluster_")}
    assert known == GOOD.keys() | SERVER_WIDE | OF_CLUSTERS | {"protected_resource"}


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
def test_every_operation_of_a_graph_succeeds(serve: Serve, nested: bool) -> None:
    api = serve(queries=STORED)
    known = prepare(api)
    place = {"graph_id": "default"} if nested else {}
    for name, good in GOOD.items():
        known.head = api.ok(api.get("/commits?limit=1"))["commits"][0]["graph_commit_id"]
        if name == "applySchema":
            for branch in api.ok(api.get("/branches"))["branches"]:
                if branch != "main":
                    api.ok(api.send("DELETE", f"/branches/{branch}"))
        found = ask(f"cluster_{name}" if nested else name, api.url, good(known), **place)
        assert 200 <= found.status_code < 300, (name, found.text)
    for name in SERVER_WIDE:
        assert ask(name, api.url).status_code == 200


def test_a_server_with_tokens_says_how_to_bring_one(serve: Serve) -> None:
    assert ask("protected_resource", serve(tokens=TOKENS).url).status_code == 200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = Folder(tmp_path_factory.mktemp("cluster") / "c")
    folder.put("server.yaml", SERVER.replace("[graph_list]", "[graph_list, config_manage]"))
    folder.apply()
    secrets = Tokens([Token.of("act-omar", TOKENS["act-omar"])])
    service = open_service(Settings(cluster=str(folder.path)), secrets, SCRATCH)
    with running(service) as url:
        yield url
    service.close()


def test_every_operation_of_a_cluster_succeeds(cluster: str) -> None:
    omar = Parts(headers={"Authorization": f"Bearer {TOKENS['act-omar']}"})
    for name in ("listGraphs", "plan_cluster", "deployment_status"):
        found = ask(name, cluster, omar)
        assert found.status_code == 200, (name, found.text)
    last = ask("deploy", cluster, omar).json()["deployment_id"]
    assert ask("deployment", cluster, omar, deployment_id=last).status_code == 200


# What an answer tells for a later request: operation, its link, the operation it leads to.
COMMIT = "$response.body#/commit/graph_commit_id"
LINKS = [
    ("createBranch", "deleteBranch", {"branch": "$response.body#/name"}),
    ("create_tag", "delete_tag", {"name": "$response.body#/name"}),
    *(
        (source, target, {"commit_id": COMMIT})
        for source in ("mutate", "load")
        for target in ("getCommit", "getCommitChanges", "revert", "pick")
    ),
    ("listCommits", "getCommit", {"commit_id": "$response.body#/commits/0/graph_commit_id"}),
    ("mutate", "mutate_if_graph_commit", {"Omnigraph-If-Graph-Commit": COMMIT}),
    ("list_queries", "invoke_query", {"name": "$response.body#/queries/0/name"}),
]


def linked() -> dict[str, Any]:
    """Return the document with links, without what a server of one graph does not have."""
    found = copy.deepcopy(document)
    found["paths"] = {
        path: methods
        for path, methods in found["paths"].items()
        if not path.startswith(("/graphs", "/cluster"))
    }
    places = operations()
    for source, target, parameters in LINKS:
        path, method = places[source]
        answer = found["paths"][path][method]["responses"]["200"]
        link = {"operationId": target, "parameters": parameters}
        answer.setdefault("links", {})[f"to {target}"] = link
    return found


class Machine(schemathesis.openapi.from_dict(linked()).as_state_machine()):  # type: ignore[misc]
    """Follows links from answer to request; every answer is what the document describes."""

    url: str
    known: Known
    succeeded: set[str]

    def before_call(self, case: schemathesis.Case[Any]) -> None:
        """Put what is known into a request, but not in the place of what a link has told."""
        led = dict(case.path_parameters or {})
        make_good(case, self.known)
        if operation_id(case) in {target for _source, target, _parameters in LINKS}:
            case.path_parameters = led

    def get_call_kwargs(self, case: schemathesis.Case[Any]) -> dict[str, Any]:
        """Return where the server is."""
        return {"base_url": self.url}

    def validate_response(
        self, response: Response, case: schemathesis.Case[Any], *_more: Any, **_options: Any
    ) -> None:
        """Check an answer, and note which operations succeed."""
        case.validate_response(response, checks=CHECKS)
        if 200 <= response.status_code < 300:
            self.succeeded.add(operation_id(case))


def test_requests_made_of_answers_get_what_the_document_describes(serve: Serve) -> None:
    api = serve(queries=STORED)
    Machine.url, Machine.known, Machine.succeeded = api.url, prepare(api), set()
    Machine.run(
        settings=settings(
            max_examples=200 if FULL else 3,
            stateful_step_count=20 if FULL else 4,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=not FULL,
        )
    )
    # That every operation succeeds is tested above; here most of those that links join.
    joined = {name for source, target, _parameters in LINKS for name in (source, target)}
    most = len(joined) * 3 // 4 if FULL else 1
    assert len(Machine.succeeded) >= most, sorted(Machine.succeeded)
    assert httpx.get(f"{api.url}/readyz").status_code == 200


def test_links_lead_to_operations_that_exist() -> None:
    names = operations()
    assert {name for source, target, _ in LINKS for name in (source, target)} <= names.keys()
    assert Path(names["deleteBranch"][0]).name == "{branch}"
