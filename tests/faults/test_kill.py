"""A writer killed at any call that changes the disk leaves the graph as it was, or as intended.

The matrix is generated: each write is first run to its end while its calls are counted, then run
again once per call and side. OMNIGRAPH_FAULTS=full kills at both sides of every call, syncs
included; the default leaves out the side that equals the next call's other side.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from tests.faults.rig import ADD, SEED, State, assert_sound, new_graph, slots_of, state_of
from tests.faults.victim import FOLD_AT, OPERATION, Zygote

FULL = os.environ.get("OMNIGRAPH_FAULTS", "") == "full"
SYNCED = ("insert", "delete")
Case = tuple[str, int, str]
ACTIONS = ("insert", "update", "delete", "load", "overwrite", "fold", "index")


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as found:
        yield found


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pristine") / "graph"
    new_graph(root)
    return root


def fresh(pristine: Path, tmp_path: Path, name: str) -> Path:
    root = tmp_path / name
    shutil.copytree(pristine, root)
    return root


def final_state(root: Path) -> State:
    with og.open(root, mode="ro") as graph:
        return state_of(graph)


def expected(action: str, steps: dict[str, int], case: Case) -> set[str]:
    """Which outcomes are right: the manifest decides, then the tables.

    A fold commits after its write has; only the write is judged here.
    """
    call, number, side = case
    tables = 1 if action == "fold" else steps["commit"]
    match call:
        case "commit":
            done = number + (side == "after")
            return {"after"} if done >= tables else {"before"}
        case "publish" | "compact":
            return {"after"}
        case "link" | "unlink":
            # The first ones make the slot; whatever follows comes after the publish.
            return {"before"} if number == 0 else {"after"}
        case "stage":
            return {"before"}
        case _:
            # Manifest rows and syncs go out beside the table commits.
            return {"before", "after"}


def cases(action: str, steps: dict[str, int]) -> list[Case]:
    """Both sides of every table and manifest commit; before everything else, and after if FULL.

    Of a fold only its own calls: those of the write before it are the ones of "insert".
    """
    skip = 1 if action == "fold" else 0
    found = [
        (call, number, "before")
        for call, count in sorted(steps.items())
        for number in range(0 if call == "compact" else skip, count)
    ]
    both = set(steps) if FULL else {"commit", "publish", "compact"}
    return found + [(call, n, "after") for call, n, _ in found if call in both]


@pytest.mark.parametrize(
    ("action", "durability"),
    [*((action, "none") for action in ACTIONS), *((a, "full") for a in SYNCED if FULL)],
)
def test_a_killed_writer_leaves_all_or_nothing(
    zygote: Zygote, pristine: Path, tmp_path: Path, action: str, durability: str
) -> None:
    if action == "fold":
        pristine = tmp_path / "long"
        new_graph(pristine, seed=[*SEED])
        with og.open(pristine, durability="none") as graph:
            for number in range(FOLD_AT - 1):
                graph.mutate(ADD, {"s": f"tail{number}"})
    whole = fresh(pristine, tmp_path, "whole")
    before = final_state(whole)
    answer = zygote.run(action, whole, durability=durability)["answer"]
    assert answer["error"] is None
    steps: dict[str, int] = answer["steps"]
    assert steps["publish"] == (2 if action == "fold" else 1)
    after = final_state(whole)
    for case in cases(action, steps):
        call, number, side = case
        root = fresh(pristine, tmp_path, f"{call}{number}{side}")
        place = f"{action}: killed {side} {call} {number} of {steps}"
        with og.open(root, durability="none") as resident:
            outcome = zygote.run(
                action, root, call=call, number=number, side=side, durability=durability
            )
            assert outcome["killed"], place
            copy = tmp_path / "copy"
            shutil.copytree(root, copy)
            names = expected(action, steps, case)
            wanted = [after if name == "after" else before for name in names]
            check_reopened(copy, wanted, place)
            check_resident(resident, root, wanted, place)
        shutil.rmtree(root)
        shutil.rmtree(copy)


def check_reopened(root: Path, wanted: list[State], place: str) -> None:
    """Recover by opening, twice, then write; then repeat the interrupted operation."""
    with og.open(root, durability="none") as graph:
        found = state_of(graph)
        assert found in wanted, place
        commits = len(graph.commits.list())
    first = assert_sound(root)
    assert len(first.commits) == commits, place
    assert len(first.by_operation(OPERATION)) <= 1, place
    with og.open(root, durability="none") as graph:
        assert graph.recovered == [], place
        assert state_of(graph) == found, place
        graph.mutate(ADD, {"s": "probe"})
        assert set(state_of(graph)) == {*found, ("Person", "probe")}, place
        graph.mutate(ADD, {"s": "new"}, operation_id=OPERATION)
    assert len(assert_sound(root).by_operation(OPERATION)) == 1, place


def check_resident(resident: og.Graph, root: Path, wanted: list[State], place: str) -> None:
    """A handle that was open all the time resolves the dead writer by itself."""
    resident.mutate(ADD, {"s": "probe"})
    found = state_of(resident)
    probe = found.pop(("Person", "probe"))
    assert probe, place
    assert found in wanted, place
    # The slot of an older head is in nobody's way; the next read-write open takes it away.
    head = resident.commits.head().graph_commit_id
    assert not any(head in name for name in slots_of(root)), place
    assert_sound(root, slots=False)


@pytest.mark.parametrize(("action", "number"), [("delete", 1), ("insert", 0)])
def test_a_killed_recovery_is_finished_by_the_next_one(
    zygote: Zygote, pristine: Path, tmp_path: Path, action: str, number: int
) -> None:
    """R-15: one interrupted write to undo, one to finish; recovery dies at each of its calls."""
    broken = fresh(pristine, tmp_path, "broken")
    assert zygote.run(action, broken, call="commit", number=number, side="after")["killed"]
    healed = fresh(broken, tmp_path, "healed")
    calls = zygote.run("reopen", healed)["answer"]["steps"]
    wanted = final_state(healed)
    assert len(assert_sound(healed).commits) == 3
    assert calls["publish"] == 1
    for call, count in calls.items():
        for turn in range(count * 2):
            root = fresh(broken, tmp_path, f"{call}{turn}")
            side = ("before", "after")[turn % 2]
            outcome = zygote.run("reopen", root, call=call, number=turn // 2, side=side)
            assert outcome["killed"]
            check_reopened(root, [wanted], f"recovery killed {side} {call} {turn // 2} of {calls}")
            done = [c for c in assert_sound(root).commits if c["actor_id"] == "omnigraph:recovery"]
            assert len(done) == 1
