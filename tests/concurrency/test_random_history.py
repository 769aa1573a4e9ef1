"""Several processes write at random; what is left equals a replay of the lineage.

OMNIGRAPH_STRESS_S sets the length in seconds, OMNIGRAPH_SEED repeats a run's choices (the
interleaving is the machine's).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import omnigraph as og
from tests.concurrency.worker import Pool
from tests.faults.model import Model
from tests.faults.rig import SCHEMA, Audit, assert_sound, state_of
from tests.places import AnyPath

SECONDS = float(os.environ.get("OMNIGRAPH_STRESS_S", "8"))
SEED = os.environ.get("OMNIGRAPH_SEED") or str(random.SystemRandom().randrange(10**9))
THREADS = (1, 2, 1, 2)
# Errors that say "nothing was written". Anything else would be news.
REFUSALS = {"DataError", "KeyConflictError", "VersionConflictError", "ConflictError"}


def writer(root: AnyPath, number: int, threads: int) -> dict[str, Any]:
    return {
        "do": "random",
        "root": str(root),
        "seed": SEED,
        "name": f"x{number}",
        "threads": threads,
        "seconds": SECONDS,
    }


def test_random_writers_leave_exactly_what_their_lineage_says(pool: Pool, place: AnyPath) -> None:
    root = place / "graph"
    og.init(root, SCHEMA, durability="none").close()
    jobs = [writer(root, number, threads) for number, threads in enumerate(THREADS)]
    check(root, [entry for answer in pool.run(jobs) for entry in answer])


def test_two_processes_that_maintain_beside_writers_disturb_nobody(
    pool: Pool, place: AnyPath
) -> None:
    root = place / "graph"
    og.init(root, SCHEMA, durability="none").close()
    jobs = [writer(root, number, 1) for number in range(2)]
    jobs += [{"do": "maintaining", "root": str(root), "seconds": SECONDS} for _ in range(2)]
    answers = pool.run(jobs)
    done = [entry for answer in answers[2:] for entry in answer]
    assert [entry for entry in done if entry["error"] is not None] == []
    assert any(entry["made"] for entry in done)
    check(root, [entry for answer in answers[:2] for entry in answer])


def check(root: AnyPath, log: list[dict[str, Any]]) -> None:
    errors = Counter(entry["error"] for entry in log)
    print(f"OMNIGRAPH_SEED={SEED} {dict(errors)}")  # noqa: T201 - the seed of a random test
    assert set(errors) <= {None, *REFUSALS}, [e for e in log if e["error"] not in errors]
    # A refused writer may leave the file of a slot it no longer holds; an open takes it away.
    assert_sound(root, slots=False)
    og.open(root, durability="none").close()
    found = assert_sound(root)
    _check_acknowledgements(log, found)
    _check_replay(root, log, found)
    assert errors[None] > 20


def _check_acknowledgements(log: list[dict[str, Any]], found: Audit) -> None:
    made = {commit["operation_id"]: commit for commit in found.commits}
    for entry in log:
        commit = made.get(entry["operation_id"])
        if entry["error"] is not None:
            assert commit is None, f"refused but there: {entry}"
        elif entry["commit"] is None:
            assert commit is None, f"said to change nothing, but committed: {entry}"
        else:
            assert commit is not None, f"acknowledged and lost: {entry}"
            assert commit["object_id"] == entry["commit"]


def _check_replay(root: AnyPath, log: list[dict[str, Any]], found: Audit) -> None:
    """Replay the commits in lineage order; every one must have been legal where it stands."""
    ops = {entry["operation_id"]: entry["op"] for entry in log}
    model = Model()
    # To read a state inside a group of commits in a bucket, small files are written.
    with og.open(root, upkeep=False) as graph:
        for number, commit in enumerate(found.commits):
            if commit["kind"] in ("mutation", "load"):
                assert model.apply(ops[commit["operation_id"]]), "a commit without effect"
            else:
                assert commit["kind"] in ("init", "optimize", "ensure_indices")
            if number % 20 == 0 or number == len(found.commits) - 1:
                assert state_of(graph, commit=commit["object_id"]) == model.state()
