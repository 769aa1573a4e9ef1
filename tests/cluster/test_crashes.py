"""Appliers that die anywhere, and appliers that meet: the ledger and the graphs stay one."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import cluster, failpoints
from omnigraph.errors import ConflictError
from omnigraph.failpoints import Failpoint
from tests.cluster.folders import WIDER, Folder, codes
from tests.faults.victim import Zygote

DOI = "query a($d: String) { insert Paper { doi: $d } }"


def make(folder: Folder) -> None:
    """A new cluster."""


def migrate(folder: Folder) -> None:
    """A larger schema with a query that needs it."""
    applied(folder)
    folder.put("papers.pg", WIDER)
    folder.put("queries/t.gq", "query titles() { match { $p: Paper } return { $p.title } }")


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


SCENES = {"make": make, "migrate": migrate, "drop": drop}


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
            if point.startswith("cluster."):
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
    """What anybody can see of a cluster: its ledger without counters, its graphs and rows."""
    state = json.loads((root / "__cluster" / "state.json").read_text())
    graphs: dict[str, Any] = {}
    for place in sorted((root / "graphs").iterdir()):
        with og.open(place) as graph:
            graphs[place.name] = (graph.schema_source, entities(graph))
    return {
        "applied": state["applied_revision"],
        "statuses": state["resource_statuses"],
        "graphs": graphs,
        "leftovers": sorted(p.name for p in (root / "__cluster").glob("recoveries/*")),
        "approvals": sorted(p.name for p in (root / "__cluster").glob("approvals/*")),
        "locked": (root / "__cluster" / "lock.json").exists(),
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
        assert cluster.apply(root).to_json()["changes"] == [], (point, number)
        shutil.rmtree(root)


def test_every_boundary_of_a_cluster_is_passed_by_a_scene(memory: Path) -> None:
    passed = set()
    for name, prepare in SCENES.items():
        passed |= {point for point, _ in Scene(memory / name, prepare).cells}
    assert passed == {point for point in Failpoint if point.startswith("cluster.")}


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
    assert done["converged"]
    state = json.loads((folder.path / "__cluster" / "state.json").read_text())
    (record,) = state["recovery_records"].values()
    assert (record["operation"], record["outcome"]) == ("graph_create", "finished")


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
