"""Writers killed at random, all the time: nothing acknowledged is lost, nothing is half there.

OMNIGRAPH_TORTURE_S sets the length in seconds and OMNIGRAPH_TORTURE_KILLS how many kills there
must be at least; OMNIGRAPH_SEED repeats a run's choices (the interleaving is the machine's).
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.faults.matrix import SEED
from tests.faults.model import Model
from tests.faults.rig import SCHEMA, Audit, assert_sound, state_of
from tests.faults.torture import entries, torture

SECONDS = float(os.environ.get("OMNIGRAPH_TORTURE_S", "8"))
KILLS_MIN = int(os.environ.get("OMNIGRAPH_TORTURE_KILLS", "5"))
WRITERS, READERS = 4, 1
# Errors that say "nothing was written". Anything else would be news.
REFUSALS = {None, "DataError", "KeyConflictError", "VersionConflictError", "ConflictError"}
OWN_KINDS = ("init", "optimize", "recovery")
REPLAYS_MAX = 60


@pytest.mark.timeout(3600)
def test_killed_writers_lose_nothing_and_leave_nothing_half_done(tmp_path: Path) -> None:
    root, logs = tmp_path / "graph", tmp_path / "logs"
    logs.mkdir()
    og.init(root, SCHEMA, durability="none").close()
    print(f"OMNIGRAPH_SEED={SEED}")  # noqa: T201 - to repeat it
    run = torture(
        root,
        logs,
        seed=SEED,
        writers=WRITERS,
        readers=READERS,
        seconds=SECONDS,
        kills_min=KILLS_MIN,
    )
    assert run["failures"] == [], run["failures"][0]
    og.open(root, durability="none").close()
    found = assert_sound(root)
    tried: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    for log in sorted(logs.glob("w*.log")):
        for entry in entries(log):
            if "op" in entry:
                tried[entry["operation_id"]] = entry["op"]
            else:
                answers[entry["answered"]] = entry
    looks = sum(len(entries(log)) for log in logs.glob("r*.log"))
    kinds = Counter(row["recovery_kind"] for row in found.recoveries)
    folds = sum(commit["kind"] == "optimize" for commit in found.commits)
    print(  # noqa: T201 - what the run was worth
        f"{run['kills']} kills, {len(found.commits)} commits, {folds} folds, {dict(kinds)}, "
        f"{len(tried)} writes, {len(answers)} answered, {looks} looks"
    )
    assert run["kills"] >= KILLS_MIN
    assert looks > 0
    check_answers(answers, found)
    check_replay(root, tried, found)


def check_answers(answers: dict[str, Any], found: Audit) -> None:
    """What was acknowledged is there, once; what was refused is not."""
    assert {entry["error"] for entry in answers.values()} <= REFUSALS
    made = {commit["operation_id"]: commit for commit in found.commits}
    for entry in answers.values():
        commit = made.get(entry["answered"])
        if entry["commit"] is None:
            assert commit is None, f"refused, or said to change nothing, but there: {entry}"
        else:
            assert commit is not None, f"acknowledged and lost: {entry}"
            assert commit["object_id"] == entry["commit"]


def check_replay(root: Path, tried: dict[str, Any], found: Audit) -> None:
    """Replay the lineage; every commit was legal where it stands, and whole."""
    model, step = Model(), max(1, len(found.commits) // REPLAYS_MAX)
    with og.open(root, mode="ro") as graph:
        for number, commit in enumerate(found.commits):
            if commit["kind"] not in OWN_KINDS:
                assert model.apply(tried[commit["operation_id"]]), "a commit without effect"
            if number % step == 0 or number == len(found.commits) - 1:
                assert state_of(graph, version=int(commit["seq"])) == model.state()
