"""What branches cost: making one is flat in everything, and only what changes is touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.store import measured
from tests.cost.measure import (
    OPENS,
    QUERIES,
    SCHEMA,
    add_person,
    counted_bytes,
    new_graph,
    recorded_opens,
    three_table_rows,
)


@contextmanager
def counted() -> Iterator[Counter[str]]:
    found: Counter[str] = Counter()
    with measured() as io:
        yield found
    found.update(io)


def cost_of_create(graph: og.Graph, name: str) -> tuple[Counter[str], int]:
    with counted_bytes() as moved, counted() as io:
        graph.branches.create(name)
    return io, moved.written


def person(graph: og.Graph, branch: str, name: str) -> Counter[str]:
    found = graph.mutate(QUERIES, {"name": name, "age": 1}, name="add_person", branch=branch)
    return Counter(found.io)


def wide(tables: int) -> str:
    return "\n".join(
        [SCHEMA, *(f"node Other{n} {{ code: String @key }}" for n in range(tables - 4))]
    )


def deep(folder: Path, commits: int) -> og.Graph:
    graph = new_graph(folder)
    for number in range(commits):
        add_person(graph, f"p{number}")
    return graph


def test_making_a_branch_costs_the_same_with_more_tables(tmp_path: Path) -> None:
    costs = []
    for tables in (5, 60):
        graph = new_graph(tmp_path / str(tables), wide(tables))
        add_person(graph, "a")
        graph.branches.create("warm")
        costs.append(cost_of_create(graph, "dev")[0])
    assert costs[0] == costs[1]
    assert not any(costs[0].get(name) for name in (*OPENS, "data_commits", "data_scans"))


def test_making_a_branch_costs_the_same_with_more_history(tmp_path: Path) -> None:
    found = []
    for commits in (10, 300):
        graph = deep(tmp_path / str(commits), commits)
        graph.branches.create("warm")
        found.append(cost_of_create(graph, "dev"))
    assert found[0][0] == found[1][0]
    # A version of the manifest lists its fragments, which tiers keep few, not one per commit.
    assert found[1][1] <= 3 * found[0][1] + 16_384, [written for _, written in found]


def test_the_first_write_opens_and_moves_only_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(tmp_path, wide(30))
    graph.load(three_table_rows("old"), mode="append")
    graph.branches.create("dev")
    graph.snapshot("dev")
    with recorded_opens(monkeypatch) as opened:
        io = person(graph, "dev", "x")
    tables = {path.split("/tree/")[0] for path in opened if "__manifest" not in path}
    assert len(tables) <= 1, tables
    assert (io["branch_creates"], io["data_commits"], io["publish_attempts"]) == (1, 1, 1)
    again = person(graph, "dev", "y")
    assert again.get("branch_creates", 0) == 0


def test_a_warm_write_costs_as_on_main_and_one_look_whether_the_branch_exists(
    tmp_path: Path,
) -> None:
    graph = new_graph(tmp_path)
    graph.load(three_table_rows("old"), mode="append")
    graph.branches.create("dev")
    for number in range(4):
        for branch in ("main", "dev"):
            person(graph, branch, f"warm{number}")
    on_main = person(graph, "main", "x")
    on_dev = person(graph, "dev", "x")
    # Once to find the handle's branch again, once under the slot.
    probes = on_dev.pop("branch_probes")
    assert probes <= 2
    assert on_dev == on_main


def test_opening_a_branch_reads_nothing_its_parent_has_read(tmp_path: Path) -> None:
    graph = deep(tmp_path, 40)
    graph.branches.create("first")
    # The first branch a handle opens also shows whether the graph was moved.
    person(graph, "first", "x")
    graph.branches.create("dev")
    with counted() as io:
        person(graph, "dev", "x")
        graph.branches.create("child", from_="dev")
        person(graph, "child", "y")
    # Whoever makes a branch has it open.
    assert io.get("manifest_scans", 0) == io.get("manifest_opens", 0) == 0


def test_opening_a_branch_somebody_else_made_reads_nothing_its_parent_has_read(
    tmp_path: Path,
) -> None:
    graph = deep(tmp_path, 40)
    graph.branches.create("first")
    with og.open(graph.uri, durability="none") as other:
        person(other, "first", "x")
        graph.branches.create("dev")
        other.snapshot()
        with counted() as io:
            person(other, "dev", "x")
    assert io.get("manifest_scans", 0) == 0
    assert io["manifest_opens"] == 1


def test_a_warm_read_of_a_branch_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(tmp_path)
    graph.load(three_table_rows("old"), mode="append")
    graph.branches.create("dev")
    text = 'query q() { match { $p: Person { name: "old1" } } return { $p.name } }'
    graph.query(text, branch="dev")
    graph.query(text)
    with recorded_opens(monkeypatch) as opened, counted() as io:
        graph.query(text, branch="dev")
    assert opened == []
    assert io["manifest_latest_probes"] == 1
    assert io.get("branch_lists", 0) == 0


def changed_graph(folder: Path, tables: int) -> og.Graph:
    graph = new_graph(folder, wide(tables))
    graph.load(three_table_rows("old"), mode="append")
    for number in range(tables - 4):
        row = {"type": f"Other{number}", "data": {"code": "x"}}
        graph.load([row], mode="append")
    graph.branches.create("dev")
    person(graph, "dev", "theirs")
    return graph


@pytest.mark.parametrize("parted", [False, True])
def test_a_merge_touches_only_tables_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parted: bool
) -> None:
    costs = []
    for tables in (5, 40):
        graph = changed_graph(tmp_path / str(tables), tables)
        if parted:
            person(graph, "main", "ours")
        with og.open(graph.uri, durability="none") as cold:
            cold.snapshot("dev")
            with recorded_opens(monkeypatch) as opened, counted() as io:
                done = cold.branches.merge("dev")
        assert done.outcome == ("merged" if parted else "fast_forward")
        roots = {path.split("/tree/")[0] for path in opened if "__manifest" not in path}
        assert len(roots) == 1, roots
        costs.append(io)
    assert costs[0] == costs[1]
    limit = 4 if parted else 3
    assert costs[0].get("manifest_scans", 0) + costs[0].get("manifest_opens", 0) <= limit
    assert costs[0]["data_commits"] == 1


def test_a_merge_reads_what_changed_not_what_is_there(tmp_path: Path) -> None:
    read, costs = [], []
    for rows in (1_000, 50_000):
        graph = new_graph(tmp_path / str(rows))
        people = [{"type": "Person", "data": {"name": f"p{n:06}"}} for n in range(rows)]
        graph.load(people, mode="append")
        for number in range(33):
            add_person(graph, f"tail{number}")
        graph.branches.create("dev")
        person(graph, "dev", "theirs")
        person(graph, "main", "ours")
        graph.branches.merge_plan("dev")
        with counted_bytes() as moved, counted() as io:
            graph.branches.merge("dev")
        read.append(moved.read)
        costs.append(io)
    assert costs[0] == costs[1]
    assert read[1] <= 1.5 * read[0] + 65_536, read


def test_merging_again_after_more_history_costs_the_same(tmp_path: Path) -> None:
    costs = []
    for commits in (10, 200):
        graph = deep(tmp_path / str(commits), commits)
        graph.branches.create("dev")
        person(graph, "dev", "theirs")
        person(graph, "main", "ours")
        with counted() as io:
            graph.branches.merge("dev")
        costs.append(io)
    for name in ("manifest_opens", "manifest_scans", "branch_lists", "branch_probes", "slot_puts"):
        assert costs[0].get(name, 0) == costs[1].get(name, 0), name


def test_making_and_opening_a_branch_costs_the_same_beside_others(tmp_path: Path) -> None:
    costs = []
    for others in (1, 12):
        graph = new_graph(tmp_path / str(others))
        add_person(graph, "a")
        for number in range(others):
            graph.branches.create(f"other{number}")
        person(graph, "other0", "x")
        with counted() as io:
            graph.branches.create("dev")
            person(graph, "dev", "y")
        costs.append(dict(io))
    assert costs[0] == costs[1]
    # One look at its own file, and none at those of others.
    assert costs[0]["branch_reads"] == 1


def test_looking_for_a_newer_state_lists_nothing_on_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing of versions grows with the history."""
    graph = new_graph(tmp_path)
    add_person(graph, "a")
    listed: list[str] = []
    inner = lance.LanceDataset.__dict__["latest_version"].fget

    def latest_version(dataset: lance.LanceDataset) -> int:
        listed.append(dataset.uri)
        return int(inner(dataset))

    monkeypatch.setattr(lance.LanceDataset, "latest_version", property(latest_version))
    for number in range(3):
        add_person(graph, f"b{number}")
        graph.branches.create(f"b{number}")
        graph.snapshot()
    assert listed == []
    with og.open(graph.uri, durability="none") as other:
        add_person(other, "theirs")
    assert graph.snapshot().version == 6
    assert listed


def test_deleting_a_branch_costs_the_same_beside_others(tmp_path: Path) -> None:
    costs = []
    for others in (1, 12):
        graph = new_graph(tmp_path / str(others))
        add_person(graph, "a")
        for number in range(others):
            graph.branches.create(f"other{number}")
        graph.branches.create("dev")
        person(graph, "dev", "x")
        # Only a branch's own small file says what it was made from: children are looked for, once.
        graph.branches.details()
        with counted() as io:
            graph.branches.delete("dev")
        assert io["branch_reads"] <= 2
        costs.append(io)
    assert costs[0] == costs[1]
