"""Writes published together: an error stops some of them, and each is told what became of it."""

from __future__ import annotations

from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Failpoint
from tests.faults.matrix import AFTER, BEFORE, GROUP, Cell, Stage, final_state
from tests.faults.rig import assert_sound, recoveries_of, state_of
from tests.faults.victim import OPERATION, group_jobs
from tests.places import remove_tree
from tests.together import run_together

IDS = [f"{OPERATION}-{number}" for number in range(5)] + [OPERATION]


def commits_of(graph: og.Graph) -> dict[str, Any]:
    """Return the commits of the group by operation id; none may be there twice."""
    found: dict[str, Any] = {}
    for commit in graph.commits.list():
        if commit.operation_id in IDS:
            assert commit.operation_id not in found
            found[commit.operation_id] = commit
    return found


@pytest.mark.full_only
def test_an_error_at_any_boundary_is_told_to_those_it_concerns(stage: Stage) -> None:
    states = stage.ends(GROUP)
    for cell in stage.cells(GROUP):
        root = stage.fresh(GROUP)
        with og.open(root, durability="none") as graph:
            with failpoints.armed(cell.point, failpoints.error, hit=cell.hit):
                answers = run_together(graph, group_jobs(graph))
            check_answers(cell, graph, answers)
            # Whoever was told to repeat does so; each write is made exactly once.
            for job in group_jobs(graph):
                job()
            assert sorted(commits_of(graph)) == sorted(IDS), str(cell)
            assert state_of(graph) == states[AFTER], str(cell)
        og.open(root, durability="none").close()
        assert final_state(root) == states[AFTER]
        assert_sound(root)
        remove_tree(root)


def check_answers(cell: Cell, graph: og.Graph, answers: list[Any]) -> None:
    """Done means there, a storage error means not there and never will be."""
    made = commits_of(graph)
    for name, number, answer in zip(IDS, range(6), answers, strict=True):
        if isinstance(answer, og.OutcomeUnknownError):
            assert answer.operation_id == name, str(cell)
        elif isinstance(answer, og.DataError):
            # The edge ends in the person of the first write, which failed.
            assert name == IDS[3], str(cell)
            assert isinstance(answers[0], og.StorageError), str(cell)
            assert name not in made, str(cell)
        elif isinstance(answer, Exception):
            assert isinstance(answer, og.StorageError), f"{cell}: {answer!r}"
            assert name not in made, str(cell)
        else:
            assert answer.commit == made[name], str(cell)
            assert answer.commit.actor_id == f"actor {number}", str(cell)


def test_a_group_that_is_finished_keeps_ids_and_names_every_actor(stage: Stage) -> None:
    root = stage.fresh(GROUP)
    with og.open(root, durability="none") as graph:
        with failpoints.armed(Failpoint.PUBLISH_PRE_CAS, failpoints.error):
            answers = run_together(graph, group_jobs(graph))
        assert {type(item) for item in answers} == {og.OutcomeUnknownError}
        assert len(graph.maintenance.pending_writes()) == 6
    with og.open(root, durability="none") as graph:
        made = commits_of(graph)
        assert sorted(made) == sorted(IDS)
        commits = sorted(made.values(), key=lambda item: item.place)
        assert [item.actor_id for item in commits] == ["omnigraph:recovery"] * 6
        assert [item.recovery_for_actor for item in commits] == [f"actor {i}" for i in range(6)]
        assert {item.manifest_version for item in commits} == {commits[0].manifest_version}
        assert state_of(graph) == stage.ends(GROUP)[AFTER]
        # The rows each touched are known as well: one of them can be looked at, and undone.
        (change,) = graph.commits.changes(made[IDS[1]].graph_commit_id).changes
        assert (change.id, change.op) == ("p3", "update")
    recorded = recoveries_of(root)
    assert sorted(row["operation_id"] for row in recorded) == sorted(IDS)
    assert {row["recovery_kind"] for row in recorded} == {"RolledForward"}
    assert_sound(root)


def test_a_group_that_is_undone_never_happened(stage: Stage) -> None:
    root = stage.fresh(GROUP)
    with og.open(root, durability="none") as graph:
        point = Failpoint.PUBLISH_POST_TABLE_COMMIT
        with failpoints.armed(point, failpoints.error, hit=2):
            answers = run_together(graph, group_jobs(graph))
        assert {type(item) for item in answers} == {og.OutcomeUnknownError}
    with og.open(root, durability="none") as graph:
        made = commits_of(graph)
        assert sorted(made) in ([], sorted(IDS)), "all or none"
        assert state_of(graph) == stage.ends(GROUP)[AFTER if made else BEFORE]
        for job in group_jobs(graph):
            job()
        assert state_of(graph) == stage.ends(GROUP)[AFTER]
    assert_sound(root)
