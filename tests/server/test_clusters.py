"""A server for a cluster: every graph that was applied, with its policy and its stored queries."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import cluster
from omnigraph.errors import BadRequestError
from omnigraph.server import Settings, Token, Tokens, open_service, running
from tests.cluster.folders import Folder
from tests.policy.bundles import BUNDLE, SERVER
from tests.server.helpers import Api, error

SCRATCH = {"OMNIGRAPH_DURABILITY": "none"}
ALL = "query q() { match { $p: Paper } return { $p.doi } }"


GRANT = """\
  - id: curators-schema
    allow: {actors: {group: curators}, actions: [schema_apply], target_branch_scope: any}
"""
ACTORS = ("act-lena", "act-omar", "act-guest", "agent-7", "act-stranger")


def secrets() -> Tokens:
    return Tokens(Token.of(name, f"secret-of-{name}") for name in ACTORS)


def by(actor: str) -> dict[str, str]:
    return {"Authorization": f"Bearer secret-of-{actor}"}


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    folder = Folder(tmp_path_factory.mktemp("cluster") / "c")
    folder.put("team.yaml", BUNDLE + GRANT)
    report = folder.apply()
    assert report["converged"], report
    return folder


@pytest.fixture(scope="module")
def api(applied: Folder) -> Iterator[Api]:
    service = open_service(Settings(cluster=str(applied.path)), secrets(), SCRATCH)
    with running(service) as url:
        found = Api(url, applied.path, service)
        yield found
        found.close()
    service.close()


def test_readiness_tells_what_is_served(api: Api) -> None:
    body = api.ok(api.get("/readyz"))
    assert body["served_graph_count"] == 2
    assert body["booted_serving_digest"]
    assert body["state_revision"] >= 1
    assert body["state_cas"]


def test_graphs_are_listed_to_those_who_may(api: Api) -> None:
    found = api.ok(api.get("/graphs", headers=by("act-omar")))
    assert found == {
        "graphs": [
            {"graph_id": "notes", "uri": "/graphs/notes"},
            {"graph_id": "papers", "uri": "/graphs/papers"},
        ]
    }
    error(api.get("/graphs", headers=by("act-stranger")), 403, "forbidden")


def test_each_graph_has_its_own_policy(api: Api) -> None:
    error(
        api.post("/graphs/papers/query", {"query": ALL}, headers=by("act-stranger")),
        403,
        "forbidden",
    )
    notes = {"query": "query q() { match { $n: Note } return { $n.text } }"}
    assert api.post("/graphs/notes/query", notes, headers=by("act-stranger")).status_code == 200
    write = {"query": 'query w() { insert Note { text: "x" } }'}
    error(api.post("/graphs/notes/mutate", write, headers=by("act-stranger")), 403, "forbidden")
    error(api.get("/snapshot", headers=by("act-stranger")), 404, "not_found")


def test_the_schema_is_changed_where_the_cluster_is_described(api: Api) -> None:
    body = {"schema_source": "node Paper { doi: String @key }"}
    path = "/graphs/papers/schema/apply"
    error(api.post(path, body, headers=by("act-guest")), 403, "forbidden")
    refused = error(api.post(path, body, headers=by("act-lena")), 409, "conflict")
    assert "cluster" in refused["error"]


def test_stored_queries_of_a_cluster_are_called(api: Api) -> None:
    listed = api.ok(api.get("/graphs/papers/queries", headers=by("act-guest")))
    names = {item["name"]: item for item in listed["queries"]}
    assert set(names) == {"add", "all"}
    assert names["all"]["description"] == "All papers"
    assert names["add"]["mutation"] is True
    assert names["add"]["params"] == [{"name": "doi", "kind": "string", "nullable": False}]
    path = "/graphs/papers/queries/all"
    assert api.ok(api.post(path, {}, headers=by("act-lena")))["rows"] == []
    assert api.send("POST", path, headers=by("act-lena")).status_code == 200
    error(api.post(path, {}, headers=by("act-guest")), 404, "not_found")
    wrong = api.post(path, {"params": {"nobody": 1}}, headers=by("act-lena"))
    assert "it declares no parameters" in error(wrong, 400, "bad_request")["error"]
    wrong = api.post(path, {"expect_mutation": True}, headers=by("act-lena"))
    error(wrong, 400, "bad_request")


def test_a_broken_graph_is_left_out(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "c")
    folder.apply()
    shutil.rmtree(folder.graph("notes"))
    service = open_service(Settings(cluster=str(folder.path)), secrets(), SCRATCH)
    with running(service) as url:
        api = Api(url, folder.path, service)
        assert api.ok(api.get("/readyz"))["quarantined_graph_count"] == 1
        error(api.get("/graphs/notes/snapshot", headers=by("act-stranger")), 404, "not_found")
        api.close()
    service.close()
    with pytest.raises(og.OmniGraphError):
        open_service(
            Settings(cluster=str(folder.path), require_all_graphs=True), secrets(), SCRATCH
        )


def test_a_cluster_that_was_never_applied_is_not_served(tmp_path: Path) -> None:
    with pytest.raises(og.NotFoundError, match="nothing was applied"):
        open_service(Settings(cluster=str(Folder(tmp_path / "c").path)), secrets(), SCRATCH)


def test_a_policy_needs_tokens(applied: Folder) -> None:
    with pytest.raises(BadRequestError, match="without tokens"):
        open_service(Settings(cluster=str(applied.path), unauthenticated=True), Tokens(), SCRATCH)


# ---- what changes while it is served ------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[Folder, Api]]:
    folder = Folder(tmp_path / "c")
    folder.put("team.yaml", BUNDLE + GRANT)
    folder.put("server.yaml", SERVER.replace("[graph_list]", "[graph_list, config_manage]"))
    folder.apply()
    service = open_service(Settings(cluster=str(folder.path)), secrets(), SCRATCH)
    with running(service) as url:
        api = Api(url, folder.path, service)
        yield folder, api
        api.close()
    service.close()


def listed(api: Api, actor: str = "act-omar") -> list[str]:
    found = api.ok(api.get("/graphs", headers=by(actor)))
    return [item["graph_id"] for item in found["graphs"]]


def test_a_reload_serves_what_was_applied_since(own: tuple[Folder, Api]) -> None:
    folder, api = own
    papers = api.service.serving.graphs.find("papers").graph
    notes = api.service.serving.graphs.find("notes").graph
    folder.config["graphs"]["books"] = {"schema": "papers.pg"}
    folder.put("queries/more.gq", "query more() { match { $p: Paper } return { $p.doi } }")
    folder.save()
    folder.apply()
    assert listed(api) == ["notes", "papers"]
    api.service.reload(Tokens([Token.of("act-omar", "secret-of-act-omar")]))
    assert listed(api) == ["books", "notes", "papers"]
    error(api.get("/graphs", headers=by("act-lena")), 401, "unauthorized")
    queries = api.service.serving.graphs.find("papers").queries
    assert sorted(queries) == ["add", "all", "more"]
    assert api.service.serving.graphs.find("papers").graph is papers, "it was open already"
    assert 'graph="books"' in api.get("/metrics", headers=by("act-omar")).text

    for graph_id in ("books", "notes"):
        del folder.config["graphs"][graph_id]
        folder.save()
        cluster.approve(folder.path, f"graph.{graph_id}", actor="ann").check()
        folder.apply()
    folder.config["graphs"]["notes"] = {"schema": "notes.pg"}
    folder.save()
    folder.apply()
    api.service.reload(secrets())
    assert listed(api) == ["notes", "papers"]
    assert api.service.serving.graphs.find("notes").graph is not notes, "it is another one"
    assert 'graph="books"' not in api.get("/metrics", headers=by("act-omar")).text
    error(api.get("/graphs/books/snapshot", headers=by("act-omar")), 404, "not_found")


def test_metrics_are_not_for_a_token_of_some_graphs(own: tuple[Folder, Api]) -> None:
    """They tell of every graph that is served."""
    _folder, api = own
    api.service.reload(Tokens([Token.of("act-omar", "secret-of-act-omar", ["papers"])]))
    assert listed(api) == ["papers"]
    told = error(api.get("/metrics", headers=by("act-omar")), 403, "forbidden")
    assert "notes" not in str(told)


def test_a_reload_that_fails_changes_nothing(own: tuple[Folder, Api]) -> None:
    folder, api = own
    before = api.service.serving
    (folder.path / "__cluster" / "state.json").write_text("{")
    with pytest.raises(BadRequestError):
        api.service.reload(secrets())
    with pytest.raises(og.OmniGraphError):
        api.service.reload(Tokens())
    assert api.service.serving is before
    assert listed(api) == ["notes", "papers"]


def test_a_graph_goes_when_its_last_request_is_answered(
    own: tuple[Folder, Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, api = own
    notes = api.service.serving.graphs.find("notes").graph
    closed: list[bool] = []
    monkeypatch.setattr(notes, "close", lambda: closed.append(True))
    del folder.config["graphs"]["notes"]
    folder.save()
    cluster.approve(folder.path, "graph.notes", actor="ann").check()
    folder.apply()
    assert api.service.enter()
    api.service.reload(secrets())
    assert not closed
    api.service.leave()
    assert closed


def test_a_cluster_is_planned_and_deployed_over_http(own: tuple[Folder, Api]) -> None:
    folder, api = own
    path, omar = "/cluster/deployments", by("act-omar")
    error(api.send("POST", "/cluster/plan", headers=by("act-lena")), 403, "forbidden")
    error(api.send("POST", path, headers=by("act-lena")), 403, "forbidden")
    first = api.ok(api.get(path, headers=omar))
    assert first["active"] is True
    folder.config["graphs"]["books"] = {"schema": "papers.pg"}
    folder.save()
    for unknown in ("/cluster/plan", path):
        error(api.post(unknown, {"config": {}}, headers=omar), 400, "bad_request")
    planned = api.send("POST", "/cluster/plan", headers=omar)
    assert [item["resource"] for item in api.ok(planned)["changes"]] == [
        "graph.books",
        "schema.books",
    ]
    assert str(folder.path) not in planned.text
    assert listed(api) == ["notes", "papers"]
    made = api.send("POST", path, headers=omar)
    assert api.ok(made)["deployment"]["converged"] is True
    assert made.json()["deployment"]["actor"] == "act-omar"
    assert made.json()["active"] is True
    assert str(folder.path) not in made.text
    assert listed(api) == ["books", "notes", "papers"]
    again = api.ok(api.get(f"{path}/{made.json()['deployment_id']}", headers=omar))
    assert again["deployment"]["resource_statuses"]["graph.books"]["status"] == "applied"
    error(api.get(f"{path}/{first['deployment_id']}", headers=omar), 404, "not_found")
    folder.put("papers.pg", "node {")
    error(api.send("POST", path, headers=omar), 400, "bad_request")
