"""A folder that an earlier release wrote: approvals and notes of work lay in files of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph import cluster
from tests.cluster.folders import NARROWER, SCHEMA, Folder, changes


def older(folder: Folder) -> None:
    """Turn what is there into what an earlier release wrote."""
    place = folder.path / "__cluster"
    state = json.loads((place / "state.json").read_text())
    for number, approval in enumerate(state.pop("approvals").values()):
        put(place / "approvals" / f"{number}.json", approval)
    for graph_id in state.pop("removing"):
        note(folder, "graph_delete", f"graph.{graph_id}")
    state |= {"recovery_records": {"01J": {"outcome": "finished"}}, "observations": {}}
    put(place / "state.json", state)


def note(folder: Folder, operation: str, resource: str, after: str | None = None) -> None:
    body = {
        "id": resource,
        "operation": operation,
        "resource": resource,
        "before_digest": None,
        "after_digest": after,
        "created_at": 1,
    }
    put(folder.path / "__cluster" / "recoveries" / f"{resource}.json", body)


def put(path: Path, body: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body))


def left(folder: Folder) -> list[str]:
    place = folder.path / "__cluster"
    return [p.name for kind in ("approvals", "recoveries") for p in (place / kind).glob("*")]


def test_a_state_of_an_earlier_release_is_read_and_served(folder: Folder) -> None:
    folder.apply()
    served = cluster.read_cluster(folder.path)
    older(folder)
    assert cluster.read_cluster(folder.path).graphs.keys() == served.graphs.keys()
    assert cluster.read_cluster(folder.path).config_digest == served.config_digest
    assert folder.apply()["changes"] == []


def test_an_approval_of_an_earlier_release_counts_once(folder: Folder) -> None:
    folder.apply()
    folder.put("papers.pg", NARROWER)
    cluster.approve(folder.path, "schema.papers", actor="boss").check()
    older(folder)
    assert len(left(folder)) == 1
    plan: Any = cluster.plan(folder.path).to_json()
    assert [item["satisfied"] for item in plan["approvals_required"]] == [True]
    assert folder.apply()["converged"]
    assert left(folder) == []
    folder.put("papers.pg", SCHEMA)
    folder.apply()
    folder.put("papers.pg", NARROWER)
    assert changes(folder.apply()) == {"schema.papers": "approval_required"}


def test_a_graph_that_an_earlier_release_made_and_did_not_tell_of_is_taken(folder: Folder) -> None:
    report: Any = cluster.validate(folder.path).to_json()
    og.init(folder.graph("papers"), SCHEMA).close()
    note(folder, "graph_create", "graph.papers", report["resource_digests"]["schema.papers"])
    note(folder, "graph_create", "graph.notes", report["resource_digests"]["schema.notes"])
    assert folder.apply()["converged"]
    assert left(folder) == []


def test_a_graph_that_an_earlier_release_made_otherwise_is_not_taken(folder: Folder) -> None:
    og.init(folder.graph("papers"), SCHEMA).close()
    note(folder, "graph_create", "graph.papers", "sha256:other")
    assert changes(cluster.apply(folder.path).to_json())["graph.papers"] == "graph_create_failed"


def test_a_graph_that_an_earlier_release_was_removing_is_removed(folder: Folder) -> None:
    folder.apply()
    state = folder.path / "__cluster" / "state.json"
    found = json.loads(state.read_text())
    resources = found["applied_revision"]["resources"]
    for address in ("graph.notes", "schema.notes"):
        del resources[address]
    put(state, found)
    del folder.config["graphs"]["notes"]
    folder.save()
    note(folder, "graph_delete", "graph.notes")
    note(folder, "graph_delete", "graph.papers")
    assert folder.apply()["converged"]
    assert not folder.graph("notes").exists()
    assert folder.graph("papers").exists(), "its removal was never decided"
    assert left(folder) == []


def test_notes_that_say_nothing_new_go_too(folder: Folder) -> None:
    folder.apply()
    note(folder, "schema_apply", "schema.papers", "sha256:other")
    note(folder, "graph_delete", "graph.papers")
    done = folder.apply()
    assert (done["changes"], left(folder)) == ([], [])
    assert folder.graph("papers").exists()
    assert folder.apply()["state_written"] is False
