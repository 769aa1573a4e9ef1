"""Failures: one form for all of them, with the details of each."""

from __future__ import annotations

import json

import pytest

import omnigraph as og
from omnigraph.failpoints import Failpoint, armed
from tests.server.helpers import ADD, ALL, LINES, Api, Serve, error

UPDATE = "query older($n: String) { update Person set { age: 99 } where name = $n }"


@pytest.fixture(scope="module")
def full(serve: Serve) -> Api:
    api = serve()
    api.load()
    return api


def test_a_lost_race_is_a_manifest_conflict(api: Api) -> None:
    api.load()
    with og.open(api.store, durability="none") as other:

        def interfere() -> None:
            other.refresh()
            other.mutate(UPDATE, {"n": "bob"})

        with armed(Failpoint.WRITE_POST_STAGE, interfere):
            response = api.post("/mutate", {"query": UPDATE, "params": {"n": "ann"}})
    body = error(response, 409, "conflict")
    found = body["manifest_conflict"]
    assert found["table_key"] == "node:Person"
    assert found["actual"] == found["expected"] + 1
    assert body["error"] == (
        f"table node:Person moved from version {found['expected']} to {found['actual']}"
    )
    assert body["published_dataset_version_conflict"] == {
        "entity_kind": "node",
        "type_name": "Person",
        "expected_published_dataset_version": found["expected"],
        "actual_published_dataset_version": found["actual"],
    }
    again = api.post("/mutate", {"query": UPDATE, "params": {"n": "ann"}})
    assert again.status_code == 200


def test_merge_conflicts_are_listed(api: Api) -> None:
    api.load()
    api.ok(api.post("/branches", {"name": "work"}))
    for branch, age in (("main", 40), ("work", 50)):
        text = f'query q() {{ update Person set {{ age: {age} }} where name = "ann" }}'
        api.ok(api.post("/mutate", {"query": text, "branch": branch}))
    body = error(api.post("/branches/merge", {"source": "work"}), 409, "conflict")
    (conflict,) = body["merge_conflicts"]
    assert conflict["table_key"] == "node:Person"
    assert conflict["row_id"] == conflict["entity_id"] == "ann"
    assert (conflict["entity_kind"], conflict["type_name"]) == ("node", "Person")
    assert conflict["kind"] == "divergent_update"
    assert conflict["message"]
    plan = api.ok(api.post("/branches/merge/preview", {"source": "work"}))
    assert plan["merge_conflicts"][0]["ours"]["data"]["age"] == 40
    done = api.ok(api.post("/branches/merge", {"source": "work", "resolve": "theirs"}))
    assert done["outcome"] == "merged"


def test_a_lost_condition_names_both_commits(api: Api) -> None:
    head = api.load()["commit"]["graph_commit_id"]
    api.add("eve")
    headers = {"Omnigraph-If-Graph-Commit": head}
    body = {"query": ADD, "params": {"n": "zoe"}}
    lost = error(api.post("/mutate/if-graph-commit", body, headers=headers), 412, None)
    assert lost["precondition_failure"]["expected"] == head
    now = lost["precondition_failure"]["actual"]
    assert now == api.ok(api.get("/snapshot"))["graph_commit_id"]
    won = api.post("/mutate/if-graph-commit", body, headers={"Omnigraph-If-Graph-Commit": now})
    assert won.status_code == 200


@pytest.mark.parametrize("value", ["*", '"01ARZ3NDEKTSV4RRFFQ69G5FAV"', "a, b", "W/x", ""])
def test_a_condition_is_one_raw_commit_id(full: Api, value: str) -> None:
    body = {"query": ADD, "params": {"n": "x"}}
    headers = {"Omnigraph-If-Graph-Commit": value}
    error(full.post("/mutate/if-graph-commit", body, headers=headers), 400, "bad_request")


def test_a_condition_must_be_given(full: Api) -> None:
    body = {"query": ADD, "params": {"n": "x"}}
    error(full.post("/mutate/if-graph-commit", body), 400, "bad_request")


def test_key_conflicts(full: Api) -> None:
    body = error(full.post("/load", {"data": LINES, "mode": "append"}), 409, "conflict")
    assert body["key_conflict"] == {
        "entity_kind": "node",
        "type_name": "Person",
        "entity_id": "ann",
    }


def test_repeating_a_key_writes_once(api: Api) -> None:
    headers = {"Idempotency-Key": "op-1"}
    first = api.add("ann", headers=headers)
    second = api.add("ann", headers=headers)
    assert second["repeated"] is True
    assert second["commit"] == first["commit"]
    assert api.names() == ["ann"]
    too_long = {"Idempotency-Key": "x" * 200}
    error(api.post("/mutate", {"query": ADD}, headers=too_long), 400, "bad_request")


def test_text_that_does_not_compile_carries_its_diagnostics(full: Api) -> None:
    body = error(
        full.post("/query", {"query": "query q() { match { $p: Nope } }"}), 400, "bad_request"
    )
    assert body["type"] == "compile"
    assert body["diagnostics"]


