"""A writer killed at any call that changes the disk leaves the graph as it was, or as intended.

The cases are generated: each write is first run to its end while its calls are counted, then run
again, killed before or after one of them. A few cases of each write, drawn by a printed seed, run
by default; OMNIGRAPH_FAULTS=full kills at both sides of every call, syncs included.
"""

from __future__ import annotations

import pytest

import omnigraph as og
from tests.faults.matrix import (
    FULL,
    WRITES,
    Stage,
    check_reopened,
    drawn,
    final_state,
    foresee,
    full_only,
)
from tests.faults.rig import ADD, State, assert_sound, slots_of, state_of
from tests.faults.victim import Zygote
from tests.places import AnyPath, copy_tree, remove_tree

DRAWN_ON_S3 = ("delete", "load")
SYNCED = ("insert", "delete")
CASES_DRAWN = {"local": 3, "s3": 1}
Case = tuple[str, int, str]


def expected(action: str, steps: dict[str, int], case: Case) -> set[str]:
    """Which outcomes are right: the manifest decides, then the tables.

    A fold commits after its write has; only the write is judged here.
    """
    call, number, side = case
    tables = steps["commit"]
    if action == "fold":
        # Only its own calls are cases, and the write before it stands by then.
        return {"after"}
    match call:
        case "commit":
            done = number + (side == "after")
            return {"after"} if done >= tables else {"before"}
        case "publish" | "compact":
            return {"after"}
        case "link" | "unlink":
            # The first ones make the slot; whatever follows comes after the publish.
            return {"before"} if number == 0 else {"after"}
        case "stage" | "slot_put":
            return {"before"}
        case "slot_delete":
            return {"after"}
        case _:
            # Manifest rows and syncs go out beside the table commits.
            return {"before", "after"}


def cases(action: str, steps: dict[str, int]) -> list[Case]:
    """Both sides of every call.

    Of a fold only its own calls: those of the write before it are the ones of "insert".
    """
    skip = 1 if action == "fold" else 0
    return [
        (call, number, side)
        for call, count in sorted(steps.items())
        for number in range(0 if call == "compact" else skip, count)
        for side in ("before", "after")
    ]


@pytest.mark.parametrize(
    ("action", "durability"),
    [
        *(full_only(action, "none", unless=action in DRAWN_ON_S3) for action in WRITES),
        *((action, "full") for action in SYNCED if FULL),
    ],
)
def test_a_killed_writer_leaves_all_or_nothing(
    backend: str, zygote: Zygote, stage: Stage, action: str, durability: str
) -> None:
    whole = stage.fresh(action)
    before = final_state(whole)
    answer = zygote.run(action, whole, durability=durability)["answer"]
    assert answer["error"] is None
    steps: dict[str, int] = answer["steps"]
    assert steps["publish"] == (2 if action == "fold" else 1)
    after = final_state(whole)
    for case in drawn(cases(action, steps), CASES_DRAWN[backend]):
        call, number, side = case
        root = stage.fresh(action)
        place = f"{action}: killed {side} {call} {number} of {steps}"
        with og.open(root, durability="none") as resident:
            outcome = zygote.run(
                action, root, call=call, number=number, side=side, durability=durability
            )
            assert outcome["killed"], place
            copy = root.with_name(f"{root.name}copy")
            copy_tree(root, copy)
            names = expected(action, steps, case)
            wanted = [after if name == "after" else before for name in names]
            check_reopened(copy, wanted, foresee(copy).records, place)
            check_resident(resident, root, wanted, place)
        remove_tree(root)
        remove_tree(copy)


def check_resident(resident: og.Graph, root: AnyPath, wanted: list[State], place: str) -> None:
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


@pytest.mark.parametrize("kind", [full_only("undo"), "finish"])
def test_a_killed_recovery_is_finished_by_the_next_one(
    backend: str, zygote: Zygote, stage: Stage, kind: str
) -> None:
    """R-15: one interrupted write to undo, one to finish; recovery dies at each of its calls."""
    wanted, records = stage.healed(kind)
    calls = zygote.run("reopen", stage.fresh(kind))["answer"]["steps"]
    assert calls["publish"] == 1
    for call, number, side in drawn(cases("reopen", calls), CASES_DRAWN[backend]):
        root = stage.fresh(kind)
        assert zygote.run("reopen", root, call=call, number=number, side=side)["killed"]
        place = f"recovery killed {side} {call} {number} of {calls}"
        check_reopened(root, [wanted], records, place)
        remove_tree(root)
