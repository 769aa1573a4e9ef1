"""Applying a configuration: what is done, what waits for an approval, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import cluster
from omnigraph.embed import HttpEmbedder
from omnigraph.errors import BadRequestError, NotFoundError
from tests.cluster.folders import NARROWER, SCHEMA, WIDER, Folder, changes, codes


def rows(folder: Folder) -> list[Any]:
    with og.open(folder.graph("papers"), mode="ro") as graph:
        found: Any = graph.export()
        return list(found)


def add(folder: Folder, doi: str) -> None:
    with og.open(folder.graph("papers")) as graph:
        graph.mutate("query a($d: String) { insert Paper { doi: $d } }", {"d": doi})


def test_a_plan_is_what_an_apply_does(folder: Folder) -> None:
    planned = cluster.plan(folder.path).check().to_json()
    assert not (folder.path / "__cluster").exists()
    done = folder.apply()
    assert changes(done) == changes(planned)
    assert (done["converged"], done["state_written"], done["actor"]) == (True, True, "ann")
    assert planned["desired_revision"] == {
        "config_digest": done["state_observations"]["applied_config_digest"]
    }
    assert changes(cluster.plan(folder.path).to_json()) == {}
    again = folder.apply()
    assert (again["changes"], again["state_written"], again["converged"]) == ([], False, True)
    assert {item["status"] for item in done["resource_statuses"].values()} == {"applied"}


def test_a_cluster_is_served_as_it_was_applied(folder: Folder) -> None:
    with pytest.raises(NotFoundError, match="nothing was applied"):
        cluster.read_cluster(folder.path)
    folder.apply()
    folder.put("queries/papers.gq", "query other() { match { $p: Paper } return { $p.doi } }")
    served = cluster.read_cluster(folder.path)
    papers = served.graphs["papers"]
    assert sorted(served.graphs) == ["notes", "papers"]
    assert Path(papers.uri) == folder.graph("papers")
    assert sorted(papers.queries) == ["add", "all"]
    assert papers.queries["all"].description == "All papers"
    assert papers.queries["add"].to_json() == {
        "name": "add",
        "tool_name": "add",
        "mutation": True,
        "params": [{"name": "doi", "kind": "string", "nullable": False}],
    }
    assert papers.policy is not None
    assert papers.policy.name == "team"
    assert served.policy is not None
    assert served.policy.bundle.kind == "server"
    assert served.graphs["notes"].policy is None
    with og.open(papers.uri, policy=papers.policy, actor="act-guest") as graph:
        assert len(graph.query(papers.queries["all"].source)) == 0


def test_a_payload_that_was_changed_is_not_served(folder: Folder) -> None:
    folder.apply()
    for kind, code in (("query/papers/all", "mismatch"), ("policy/team", "missing")):
        (payload,) = (folder.path / "__cluster" / "resources" / kind).iterdir()
        if code == "mismatch":
            payload.write_text("query all() { match { $p: Paper } return { $p.year } }")
        else:
            payload.unlink()
    papers = cluster.read_cluster(folder.path).graphs["papers"]
    assert {item.code for item in papers.problems} == {
        "catalog_payload_mismatch",
        "catalog_payload_missing",
    }
    assert not cluster.read_cluster(folder.path).graphs["notes"].problems
    statuses: Any = cluster.status(folder.path).to_json()["resource_statuses"]
    assert statuses["query.papers.all"]["status"] == "error"
    assert statuses["query.papers.add"]["status"] == "applied"


def test_a_schema_grows_without_asking(folder: Folder) -> None:
    folder.apply()
    add(folder, "p1")
    folder.put("papers.pg", WIDER)
    folder.put("queries/t.gq", "query titles() { match { $p: Paper } return { $p.title } }")
    done = folder.apply()
    assert changes(done) == {"schema.papers": "update", "query.papers.titles": "create"}
    (step,) = done["changes"][0]["migration"]["steps"]
    assert step["kind"] == "add_property"
    with og.open(folder.graph("papers"), mode="ro") as graph:
        assert "title" in graph.schema_source
        assert graph.commits.head().actor_id == "ann"
    assert len(rows(folder)) == 1


def test_a_drop_waits_for_an_approval_of_exactly_that_drop(folder: Folder) -> None:
    folder.apply()
    add(folder, "p1")
    folder.put("papers.pg", NARROWER)
    waiting = folder.apply()
    assert changes(waiting) == {"schema.papers": "approval_required"}
    assert codes(waiting) == ["approval_required"]
    assert (waiting["converged"], waiting["applied_count"], waiting["deferred_count"]) == (
        False,
        0,
        1,
    )
    plan = cluster.plan(folder.path).to_json()
    assert plan["approvals_required"] == [
        {
            "resource": "schema.papers",
            "reason": "types or properties are dropped",
            "satisfied": False,
        }
    ]
    given = cluster.approve(folder.path, "schema.papers", actor="boss").check().to_json()
    assert (given["approved_by"], given["operation"]) == ("boss", "update")
    folder.put("papers.pg", NARROWER.replace("}", " note: String? }"))
    assert changes(folder.apply()) == {"schema.papers": "approval_stale"}
    folder.put("papers.pg", NARROWER)
    done = folder.apply()
    assert (changes(done), done["converged"]) == ({"schema.papers": "update"}, True)
    assert rows(folder)[0]["data"] == {"id": "p1", "doi": "p1"}
    state = json.loads((folder.path / "__cluster" / "state.json").read_text())
    (record,) = state["approval_records"].values()
    assert record["approved_by"] == "boss"
    folder.put("papers.pg", SCHEMA)
    folder.apply()
    folder.put("papers.pg", NARROWER)
    assert changes(folder.apply()) == {"schema.papers": "approval_required"}, "it was used up"


def test_nothing_is_approved_in_advance(folder: Folder) -> None:
    folder.apply()
    report = cluster.approve(folder.path, "schema.papers", actor="boss")
    assert codes(report.to_json()) == ["approval_not_required"]
    with pytest.raises(BadRequestError, match="needs an actor"):
        cluster.approve(folder.path, "schema.papers", actor=" ")


def test_an_approval_nobody_uses_does_not_wait_for_another_day(folder: Folder) -> None:
    folder.apply()
    folder.put("papers.pg", NARROWER)
    cluster.approve(folder.path, "schema.papers", actor="boss").check()
    folder.put("papers.pg", SCHEMA)
    folder.apply()
    folder.put("papers.pg", NARROWER)
    assert changes(folder.apply()) == {"schema.papers": "approval_required"}


def test_a_graph_goes_only_with_an_approval_and_takes_its_parts(folder: Folder) -> None:
    folder.apply()
    del folder.config["graphs"]["papers"], folder.config["policies"]["team"]
    folder.save()
    waiting = folder.apply()
    assert changes(waiting) == {
        "policy.team": "apply_dependency_blocked",
        "query.papers.add": "apply_dependency_blocked",
        "query.papers.all": "apply_dependency_blocked",
        "schema.papers": "apply_dependency_blocked",
        "graph.papers": "approval_required",
    }
    assert cluster.read_cluster(folder.path).graphs["papers"].policy is not None
    cluster.approve(folder.path, "graph.papers", actor="boss").check()
    done = folder.apply()
    assert done["converged"]
    assert set(changes(done).values()) == {"delete"}
    assert not folder.graph("papers").exists()
    assert list(cluster.read_cluster(folder.path).graphs) == ["notes"]


def test_a_change_no_step_describes_is_blocked(folder: Folder) -> None:
    folder.apply()
    folder.put("papers.pg", SCHEMA.replace("year: I32?", "year: Bool?"))
    done = folder.apply()
    assert changes(done) == {"schema.papers": "apply_unsupported_change"}
    assert not done["converged"]


def test_data_that_stands_against_a_schema_blocks_it(folder: Folder) -> None:
    folder.apply()
    add(folder, "p1")
    folder.put("papers.pg", SCHEMA.replace("year: I32?", "year: I32"))
    folder.put("queries/papers.gq", "query all() { match { $p: Paper } return { $p.year } }")
    done = folder.apply()
    assert changes(done)["schema.papers"] == "schema_apply_failed"


def test_branches_stand_against_a_schema_change(folder: Folder) -> None:
    folder.apply()
    with og.open(folder.graph("papers")) as graph:
        graph.branches.create("dev")
    folder.put("papers.pg", WIDER)
    report = cluster.apply(folder.path)
    assert codes(report.to_json()) == ["schema_apply_failed"]
    assert "non-main branches: dev" in report.diagnostics[0].message
    with og.open(folder.graph("papers")) as graph:
        graph.branches.delete("dev")
    assert folder.apply()["converged"]


def test_a_policy_can_be_for_other_graphs(folder: Folder) -> None:
    folder.apply()
    folder.config["policies"]["team"]["applies_to"] = ["papers", "notes"]
    folder.save()
    (change,) = folder.apply()["changes"]
    assert (change["resource"], change["metadata_change"]) == ("policy.team", "policy_bindings")
    assert cluster.read_cluster(folder.path).graphs["notes"].policy is not None


def test_a_graph_gets_the_embedder_its_cluster_names(folder: Folder) -> None:
    provider = {"kind": "openai", "base_url": "http://127.0.0.1:1", "api_key": "${SOME_KEY}"}
    folder.config["providers"] = {"embedding": {"house": provider}}
    folder.config["graphs"]["papers"]["embedding_provider"] = "house"
    folder.save()
    folder.apply()
    graphs = cluster.read_cluster(folder.path).graphs
    found = graphs["papers"].embedder({"SOME_KEY": "k"})
    assert isinstance(found, HttpEmbedder)
    with pytest.raises(og.BadRequestError, match="SOME_KEY is not set"):
        graphs["papers"].embedder({})
    assert graphs["notes"].embedder({}) is None
    folder.config["graphs"]["notes"]["embedding_provider"] = "house"
    folder.save()
    made = {item["resource"]: item.get("metadata_change") for item in folder.apply()["changes"]}
    assert made == {"provider.embedding.house": "embedding_profile", "graph.notes": None}
    assert cluster.read_cluster(folder.path).graphs["notes"].provider is not None
    states: Any = cluster.status(folder.path).to_json()["resource_statuses"]
    assert states["provider.embedding.house"]["status"] == "applied"


def test_a_graph_somebody_else_made_is_not_taken(folder: Folder) -> None:
    og.init(folder.graph("papers"), "node Mine { a: String }").close()
    report = cluster.apply(folder.path)
    assert codes(report.to_json()) == ["graph_create_failed"]
    made = changes(report.to_json())
    assert made["graph.papers"] == "graph_create_failed"
    assert made["query.papers.all"] == made["policy.team"] == "apply_dependency_blocked"
    assert made["graph.notes"] == "create"
    assert list(cluster.read_cluster(folder.path).graphs) == ["notes"]
    with og.open(folder.graph("papers")) as graph:
        assert "Mine" in graph.schema_source


def test_files_that_cannot_be_removed_are_reported_and_tried_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.apply()
    del folder.config["graphs"]["papers"], folder.config["policies"]["team"]
    folder.save()
    cluster.approve(folder.path, "graph.papers", actor="boss").check()

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr("os.rename", refuse)
        report = cluster.apply(folder.path)
    assert codes(report.to_json()) == ["graph_delete_incomplete"]
    assert list(cluster.read_cluster(folder.path).graphs) == ["notes"]
    assert folder.apply()["converged"]
    assert not folder.graph("papers").exists()


def test_the_root_can_be_named_from_the_folder(folder: Folder, memory: Path) -> None:
    folder.config["storage"] = "../store"
    folder.save()
    folder.apply()
    assert (memory / "store" / "graphs" / "papers.omni").is_dir()
    with pytest.raises(NotFoundError, match="is not a cluster"):
        cluster.read_cluster(memory)


def test_status_tells_what_is_not_as_it_was_applied(folder: Folder) -> None:
    empty: Any = cluster.status(folder.path).to_json()
    assert codes(empty) == ["state_missing"]
    assert {item["status"] for item in empty["resource_statuses"].values()} == {"pending"}
    folder.apply()
    with og.open(folder.graph("papers")) as graph:
        graph.schema.apply(WIDER)
    folder.put("team.yaml", (folder.path / "team.yaml").read_text() + "\n")
    statuses: Any = cluster.status(folder.path).to_json()["resource_statuses"]
    assert statuses["schema.papers"]["status"] == "drifted"
    assert statuses["policy.team"]["status"] == "pending"
    assert statuses["graph.papers"]["status"] == "applied"


def test_a_refresh_leads_back_to_the_configuration(folder: Folder) -> None:
    assert codes(cluster.refresh(folder.path).to_json()) == ["state_missing"]
    folder.apply()
    with og.open(folder.graph("papers")) as graph:
        graph.schema.apply(WIDER)
    assert folder.apply()["changes"] == []
    seen: Any = cluster.refresh(folder.path).check().to_json()
    assert seen["resource_statuses"]["schema.papers"]["status"] == "drifted"
    assert changes(cluster.plan(folder.path).to_json()) == {"schema.papers": "approval_required"}
    cluster.approve(folder.path, "schema.papers", actor="boss").check()
    assert folder.apply()["converged"]


def test_graphs_that_are_there_are_imported(folder: Folder) -> None:
    og.init(folder.graph("papers"), SCHEMA).close()
    add(folder, "p1")
    seen: Any = cluster.adopt(folder.path).check().to_json()
    assert sorted(seen["resource_statuses"]) == ["graph.papers", "schema.papers"]
    assert codes(cluster.adopt(folder.path).to_json()) == ["state_already_exists"]
    done = folder.apply()
    assert (changes(done)["graph.papers"], done["converged"]) == ("update", True)
    assert len(rows(folder)) == 1


def test_a_damaged_ledger_is_reported_not_replaced(folder: Folder) -> None:
    folder.apply()
    place = folder.path / "__cluster" / "state.json"
    for text, code in (
        ("{", "invalid_state_json"),
        ("[]", "unsupported_state_version"),
        ('{"version": 9}', "unsupported_state_version"),
        ('{"version": 1, "state_revision": "x"}', "invalid_state_json"),
    ):
        place.write_text(text)
        for command in (cluster.plan, cluster.status, cluster.apply):
            assert codes(command(folder.path).to_json()) == [code]
        with pytest.raises(BadRequestError, match=code):
            cluster.read_cluster(folder.path)
        assert place.read_text() == text


def test_a_report_can_be_raised(folder: Folder) -> None:
    folder.put("papers.pg", "node {")
    with pytest.raises(BadRequestError, match="schema_parse_error"):
        cluster.validate(folder.path).check()