def test_rows_that_are_refused_are_named(full: Api) -> None:
    bad = '{"type":"Person","data":{"name":"x","age":"old"}}\n'
    body = error(full.post("/load", {"data": bad}), 400, "bad_request")
    assert body["data_errors"]["problems"][0]["line"] == 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/snapshot?branch=nope", None),
        ("GET", "/commits?branch=nope", None),
        ("GET", "/commits/01ARZ3NDEKTSV4RRFFQ69G5FAV", None),
        ("GET", "/commits/01ARZ3NDEKTSV4RRFFQ69G5FAV/changes", None),
        ("DELETE", "/branches/nope", None),
        ("POST", "/branches", {"name": "x", "from": "nope"}),
        ("POST", "/branches/merge", {"source": "nope"}),
        ("POST", "/load", {"data": LINES, "branch": "nope"}),
        ("POST", "/query", {"query": ALL, "branch": "nope"}),
        ("POST", "/query", {"query": ALL, "snapshot": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}),
        ("POST", "/query", {"query": ALL, "tag": "nope"}),
        ("POST", "/export", {"type_names": ["Nope"]}),
        ("POST", "/queries/nope", {}),
        ("GET", "/graphs/nope/snapshot", None),
        ("GET", "/nope", None),
        ("DELETE", "/tags/nope", None),
        ("GET", "/diff?from=nope&to=main", None),
    ],
)
def test_what_is_not_there(full: Api, method: str, path: str, body: object) -> None:
    error(full.send(method, path, json=body), 404, "not_found")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/query", {"query": ADD}),
        ("/mutate", {"query": ALL}),
        ("/query", {"query": ALL, "branch": "main", "snapshot": "x"}),
        ("/query", {"query": ALL, "timestamp": "some day"}),
        ("/query", {"query": ALL, "timeout": 0}),
        ("/query", {"query": ALL, "params": []}),
        ("/query", {"query": ALL, "version": "1"}),
        ("/query", {}),
        ("/query", []),
        ("/mutate", {"query": ADD, "params": {"n": 7}}),
        ("/load", {"data": LINES, "mode": "replace"}),
        ("/load", {"data": 3}),
        ("/branches", {"name": "../x"}),
        ("/branches", {"name": "main"}),
        ("/branches", {"name": ""}),
        ("/schema/apply", {"schema_source": "node {"}),
        ("/export", {"table_keys": ["Person"]}),
        ("/branches/merge", {"source": "main", "resolve": "mine"}),
    ],
)
def test_requests_that_make_no_sense(full: Api, path: str, body: object) -> None:
    error(full.post(path, body), 400, "bad_request")


@pytest.mark.parametrize(
    "path",
    [
        "/changes?start=soon",
        "/changes?limit=0",
        "/changes?cursor=x&start=now",
        "/changes?kinds=node",
        "/changes?kind=table",
        "/changes?cursor=AAAA",
        "/commits?since=never",
        "/commits?limit=-1",
        "/commits?page_token=%00",
        "/snapshot?version=x",
    ],
)
def test_parameters_that_make_no_sense(full: Api, path: str) -> None:
    error(full.get(path), 400, "bad_request")


def test_a_foreign_cursor_says_so(full: Api) -> None:
    body = error(full.get("/changes?cursor=AAAA"), 400, "bad_request")
    assert body["error"].startswith("change cursor rejected:")


@pytest.mark.parametrize(
    "content",
    [b"{", b"", b"nothing", b'{"query": NaN}', b'{"query": "\\ud800"}', b"\xff\xfe", b"[" * 10_000],
)
def test_bodies_that_are_no_json(full: Api, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    error(full.send("POST", "/query", headers=headers, content=content), 400, "bad_request")


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", ""])
def test_bodies_of_another_type(full: Api, content_type: str) -> None:
    content = json.dumps({"query": ALL}).encode()
    headers = {"Content-Type": content_type}
    error(full.send("POST", "/query", headers=headers, content=content), 415, "bad_request")


def test_methods_that_are_not_there(full: Api) -> None:
    response = full.get("/query")
    error(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "POST"
    error(full.get("/graphs"), 405, "method_not_allowed")


def test_a_bug_says_nothing_of_itself(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    api = serve()

    def broken(*_args: object, **_options: object) -> None:
        raise RuntimeError("a secret of the machine room")

    monkeypatch.setattr(og.Session, "snapshot", broken)
    body = error(api.get("/snapshot"), 500, "internal")
    assert "secret" not in json.dumps(body)


def test_an_interrupted_write_says_to_come_back(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = serve()

    def blocked(*_args: object, **_options: object) -> None:
        raise og.RecoveryRequiredError(operation_id="01ARZ3NDEKTSV4RRFFQ69G5FAV")

    monkeypatch.setattr(og.Session, "mutate", blocked)
    response = api.post("/mutate", {"query": ADD})
    body = error(response, 503, None)
    assert body["recovery_required"] == {"operation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
    assert response.headers["retry-after"] == "1"
