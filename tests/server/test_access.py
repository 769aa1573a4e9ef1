"""Who gets in, and what they may do: tokens, actors, policies, existence."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import BadRequestError, UnauthorizedError
from omnigraph.policy import OpenAccess, ReadOnlyAccess, ServerState
from omnigraph.server import (
    Service,
    Serving,
    Settings,
    Token,
    Tokens,
    open_service,
    running,
    tokens_from,
)
from omnigraph.server.graphs import ServedGraph, ServedGraphs
from tests.server.helpers import ADD, ALL, LINES, POLICY, SCHEMA, TOKENS, Api, Serve, error

LENA, OMAR, GUEST, NOBODY = "act-lena", "act-omar", "act-guest", "act-nobody"
UNKNOWN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.fixture(scope="module")
def team(guarded: Api) -> Api:
    """Main is protected, `secret` too; `work` is not. Each has a commit of its own."""
    api = guarded
    api.ok(api.post("/load", {"data": LINES}, LENA))
    for branch in ("secret", "work"):
        api.ok(api.post("/branches", {"name": branch}, LENA))
        api.add(f"in-{branch}", branch, actor=LENA)
    return api


PROTECTED = [
    "/snapshot",
    "/branches",
    "/commits",
    "/schema",
    "/changes",
    "/queries",
    "/metrics",
    "/graphs",
    "/recoveries",
    "/nowhere",
    "/graphs/default/snapshot",
    "/graphs/x/snapshot",
]


GOOD = TOKENS[LENA]
WRONG = [
    None,
    "",
    "Bearer",
    "Bearer wrong",
    f"bearer {GOOD}",
    f"Basic {GOOD}",
    f"Bearer  {GOOD}",
    f"Bearer {GOOD}x",
    f"Bearer {GOOD[:-1]}",
    f"Bearer {GOOD.upper()}",
    GOOD,
]


@pytest.mark.parametrize("path", PROTECTED)
def test_nothing_is_told_without_a_good_token(guarded: Api, path: str) -> None:
    for header in WRONG:
        headers = {} if header is None else {"Authorization": header}
        response = guarded.get(path, headers=headers)
        error(response, 401, "unauthorized")
        assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
def test_liveness_needs_no_token(guarded: Api, path: str) -> None:
    assert guarded.get(path).status_code == 200


def test_a_body_of_a_stranger_is_not_read(guarded: Api) -> None:
    """The answer comes although the body never does."""
    host, port = guarded.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as place:
        place.sendall(
            b"POST /load HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000000\r\n\r\n"
        )
        assert place.recv(4096).startswith(b"HTTP/1.1 401 ")


def test_the_actor_is_the_token_and_nothing_else(team: Api) -> None:
    forged = {
        "X-Actor": "act-root",
        "X-Omnigraph-Actor": "act-root",
        "Omnigraph-Actor": "act-root",
        "X-Forwarded-User": "act-root",
    }
    body = {
        "query": ADD,
        "params": {"n": "forged"},
        "actor": "act-root",
        "actor_id": "act-root",
        "as": "act-root",
        "branch": "work",
    }
    done = team.ok(
        team.post("/mutate?actor=act-root&actor_id=act-root", body, OMAR, headers=forged)
    )
    assert done["actor_id"] == OMAR
    assert done["commit"]["actor_id"] == OMAR
    loaded = team.ok(
        team.post("/load", {"data": LINES, "branch": "work", "actor": "act-root"}, OMAR)
    )
    assert loaded["commit"]["actor_id"] == OMAR


def test_a_denial_explains_itself(team: Api) -> None:
    body = error(team.post("/mutate", {"query": ADD, "params": {"n": "x"}}, OMAR), 403, "forbidden")
    assert body["type"] == "policy_denied"
    asked = body["policy_denial"]
    assert (asked["action"], asked["actor"], asked["branch"]) == ("change", OMAR, "main")
    assert asked["near_rule_ids"] == ["writers-read"]
    assert "main" in body["error"]


@pytest.mark.parametrize(
    ("actor", "path", "body", "status"),
    [
        (GUEST, "/query", {"query": ALL, "branch": "work"}, 200),
        (GUEST, "/query", {"query": ALL, "branch": "main"}, 403),
        (GUEST, "/query", {"query": ALL}, 403),
        (GUEST, "/export", {"branch": "work"}, 403),
        (GUEST, "/changes/baseline", {"branch": "work"}, 403),
        (OMAR, "/export", {"branch": "work"}, 200),
        (OMAR, "/export", {}, 403),
        (OMAR, "/branches", {"name": "omars", "from": "work"}, 200),
        (OMAR, "/branches/merge", {"source": "work"}, 403),
        (OMAR, "/branches/merge/preview", {"source": "work"}, 403),
        (OMAR, "/schema/apply", {"schema_source": SCHEMA}, 403),
        (OMAR, "/load", {"data": LINES}, 403),
        (OMAR, "/load", {"data": LINES, "branch": "omars2", "from": "work"}, 200),
        (NOBODY, "/query", {"query": ALL, "branch": "work"}, 403),
        (NOBODY, "/load", {"data": LINES, "branch": "fresh", "from": "work"}, 403),
        (LENA, "/query", {"query": ALL}, 200),
    ],
)
def test_the_policy_decides(
    team: Api, actor: str, path: str, body: dict[str, object], status: int
) -> None:
    response = team.post(path, body, actor)
    assert response.status_code == status, response.text
    if status == 403:
        error(response, 403, "forbidden")


@pytest.mark.parametrize("suffix", ["", "/changes"])
def test_a_commit_that_may_not_be_read_does_not_exist(team: Api, suffix: str) -> None:
    hidden = team.ok(team.get("/commits?branch=secret", LENA))["commits"][0]["graph_commit_id"]
    denied = team.get(f"/commits/{hidden}{suffix}", GUEST)
    unknown = team.get(f"/commits/{UNKNOWN}{suffix}", GUEST)
    error(denied, 404, "not_found")
    assert denied.text.replace(hidden, UNKNOWN) == unknown.text
    read = team.post("/query", {"query": ALL, "snapshot": hidden}, GUEST)
    nothing = team.post("/query", {"query": ALL, "snapshot": UNKNOWN}, GUEST)
    assert read.status_code == 404
    assert read.text.replace(hidden, UNKNOWN) == nothing.text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/snapshot?commit={}", None),
        ("GET", "/diff?from={}&to=work", None),
        ("GET", "/diff?from=work&to={}", None),
        ("POST", "/query", {"query": ALL, "snapshot": "{}", "explain": True}),
        ("POST", "/export", {"snapshot": "{}"}),
        ("POST", "/tags", {"name": "mine", "snapshot": "{}"}),
        ("POST", "/commits/{}/revert", {"branch": "work"}),
        ("POST", "/commits/{}/pick", {"branch": "work"}),
        ("GET", "/changes?branch=work&start=after:{}", None),
        ("GET", "/blob?entity=node&type=Person&id=a&property=face&snapshot={}", None),
        ("GET", "/snapshot?tag={}", None),
        ("POST", "/query", {"query": ALL, "tag": "{}"}),
        ("POST", "/export", {"tag": "{}"}),
        ("DELETE", "/tags/{}", None),
    ],
)
def test_no_route_tells_whether_something_hidden_exists(
    hidden: dict[str, str], team: Api, method: str, path: str, body: Any
) -> None:
    for actor in (GUEST, OMAR):
        for there, nowhere in ((hidden["commit"], UNKNOWN), (hidden["tag"], "no-such-tag")):
            answers = []
            for name in (there, nowhere):
                filled = json.loads(json.dumps(body).replace("{}", name))
                found = team.send(method, path.replace("{}", name), actor, json=filled)
                answers.append((found.status_code, found.text.replace(name, "NAME")))
            assert answers[0] == answers[1], (actor, there)
            assert "secret" not in answers[0][1]


@pytest.fixture(scope="module")
def hidden(team: Api) -> dict[str, str]:
    """A commit and a tag of a branch that only curators may read."""
    api = team
    api.ok(api.post("/tags", {"name": "hidden-tag", "branch": "secret"}, LENA))
    found = api.ok(api.get("/commits?branch=secret", LENA))["commits"][0]
    return {"commit": found["graph_commit_id"], "tag": "hidden-tag"}


def test_a_branch_that_may_not_be_read_is_denied_whether_it_exists_or_not(team: Api) -> None:
    for path in ("/snapshot?branch={}", "/commits?branch={}", "/changes?branch={}"):
        there = team.get(path.format("secret"), GUEST)
        error(there, 403, "forbidden")
    assert "secret" not in team.ok(team.get("/branches", GUEST))["branches"]


def test_stored_queries_that_may_not_be_run_do_not_exist(serve: Serve) -> None:
    api = serve(tokens=TOKENS, policy=POLICY, queries={"a.gq": ALL})
    assert api.post("/queries/all", {}, LENA).status_code == 200
    denied = api.post("/queries/all", {"branch": "work"}, GUEST)
    unknown = api.post("/queries/nope", {"branch": "work"}, GUEST)
    error(denied, 404, "not_found")
    assert denied.text.replace("'all'", "'nope'") == unknown.text


def test_tokens_without_a_policy_only_read(serve: Serve) -> None:
    api = serve(tokens=TOKENS)
    assert api.post("/query", {"query": ALL}, GUEST).status_code == 200
    body = error(api.post("/mutate", {"query": ADD, "params": {"n": "x"}}, GUEST), 403, "forbidden")
    assert "only reading" in body["error"]
    error(api.post("/export", {}, GUEST), 403, "forbidden")


def test_a_server_does_not_start_half_open(tmp_path: Path) -> None:
    store = tmp_path / "g"
    og.init(store, SCHEMA, durability="none").close()
    with pytest.raises(BadRequestError, match="no tokens"):
        open_service(Settings(store=str(store)), Tokens(), {})
    with pytest.raises(BadRequestError, match="without tokens"):
        open_service(
            Settings(store=str(store), unauthenticated=True), Tokens(), {}, policy=OpenAccess()
        )


def test_a_token_of_another_graph_opens_nothing(tmp_path: Path) -> None:
    graphs = []
    for name in ("one", "two"):
        graph = og.init(tmp_path / name, SCHEMA, durability="none")
        graphs.append(ServedGraph(graph_id=name, graph=graph, policy=OpenAccess()))
    tokens = Tokens(
        [Token.of("ann", "token-of-ann", ["one"]), Token.of("eve", "token-of-eve", ["one", "two"])]
    )
    service = Service(
        settings=Settings(cluster=str(tmp_path)),
        serving=Serving(
            graphs=ServedGraphs(graphs),
            tokens=tokens,
            state=ServerState.POLICY_ENABLED,
            policy=ReadOnlyAccess(),
        ),
    )
    ann, eve = ({"Authorization": f"Bearer token-of-{name}"} for name in ("ann", "eve"))
    with running(service) as url:
        api = Api(url, tmp_path, service)
        assert api.get("/graphs/one/snapshot", headers=ann).status_code == 200
        closed = api.get("/graphs/two/snapshot", headers=ann)
        absent = api.get("/graphs/six/snapshot", headers=ann)
        error(closed, 404, "not_found")
        assert closed.text.replace("two", "six") == absent.text
        assert api.get("/graphs/two/snapshot", headers=eve).status_code == 200
        error(api.get("/snapshot", headers=eve), 404, "not_found")
        error(api.get("/graphs", headers=eve), 403, "forbidden")
        api.close()
    service.close()


def test_only_a_server_with_tokens_says_how_to_bring_one(serve: Serve, guarded: Api) -> None:
    path = "/.well-known/oauth-protected-resource"
    found = guarded.ok(guarded.get(path))
    assert (found["resource"], found["bearer_methods_supported"]) == (guarded.url, ["header"])
    error(serve().get(path), 404, "not_found")
    error(guarded.send("POST", "/cluster/plan", LENA), 404, "not_found")


def test_tokens_come_from_a_file_then_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"ann": "a" * 20}))
    single = {"OMNIGRAPH_SERVER_BEARER_TOKEN": "s" * 20}
    inline = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"bob": "b" * 20})}
    found = tokens_from({**single, **inline}, str(file))
    assert found.identify(f"Bearer {'a' * 20}").actor == "ann"
    assert found.identify(f"Bearer {'s' * 20}").actor == "default"
    with pytest.raises(UnauthorizedError):
        found.identify(f"Bearer {'b' * 20}")
    assert tokens_from(inline).identify(f"Bearer {'b' * 20}").actor == "bob"
    named = {"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(file)}
    assert len(tokens_from({**named, **inline})) == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"ann": "sec-ret", "bob": "sec-ret"}',
        '{"ann": "sec-ret", "ann": "other"}',
        '{"ann": ""}',
        '{"ann": " sec-ret"}',
        '{" ": "sec-ret"}',
        '{"ann": 3}',
        '{"ann": {"secret": "sec-ret"}}',
        '{"ann": {"token": "sec-ret", "until": 3}}',
        '{"ann": {"token": "sec-ret", "graphs": "all"}}',
        '{"ann": {"token": "sec-ret", "expires_at": "soon"}}',
        '["sec-ret"]',
        '{"ann": "sec-ret"',
    ],
)
def test_bad_tokens_stop_the_start_and_are_not_shown(text: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        tokens_from({"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": text})
    assert "sec-ret" not in str(caught.value)
    assert "sec-ret" not in repr(caught.value.__cause__)


def test_expired_tokens() -> None:
    now = time.time()
    tokens = Tokens([Token.of("ann", "a" * 20, expires_at_s=now + 60)], clock=lambda: now)
    assert tokens.identify(f"Bearer {'a' * 20}").actor == "ann"
    later = Tokens([Token.of("ann", "a" * 20, expires_at_s=now)], clock=lambda: now)
    with pytest.raises(UnauthorizedError, match="expired"):
        later.identify(f"Bearer {'a' * 20}")


def test_only_digests_are_kept() -> None:
    token = Token.of("ann", "a-very-secret-thing")
    assert "a-very-secret-thing" not in repr(token)
    assert "a-very-secret-thing" not in repr(Tokens([token]).__dict__)


# ---- side doors ---------------------------------------------------------------------------


def test_a_branch_needs_the_right_to_read_what_it_begins_with(team: Api) -> None:
    head = team.ok(team.get("/commits", LENA))["commits"][0]["graph_commit_id"]
    for source in ("main", "main@1", "secret", head):
        made = team.post("/branches", {"name": "copy", "from": source}, OMAR)
        error(made, 403, "forbidden")
    data = {"data": LINES, "branch": "copy", "from": "main"}
    error(team.post("/load", data, OMAR), 403, "forbidden")
    assert "copy" not in team.ok(team.get("/branches", LENA))["branches"]


def test_reading_some_branches_is_enough_for_their_tags_and_versions(team: Api) -> None:
    for branch in ("work", "secret"):
        tag = {"name": f"tag-{branch}", "branch": branch}
        team.ok(team.post("/tags", tag, LENA))
    names = [tag["name"] for tag in team.ok(team.get("/tags", GUEST))["tags"]]
    assert names == ["tag-work"]
    version = team.ok(team.get("/snapshot", GUEST, params={"branch": "work"}))["manifest_version"]
    head = team.ok(team.get("/commits", GUEST, params={"branch": "work"}))["commits"][0]
    for name in ("work", f"work@{version}", "tag-work", head["graph_commit_id"]):
        found = team.get("/diff", GUEST, params={"from": name, "to": "work"})
        assert found.status_code == 200, (name, found.text)
        assert found.json()["changes"] == []
    assert team.ok(team.post("/query", {"query": ALL, "tag": "tag-work"}, GUEST))["rows"]
    for name in ("main", "main@1", "secret", "tag-secret", "nowhere"):
        found = team.get("/diff", GUEST, params={"from": name, "to": "work"})
        assert found.status_code in (403, 404)
