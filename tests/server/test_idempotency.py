"""A key stands for one request of one actor: it is done once, and answered as the first time."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

import omnigraph as og
from omnigraph.server import Settings, Tokens, open_service, running
from omnigraph.store.slots.request_keys import REQUESTS_FOLDER
from tests.server.helpers import ADD, LINES, POLICY, SCHEMA, TOKENS, Api, Serve, error

KEY = {"Idempotency-Key": "op-1"}
TWO_CURATORS = POLICY.replace("curators: [act-lena]", "curators: [act-lena, act-omar]").replace(
    "  writers: [act-omar]\n", "  writers: [act-nobody]\n"
)
WIDER = SCHEMA.replace("title: String @key", "title: String @key\n    year: I32?")


def add(name: str) -> dict[str, Any]:
    return {"query": ADD, "params": {"n": name}}


def reused(response: httpx.Response) -> None:
    """Check that a key was refused for being bound to another request."""
    body = error(response, 422, "bad_request")
    assert body["type"] == "idempotency_key_reused"
    assert "op-1" in body["error"]


def test_a_key_with_another_body_is_refused_and_drops_no_write(api: Api) -> None:
    api.add("ann", headers=KEY)
    reused(api.post("/mutate", add("bob"), headers=KEY))
    assert api.names() == ["ann"]
    api.add("bob", headers={"Idempotency-Key": "op-2"})
    assert api.names() == ["ann", "bob"]


def test_a_key_is_bound_whatever_branch_the_other_body_names(api: Api) -> None:
    api.ok(api.post("/branches", {"name": "work"}))
    api.add("ann", headers=KEY)
    reused(api.post("/mutate", {**add("ann"), "branch": "work"}, headers=KEY))


def test_keys_of_other_routes_are_other_keys(api: Api) -> None:
    api.add("ann", headers=KEY)
    found = api.ok(api.post("/load", {"data": LINES, "mode": "merge"}, headers=KEY))
    assert "repeated" not in found or found["repeated"] is False
    assert api.names() == ["ann", "bob"]


def test_a_route_has_one_name_with_and_without_the_graph(api: Api) -> None:
    first = api.ok(api.post("/mutate", add("ann"), headers=KEY))
    again = api.ok(api.post("/graphs/default/mutate", add("ann"), headers=KEY))
    assert again["repeated"] is True
    assert again["commit"] == first["commit"]


def test_parameters_of_a_load_belong_to_its_key(api: Api) -> None:
    headers = KEY | {"Content-Type": "application/x-ndjson"}
    api.ok(api.post("/load/ndjson?mode=merge", headers=headers, content=LINES))
    again = api.ok(api.post("/load/ndjson?mode=merge", headers=headers, content=LINES))
    assert again["repeated"] is True
    reused(api.post("/load/ndjson?mode=append", headers=headers, content=LINES))


def test_the_key_of_another_actor_is_another_key(serve: Serve) -> None:
    api = serve(tokens=TOKENS, policy=TWO_CURATORS)
    mine = api.ok(api.post("/mutate", add("ann"), "act-lena", headers=KEY))
    theirs = api.ok(api.post("/mutate", add("bob"), "act-omar", headers=KEY))
    assert theirs["commit"]["actor_id"] == "act-omar"
    assert theirs["commit"]["graph_commit_id"] != mine["commit"]["graph_commit_id"]
    assert api.names(actor="act-lena") == ["ann", "bob"]


@pytest.mark.parametrize(
    ("prepare", "method", "path", "body"),
    [
        ((), "POST", "/branches", {"name": "work"}),
        ((("POST", "/branches", {"name": "work"}),), "DELETE", "/branches/work", None),
        ((), "POST", "/tags", {"name": "v1"}),
        ((("POST", "/tags", {"name": "v1"}),), "DELETE", "/tags/v1", None),
        (
            (("POST", "/branches", {"name": "work"}),),
            "POST",
            "/branches/merge",
            {"source": "work", "delete_branch": True},
        ),
        ((), "POST", "/mutate", {"query": 'query d() { delete Person where name = "zoe" }'}),
        ((), "POST", "/schema/apply", {"schema_source": SCHEMA}),
    ],
    ids=[
        *("branch made", "branch deleted", "tag made", "tag deleted"),
        *("merged and deleted", "nothing changed", "same schema"),
    ],
)
def test_what_no_commit_remembers_is_answered_as_the_first_time(
    serve: Serve, prepare: Any, method: str, path: str, body: Any
) -> None:
    api = serve()
    for step in prepare:
        api.ok(api.send(step[0], step[1], json=step[2]))
    options = {} if body is None else {"json": body}
    first = api.ok(api.send(method, path, headers=KEY, **options))
    commits = len(api.ok(api.get("/commits"))["commits"])
    again = api.ok(api.send(method, path, headers=KEY, **options))
    assert again == first
    assert len(api.ok(api.get("/commits"))["commits"]) == commits


def test_a_repeated_deletion_leaves_the_next_branch_of_the_name_alone(api: Api) -> None:
    api.ok(api.post("/branches", {"name": "work"}))
    api.ok(api.send("DELETE", "/branches/work", headers=KEY))
    api.ok(api.post("/branches", {"name": "work"}))
    api.ok(api.send("DELETE", "/branches/work", headers=KEY))
    assert api.ok(api.get("/branches"))["branches"] == ["main", "work"]
    reused(api.send("DELETE", "/branches/other", headers=KEY))


def test_a_repeat_without_effect_stays_without_effect(api: Api) -> None:
    delete = {"query": 'query d() { delete Person where name = "ann" }'}
    api.ok(api.post("/mutate", delete, headers=KEY))
    api.add("ann")
    api.ok(api.post("/mutate", delete, headers=KEY))
    assert api.names() == ["ann"]


def test_a_refused_request_gives_its_key_back(api: Api) -> None:
    error(api.post("/mutate", {"query": "nonsense"}, headers=KEY), 400, "bad_request")
    api.add("ann", headers=KEY)
    error(api.send("DELETE", "/branches/none", headers=KEY), 404, "not_found")
    error(api.send("DELETE", "/branches/none", headers=KEY), 404, "not_found")


def test_a_trial_binds_no_key(api: Api) -> None:
    api.ok(api.post("/mutate", {**add("tried"), "dry_run": True}, headers=KEY))
    api.add("ann", headers=KEY)
    assert api.names() == ["ann"]


def test_two_keys_in_one_request_are_refused(api: Api) -> None:
    found = api.http.post(
        "/mutate", json=add("ann"), headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    )
    error(found, 400, "bad_request")


def test_requests_at_once_with_one_key_have_one_effect(api: Api) -> None:
    answers: list[httpx.Response] = []

    def send() -> None:
        with httpx.Client(base_url=api.url, timeout=30) as http:
            answers.append(http.post("/branches", json={"name": "work"}, headers=KEY))

    threads = [threading.Thread(target=send) for _number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [item.status_code for item in answers] == [200] * 4
    assert len({item.text for item in answers}) == 1


@pytest.fixture
def started(tmp_path: Path) -> Any:
    """Starts servers on one graph, as different processes would."""
    og.init(tmp_path / "g", SCHEMA, durability="none").close()

    def start(**settings: Any) -> Any:
        return open_service(
            Settings(store=str(tmp_path / "g"), unauthenticated=True, **settings), Tokens(), {}
        )

    return start


def served(service: Any, method: str, path: str, body: Any) -> httpx.Response:
    with running(service) as url:
        return httpx.request(method, f"{url}{path}", json=body, headers=KEY, timeout=30)


def test_keys_are_known_after_a_restart_and_to_other_servers(started: Any) -> None:
    first, other = started(), started()
    try:
        made = served(first, "POST", "/branches", {"name": "work"})
        assert made.status_code == 200
        first.close()
        again = served(other, "POST", "/branches", {"name": "work"})
        assert (again.status_code, again.json()) == (200, made.json())
        reused(served(other, "POST", "/branches", {"name": "other"}))
    finally:
        other.close()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/branches", {"name": "new"}),
        ("DELETE", "/branches/old", None),
        ("POST", "/tags", {"name": "new"}),
        ("DELETE", "/tags/old", None),
    ],
)
def test_what_was_done_before_a_crash_is_not_refused_after_it(
    started: Any, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any
) -> None:
    service = started()
    keys = service.serving.graphs.find(None).keys
    with og.open(service.serving.graphs.find(None).graph.uri, durability="none") as graph:
        graph.branches.create("old")
        graph.tags.create("old")
    try:
        with monkeypatch.context() as patch:

            def stop(*_: object, **__: object) -> None:
                raise RuntimeError("the process ends here")

            patch.setattr(type(keys), "settle", stop)
            assert served(service, method, path, body).status_code == 500
        again = served(service, method, path, body)
        assert again.status_code == 200, again.text
        assert served(service, method, path, body).json() == again.json()
    finally:
        service.close()


def test_a_branch_that_another_made_before_is_not_taken_for_ones_own(started: Any) -> None:
    service = started()
    try:
        assert served(service, "POST", "/branches", {"name": "work"}).status_code == 200
        with running(service) as url:
            headers = {"Idempotency-Key": "op-2"}
            for _time in range(2):
                found = httpx.post(f"{url}/branches", json={"name": "work"}, headers=headers)
                assert found.status_code == 409
    finally:
        service.close()


def test_a_body_that_was_lost_with_its_record_is_still_written(api: Api) -> None:
    """A power loss may take the record of a key; a commit never stands for another body."""
    api.add("ann", headers=KEY)
    for file in (api.store / REQUESTS_FOLDER).rglob("*.json"):
        file.unlink()
    again = api.add("ann", headers=KEY)
    assert again["repeated"] is True
    for file in (api.store / REQUESTS_FOLDER).rglob("*.json"):
        file.write_bytes(b"")
    found = api.add("bob", headers=KEY)
    assert "repeated" not in found or found["repeated"] is False
    assert api.names() == ["ann", "bob"]


def test_old_keys_are_forgotten(serve: Serve) -> None:
    api = serve(key_seconds=0.2)
    api.add("ann", headers=KEY)
    time.sleep(0.3)
    api.add("bob", headers=KEY)
    folder = api.store / REQUESTS_FOLDER
    (file,) = folder.rglob("*.json")
    time.sleep(0.3)
    api.service.serving.graphs.find(None).keys.sweep(file.parent.name)
    assert not list(folder.rglob("*.json"))


def test_a_key_of_a_client_is_its_own_too(api: Api) -> None:
    with og.connect(api.url) as graph:
        first = graph.mutate(ADD, {"n": "ann"}, operation_id="mine")
        assert graph.mutate(ADD, {"n": "ann"}, operation_id="mine").commit == first.commit
        with pytest.raises(og.BadRequestError, match="mine"):
            graph.mutate(ADD, {"n": "bob"}, operation_id="mine")
