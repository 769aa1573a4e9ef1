"""Processes let go at the same moment: one wins, the others are told, and nothing breaks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import omnigraph as og
from tests.concurrency.worker import Pool
from tests.faults.model import Op
from tests.faults.rig import (
    ADD,
    ADD_FIRM,
    DROP,
    HIRE,
    assert_sound,
    audit,
    new_graph,
    slots_of,
    state_of,
)
from tests.places import AnyPath


@pytest.fixture
def root(place: AnyPath) -> AnyPath:
    found = place / "graph"
    new_graph(found)
    return found


@pytest.fixture
def crowd(backend: str) -> int:
    """How many processes race; an object store makes the losers wait for seconds."""
    return 16 if backend == "local" else 4


@pytest.fixture
def few(backend: str) -> int:
    return 8 if backend == "local" else 4


def race(
    pool: Pool, root: AnyPath, each: list[list[tuple[Op, dict[str, Any]]]]
) -> list[list[dict[str, Any]]]:
    """Let one process per list of writes go at once; return their outcomes."""
    return pool.run([{"do": "listed", "root": str(root), "ops": ops} for ops in each])


def first_errors(outcomes: list[list[dict[str, Any]]]) -> Counter[str | None]:
    return Counter(item[0]["error"] for item in outcomes)


def add(slug: str) -> Op:
    return {"op": "insert_person", "slug": slug, "name": None, "level": None}


def test_of_many_processes_that_append_one_key_one_wins(
    pool: Pool, root: AnyPath, crowd: int
) -> None:
    ops: list[Op] = [
        {
            "op": "load",
            "mode": "append",
            "rows": [{"type": "Person", "data": {"slug": "one", "name": f"writer {i}"}}],
        }
        for i in range(crowd)
    ]
    outcomes = race(pool, root, [[(op, {})] for op in ops])
    errors = first_errors(outcomes)
    assert errors[None] == 1, errors
    assert set(errors) <= {None, "KeyConflictError", "ConflictError"}, errors
    found = assert_sound(root, slots=False)
    assert found.ids["node:Person"].count("one") == 1
    winner = next(i for i, item in enumerate(outcomes) if item[0]["error"] is None)
    with og.open(root, mode="ro") as graph:
        row = graph.entity_at("node:Person", "one", version=graph.snapshot().version)
    assert row is not None
    data = row["data"]
    assert isinstance(data, dict)
    assert data["name"] == f"writer {winner}"


def test_many_processes_that_upsert_one_key_make_one_row(
    pool: Pool, root: AnyPath, crowd: int
) -> None:
    outcomes = race(pool, root, [[(add("one"), {})] for _ in range(crowd)])
    errors = first_errors(outcomes)
    assert set(errors) <= {None, "ConflictError"}, errors
    assert errors[None] >= crowd // 2
    found = assert_sound(root, slots=False)
    assert found.ids["node:Person"].count("one") == 1
    assert len(found.commits) == 2 + errors[None]


def test_writers_of_disjoint_tables_make_one_chain(pool: Pool, place: AnyPath, few: int) -> None:
    root = place / "graph"
    types = [f"T{number}" for number in range(few)]
    schema = "\n".join(f"node {name} {{ slug: String @key }}" for name in types)
    og.init(root, schema, durability="none").close()
    ops: list[Op] = [
        {"op": "load", "mode": "append", "rows": [{"type": name, "data": {"slug": "a"}}]}
        for name in types
    ]
    outcomes = race(pool, root, [[(op, {})] for op in ops])
    assert first_errors(outcomes) == {None: few}
    found = assert_sound(root)
    assert [commit["kind"] for commit in found.commits] == ["init"] + ["load"] * few
    assert {item[0]["commit"] for item in outcomes} == {
        commit["object_id"] for commit in found.commits[1:]
    }


def test_of_processes_that_expect_the_same_head_one_writes(
    pool: Pool, root: AnyPath, few: int
) -> None:
    with og.open(root, mode="ro") as graph:
        head = graph.commits.head().graph_commit_id
    outcomes = race(pool, root, [[(add(f"n{i}"), {"expected_head": head})] for i in range(few)])
    assert first_errors(outcomes) == {None: 1, "PreconditionFailedError": few - 1}
    found = assert_sound(root, slots=False)
    assert len(found.commits) == 3
    assert sum(f"n{i}" in found.ids["node:Person"] for i in range(few)) == 1


def test_one_operation_id_from_many_processes_is_applied_once(
    pool: Pool, root: AnyPath, few: int
) -> None:
    outcomes = race(pool, root, [[(add("once"), {"operation_id": "mine"})] * 2] * few)
    assert all(entry["error"] is None for item in outcomes for entry in item)
    assert len({entry["commit"] for item in outcomes for entry in item}) == 1
    assert len(assert_sound(root).by_operation("mine")) == 1


def test_edge_writers_and_node_deleters_leave_no_orphan(
    pool: Pool, root: AnyPath, few: int
) -> None:
    """Half of the processes hang edges on a node that the other half deletes and adds again."""
    hangers: list[list[tuple[Op, dict[str, Any]]]] = [
        [({"op": "knows", "id": f"e{i}x{n}", "a": "p5", "b": "p4"}, {}) for n in range(6)]
        for i in range(few // 2)
    ]
    removers: list[list[tuple[Op, dict[str, Any]]]] = [
        [({"op": "delete_person", "slug": "p5"}, {}), (add("p5"), {})] * 3 for _ in range(few // 2)
    ]
    outcomes = race(pool, root, hangers + removers)
    errors = Counter(entry["error"] for item in outcomes for entry in item)
    assert set(errors) <= {None, "DataError", "VersionConflictError", "ConflictError"}, errors
    assert_sound(root, slots=False)


def test_a_crowd_cannot_exceed_a_cardinality(pool: Pool, root: AnyPath, crowd: int) -> None:
    """Works allows two edges per person; p5 has none."""
    ops: list[Op] = [
        {"op": "works", "id": f"e{i}", "a": "p5", "b": f"f{i % 3}"} for i in range(crowd)
    ]
    errors = first_errors(race(pool, root, [[(op, {})] for op in ops]))
    assert errors[None] == 2, errors
    assert set(errors) <= {None, "DataError", "ConflictError"}
    found = assert_sound(root, slots=False)
    assert sum(src == "p5" for _, src, _ in found.ends["edge:Works"]) == 2


def test_threads_of_one_handle_lose_nothing(root: AnyPath) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with og.open(root, durability="none") as graph, ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda i: graph.mutate(ADD, {"s": f"t{i}"}).commit, range(48)))
    assert all(commit is not None for commit in made)
    found = assert_sound(root)
    assert {f"t{i}" for i in range(48)} <= set(found.ids["node:Person"])
    assert sum(commit["kind"] == "mutation" for commit in found.commits) == 48


def test_a_refused_write_leaves_no_slot(root: AnyPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """W-31: the recovery folder is empty after a typed refusal, however many races were lost."""
    monkeypatch.setattr("omnigraph.commits.loop.RESERVE_AFTER_LOSSES", 0)
    with og.open(root, durability="none") as graph:
        with pytest.raises(og.KeyConflictError):
            graph.load([{"type": "Person", "data": {"slug": "p0"}}], mode="append")
        assert slots_of(root) == []


def test_a_leftover_slot_of_a_refused_write_is_in_nobodys_way(
    root: AnyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.commits.loop.RESERVE_AFTER_LOSSES", 0)
    with og.open(root, durability="none") as graph:
        with pytest.raises(og.DataError):
            graph.mutate(HIRE, {"i": "e", "p": "nobody", "f": "f0"})
        graph.mutate(ADD_FIRM, {"s": "f9"})
        graph.mutate(DROP, {"s": "p0"})
        assert not audit(root).problems
        assert ("Person", "p0") not in state_of(graph)
