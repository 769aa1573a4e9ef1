"""Appliers that die anywhere, and appliers that meet: the ledger and the graphs stay one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import cluster, failpoints
from omnigraph.errors import ConflictError
from omnigraph.failpoints import Failpoint
from tests.cluster.folders import NARROWER, WIDER, Folder, changes, codes
from tests.faults.victim import Zygote

APPLY = """
import json, sys
from omnigraph import cluster
print(json.dumps(cluster.apply(sys.argv[1]).to_json()))
"""
DOI = "query a($d: String) { insert Paper { doi: $d } }"


def make(folder: Folder) -> None:
    """A new cluster."""


def migrate(folder: Folder) -> None:
    """A larger schema with a query that needs it."""
    applied(folder)
    folder.put("papers.pg", WIDER)
    folder.put("queries/t.gq", "query titles() { match { $p: Paper } return { $p.title } }")


def narrow(folder: Folder) -> None:
    """A smaller schema, approved."""
    applied(folder)
    folder.put("papers.pg", NARROWER)
    cluster.approve(folder.path, "schema.papers", actor="boss").check()


def drop(folder: Folder) -> None:
    """A graph that goes."""
    applied(folder)
    del folder.config["graphs"]["papers"], folder.config["policies"]["team"]
    folder.save()
    cluster.approve(folder.path, "graph.papers", actor="boss").check()


def applied(folder: Folder) -> None:
    folder.apply()
    with og.open(folder.graph("papers")) as graph:
        graph.mutate(DOI, {"d": "p1"})


SCENES = {"make": make, "migrate": migrate, "narrow": narrow, "drop": drop}


class Scene:
    """A cluster before an apply, to copy; the boundaries of that apply; how it ends."""

    def __init__(self, folder: Path, prepare: Callable[[Folder], None]) -> None:
        self._origin = Folder(folder / "origin")
        prepare(self._origin)
        self._copies = 0
        self._base = folder
        with failpoints.recorded() as passed:
            whole = self.fresh()
            cluster.apply(whole, actor="victim").check()
        self.end = seen(whole)
        counts: Counter[Failpoint] = Counter()
        self.cells: list[tuple[Failpoint, int]] = []
        for point in passed:
            counts[point] += 1
            self.cells.append((point, counts[point]))

    def fresh(self) -> Path:
        self._copies += 1
        found = self._base / f"copy{self._copies}"
        shutil.copytree(self._origin.path, found)
        return found


def entities(graph: og.Graph) -> list[Any]:
    found: Any = graph.export()
    return list(found)


def seen(root: Path) -> dict[str, Any]:
    """What can be seen of a cluster: its ledger without counters, its graphs and rows."""
    state = json.loads((root / "__cluster" / "state.json").read_text())
    graphs: dict[str, Any] = {}
    for place in sorted((root / "graphs").iterdir()):
        with og.open(place) as graph:
            graphs[place.name] = (graph.schema_source, entities(graph))
    return {
        "applied": state["applied_revision"],
        "statuses": state["resource_statuses"],
        "graphs": graphs,
        "left": (state["approvals"], state["removing"]),
        "approved": [item["approved_by"] for item in state["approval_records"].values()],
        "files": sorted(p.name for p in (root / "__cluster").iterdir()),
    }


@pytest.mark.parametrize("name", sorted(SCENES))
def test_an_applier_killed_anywhere_is_finished_by_the_next(
    memory: Path, zygote: Zygote, name: str
) -> None:
    scene = Scene(memory, SCENES[name])
    assert len(scene.cells) >= 5
    for point, number in scene.cells:
        root = scene.fresh()
        assert zygote.run("cluster", root, point=point, number=number)["killed"]
        assert (root / "__cluster" / "lock.json").exists(), "the dead do not unlock"
        report = cluster.apply(root, actor="next").check().to_json()
        assert report["converged"], (point, number)
        assert seen(root) == scene.end, (point, number)
        again = cluster.apply(root).to_json()
        assert (again["changes"], again["state_written"]) == ([], False), (point, number)
        shutil.rmtree(root)


def test_every_boundary_of_a_cluster_is_passed_by_a_scene(memory: Path) -> None:
    passed = set()
    for name, prepare in SCENES.items():
        passed |= {point for point, _ in Scene(memory / name, prepare).cells}
    wanted = {point for point in Failpoint if point.startswith(("cluster.", "init."))}
    assert wanted <= passed
    assert Failpoint.SCHEMA_POST_MANIFEST_COMMIT in passed


class Death(BaseException):
    """Passes everything that handles errors."""


def die() -> None:
    raise Death


def test_a_plan_tells_of_interrupted_work(folder: Folder) -> None:
    with failpoints.armed(Failpoint.CLUSTER_POST_EFFECT, die), pytest.raises(Death):
        cluster.apply(folder.path)
    assert "cluster_recovery_pending" in codes(cluster.plan(folder.path).to_json())
    done = folder.apply()
    assert codes(done) == ["cluster_recovery_rolled_forward"]
    assert "an interrupted graph_create was finished" in done["diagnostics"][0]["message"]
    assert done["converged"]


def test_of_two_appliers_one_wins_and_the_other_is_told(folder: Folder) -> None:
    pause = failpoints.Pause()
    reports: list[cluster.Report] = []
    with failpoints.armed(Failpoint.CLUSTER_PRE_STATE, pause):
        first = threading.Thread(target=lambda: reports.append(cluster.apply(folder.path)))
        first.start()
        assert pause.reached.wait(30)
        second = cluster.apply(folder.path)
        status: Any = cluster.status(folder.path).to_json()
        pause.released.set()
        first.join()
    assert codes(second.to_json()) == ["state_lock_held"]
    with pytest.raises(ConflictError, match="state_lock_held"):
        second.check()
    assert (status["observations"]["locked"], status["observations"]["lock_operation"]) == (
        True,
        "apply",
    )
    assert reports[0].check().to_json()["converged"]
    assert folder.apply()["state_written"] is False


def test_an_applier_that_lost_its_lock_does_not_write(folder: Folder) -> None:
    folder.apply()
    before = (folder.path / "__cluster" / "state.json").read_bytes()
    folder.put("queries/t.gq", "query t() { match { $p: Paper } return { $p.year } }")
    pause = failpoints.Pause()
    reports: list[cluster.Report] = []
    with failpoints.armed(Failpoint.CLUSTER_PRE_STATE, pause):
        first = threading.Thread(target=lambda: reports.append(cluster.apply(folder.path)))
        first.start()
        assert pause.reached.wait(30)
        status: Any = cluster.status(folder.path).to_json()
        lock_id = status["observations"]["lock_id"]
        wrong = cluster.force_unlock(folder.path, "not it")
        assert codes(wrong.to_json()) == ["state_lock_id_mismatch"]
        cluster.force_unlock(folder.path, lock_id).check()
        pause.released.set()
        first.join()
    assert codes(reports[0].to_json()) == ["state_cas_mismatch"]
    assert (folder.path / "__cluster" / "state.json").read_bytes() == before
    assert folder.apply()["converged"]
    gone = cluster.force_unlock(folder.path, lock_id)
    assert codes(gone.to_json()) == ["state_lock_missing"]


def test_a_lock_is_removed_beside_a_damaged_ledger_too(folder: Folder) -> None:
    migrate(folder)
    pause = failpoints.Pause()
    place = folder.path / "__cluster" / "state.json"
    with failpoints.armed(Failpoint.CLUSTER_PRE_STATE, pause):
        first = threading.Thread(target=lambda: cluster.apply(folder.path))
        first.start()
        assert pause.reached.wait(30)
        lock_id = json.loads((folder.path / "__cluster" / "lock.json").read_text())["id"]
        before = place.read_bytes()
        place.write_text("{")
        assert cluster.force_unlock(folder.path, lock_id).check().ok
        pause.released.set()
        first.join()
    assert place.read_text() == "{", "who lost its lock does not write"
    place.write_bytes(before)
    assert folder.apply()["converged"]


def test_a_schema_edited_after_a_death_is_reached_from_what_the_dead_made(folder: Folder) -> None:
    with failpoints.armed(Failpoint.CLUSTER_POST_EFFECT, die, hit=2), pytest.raises(Death):
        cluster.apply(folder.path)
    assert folder.graph("papers").exists()
    folder.put("papers.pg", WIDER)
    done = folder.apply()
    assert done["converged"]
    assert changes(done)["schema.papers"] == "update"
    with og.open(folder.graph("papers"), mode="ro") as graph:
        assert "title" in graph.schema_source


def test_a_graph_that_comes_back_is_not_the_one_that_went(folder: Folder) -> None:
    drop(folder)
    with failpoints.armed(Failpoint.CLUSTER_POST_STATE, die), pytest.raises(Death):
        cluster.apply(folder.path)
    assert "cluster_recovery_pending" in codes(cluster.plan(folder.path).to_json())
    folder.config["graphs"]["papers"] = {"schema": "papers.pg"}
    folder.save()
    done = folder.apply()
    assert done["converged"]
    with og.open(folder.graph("papers"), mode="ro") as graph:
        assert entities(graph) == []


def test_an_applier_overtaken_by_another_reports_it_and_harms_nothing(folder: Folder) -> None:
    """The first one stops, before it compares or after an effect, and loses its lock."""
    migrate(folder)
    reports: list[cluster.Report] = []
    told = {Failpoint.CLUSTER_POST_LOCK: [], Failpoint.CLUSTER_POST_EFFECT: ["state_cas_mismatch"]}
    for point, wanted in told.items():
        pause = failpoints.Pause()
        with failpoints.armed(point, pause):
            first = threading.Thread(target=lambda: reports.append(cluster.apply(folder.path)))
            first.start()
            assert pause.reached.wait(30)
            status: Any = cluster.status(folder.path).to_json()
            cluster.force_unlock(folder.path, status["observations"]["lock_id"]).check()
            assert folder.apply()["converged"]
            pause.released.set()
            first.join()
        assert codes(reports[-1].to_json()) == wanted
        assert folder.apply()["state_written"] is False
        assert cluster.status(folder.path).check().ok
        with og.open(folder.graph("papers"), mode="ro") as graph:
            kinds = [commit.kind for commit in graph.commits.list()]
            assert len(entities(graph)) == 1
        assert kinds.count("schema_apply") == len(reports)
        folder.put("papers.pg", WIDER.replace("title: String?", "title: String?  pages: I32?"))


def test_processes_that_apply_at_once_converge(folder: Folder) -> None:
    command = [sys.executable, "-c", APPLY, str(folder.path)]

    def run(_number: int) -> dict[str, Any]:
        done = subprocess.run(  # noqa: S603 - our own program
            command, capture_output=True, text=True, timeout=120, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(run, range(3)))
    for answer in answers:
        assert answer["ok"] or codes(answer) == ["state_lock_held"]
    assert any(answer["ok"] and answer["converged"] for answer in answers)
    assert folder.apply()["state_written"] is False
    assert {item["status"] for item in status_of(folder).values()} == {"applied"}


def status_of(folder: Folder) -> dict[str, Any]:
    found: Any = cluster.status(folder.path).check().to_json()
    return dict(found["resource_statuses"])
