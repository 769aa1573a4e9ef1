"""Processes that make, write to, merge and delete branches at the same moment."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

import omnigraph as og
from tests.concurrency.worker import Pool
from tests.faults.model import perform
from tests.faults.rig import ADD, new_graph, slots_of, state_of
from tests.places import AnyPath

CROWD = 4


@pytest.fixture
def root(place: AnyPath) -> AnyPath:
    found = place / "graph"
    new_graph(found)
    return found


def calls(root: AnyPath, *listed: tuple[str, list[Any]]) -> dict[str, Any]:
    return {"do": "branching", "root": str(root), "calls": listed}


def writes(root: AnyPath, branch: str, slugs: list[str]) -> dict[str, Any]:
    ops = [
        ({"op": "insert_person", "slug": slug, "name": slug, "level": 1}, {"branch": branch})
        for slug in slugs
    ]
    return {"do": "listed", "root": str(root), "ops": ops}


def people(graph: og.Graph, branch: str) -> set[str]:
    return {slug for kind, slug in state_of(graph, branch=branch) if kind == "Person"}


def test_of_many_who_make_one_branch_one_wins(pool: Pool, root: AnyPath) -> None:
    answers = pool.run([calls(root, ("create", ["dev"])) for _ in range(CROWD)])
    errors = Counter(item[0]["error"] for item in answers)
    assert errors[None] == 1, errors
    assert set(errors) <= {None, "AlreadyExistsError"}, errors
    with og.open(root, durability="none") as graph:
        assert graph.branches.list() == ["main", "dev"]
        assert len(graph.branches.details()) == 2
    assert slots_of(root) == []


def test_names_that_collide_never_exist_together(pool: Pool, root: AnyPath) -> None:
    names = ["a", "a/b", "a/b/c", "a/d"]
    answers = pool.run([calls(root, ("create", [name])) for name in names])
    made = {n for n, item in zip(names, answers, strict=True) if item[0]["error"] is None}
    with og.open(root, mode="ro") as graph:
        assert set(graph.branches.list()) == {"main", *made}
    for name in made:
        assert not any(other.startswith(f"{name}/") for other in made)


@pytest.mark.full_only
def test_writers_on_their_own_branches_do_not_meet(pool: Pool, root: AnyPath) -> None:
    names = [f"b{i}" for i in range(4)]
    with og.open(root, durability="none") as graph:
        for name in names:
            graph.branches.create(name)
        seeded = people(graph, "main")
    jobs = [writes(root, n, [f"{n}-{i}" for i in range(12)]) for n in names]
    jobs.append(writes(root, "main", [f"main-{i}" for i in range(12)]))
    for answers in pool.run(jobs):
        # Nobody else writes to one's branch: nothing is lost to anybody.
        assert [item["error"] for item in answers] == [None] * 12
    with og.open(root, durability="none") as graph:
        for name in [*names, "main"]:
            assert people(graph, name) == seeded | {f"{name}-{i}" for i in range(12)}
            kinds = Counter(c.kind for c in graph.commits.list(name))
            assert kinds["mutation"] == 12, kinds
        for name in names:
            graph.branches.merge(name)
        assert len(people(graph, "main")) == len(seeded) + 60
    assert slots_of(root) == []


def test_writers_that_first_write_one_branch_together_all_land(pool: Pool, root: AnyPath) -> None:
    with og.open(root, durability="none") as graph:
        graph.branches.create("dev")
        before = state_of(graph)
    jobs = [writes(root, "dev", [f"w{n}-{i}" for i in range(4)]) for n in range(4)]
    acknowledged = set()
    for number, answers in enumerate(pool.run(jobs)):
        for i, item in enumerate(answers):
            assert item["error"] in (None, "ConflictError"), item
            if item["error"] is None:
                acknowledged.add(f"w{number}-{i}")
    with og.open(root, durability="none") as graph:
        assert {s for s in people(graph, "dev") if s.startswith("w")} == acknowledged
        assert state_of(graph) == before
        found = graph.commits.list("dev")
        for child, parent in itertools.pairwise(found):
            assert child.parent_commit_id == parent.graph_commit_id
    assert acknowledged
    assert slots_of(root) == []


def test_a_write_that_races_a_deletion_lands_before_it_or_fails(pool: Pool, root: AnyPath) -> None:
    for turn in range(3):
        with og.open(root, durability="none") as graph:
            graph.branches.create("dev")
            perform(graph, {"op": "insert_firm", "slug": f"f{turn}"}, branch="dev")
        slugs = [f"r{turn}-{i}" for i in range(20)]
        writing, deleting = pool.run([writes(root, "dev", slugs), calls(root, ("delete", ["dev"]))])
        errors = [item["error"] for item in writing]
        assert set(errors) <= {None, "NotFoundError", "ConflictError", "StorageError"}, writing
        acknowledged = {s for s, error in zip(slugs, errors, strict=True) if error is None}
        with og.open(root, durability="none") as graph:
            if deleting[0]["error"] is None:
                assert graph.branches.list() == ["main"]
                # Once it is gone, it is gone: no later write claims to have landed.
                assert errors == sorted(errors, key=lambda error: error is not None)
            else:
                assert deleting[0]["error"] == "ConflictError", deleting
                assert acknowledged <= people(graph, "dev")
                graph.branches.delete("dev")
            assert not [s for s in people(graph, "main") if s.startswith("r")]
        assert slots_of(root) == []


def test_two_merges_of_one_branch_make_one_commit(pool: Pool, root: AnyPath) -> None:
    with og.open(root, durability="none") as graph:
        graph.branches.create("dev")
        graph.mutate(ADD, {"s": "mine"}, branch="dev")
    answers = pool.run([calls(root, ("merge", ["dev"])) for _ in range(4)])
    outcomes = Counter(item[0].get("outcome") or item[0]["error"] for item in answers)
    assert outcomes == {"fast_forward": 1, "already_up_to_date": 3}
    with og.open(root, durability="none") as graph:
        kinds = Counter(c.kind for c in graph.commits.list())
        assert kinds["merge"] == 1
        assert "mine" in people(graph, "main")


def test_merges_and_writes_at_once_lose_nothing(pool: Pool, root: AnyPath) -> None:
    names = ["x", "y"]
    with og.open(root, durability="none") as graph:
        for name in names:
            graph.branches.create(name)
            for number in range(3):
                graph.mutate(ADD, {"s": f"{name}{number}"}, branch=name)
        seeded = people(graph, "main")
    jobs = [calls(root, ("merge", [name]), ("merge", ["main", name])) for name in names]
    jobs.append(writes(root, "main", [f"m{i}" for i in range(8)]))
    *merges, writing = pool.run(jobs)
    for answers in merges:
        assert answers[0]["error"] is None, answers
        assert answers[1]["error"] is None, answers
    assert [item["error"] for item in writing] == [None] * 8
    wanted = seeded | {f"{n}{i}" for n in names for i in range(3)} | {f"m{i}" for i in range(8)}
    with og.open(root, durability="none") as graph:
        assert people(graph, "main") == wanted
        for name in names:
            assert {f"{name}{i}" for i in range(3)} <= people(graph, name) <= wanted
    assert slots_of(root) == []
