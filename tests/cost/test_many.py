"""What many branches and many tables cost: each step of one is the same beside few and many."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.catalog import identity, shape
from omnigraph.commits.ancestry import children_first
from omnigraph.graph import overview
from omnigraph.lang import schema_compare, schema_reader
from omnigraph.ops import apply
from omnigraph.store import measured
from omnigraph.store.tables import journal
from tests.cost.measure import OPENS, QUERIES, add_person, new_graph, recorded_opens
from tests.cost.test_branches import wide

FEW, MANY = 2, 16


def person(graph: og.Graph, branch: str, name: str) -> None:
    graph.mutate(QUERIES, {"name": name, "age": 1}, name="add_person", branch=branch)


def busy(folder: Path, branches: int) -> og.Graph:
    """Return a graph with branches that were all written to."""
    graph = new_graph(folder)
    add_person(graph, "a")
    for number in range(branches):
        graph.branches.create(f"b{number:02}")
        person(graph, f"b{number:02}", "x")
    return graph


def cost_of(step: Callable[[], object]) -> Counter[str]:
    with measured() as io:
        step()
    return Counter(io)


# ---- branches -----------------------------------------------------------------------------


def test_every_step_in_the_life_of_a_branch_costs_the_same_beside_many(tmp_path: Path) -> None:
    costs = []
    for others in (FEW, MANY):
        graph = busy(tmp_path / str(others), others)
        graph.branches.create("warm")
        graph.branches.delete("warm")
        steps: dict[str, Callable[[], object]] = {
            "create": partial(graph.branches.create, "dev"),
            "write": partial(person, graph, "dev", "y"),
            "write again": partial(person, graph, "dev", "z"),
            "write to another": partial(person, graph, "b00", "y"),
            "delete": partial(graph.branches.delete, "dev"),
        }
        costs.append({name: cost_of(step) for name, step in steps.items()})
    assert costs[0] == costs[1]


def test_a_cleanup_of_deleted_branches_opens_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = []
    for number in (FEW, MANY):
        graph = busy(tmp_path / str(number), number)
        for name in graph.branches.list()[1:]:
            graph.branches.delete(name)
        with (
            og.open(graph.uri, durability="none", upkeep=False) as cold,
            recorded_opens(monkeypatch) as opened,
        ):
            cost = cost_of(partial(cold.cleanup, dry_run=False))
        assert not [path for path in opened if "/tree/" in path]
        # Its manifest and the line of the one table it wrote to.
        assert cost.pop("branch_deletes") == 2 * number
        # Where it was made, and where that line was.
        assert cost.pop("branch_reads") == 2 * number
        costs.append(cost)
        assert not os.listdir(Path(graph.uri) / "__manifest" / "tree")
    assert costs[0] == costs[1]


def test_a_cleanup_reads_no_file_of_a_branch_twice(tmp_path: Path) -> None:
    graph = busy(tmp_path, MANY)
    graph.cleanup(dry_run=False)
    again = cost_of(partial(graph.cleanup, dry_run=False))
    assert not any(again.get(name) for name in ("branch_reads", "manifest_opens", *OPENS))
    assert again.get("manifest_scans", 0) == 0


def test_a_branch_holds_nothing_in_memory_that_its_parent_holds(tmp_path: Path) -> None:
    graph = busy(tmp_path, 1)
    with og.open(graph.uri, durability="none", upkeep=False) as cold:
        lines = cold._engine.lines
        ours, theirs = (lines.get(name).manifest.history.recent for name in ("main", "b00"))
        shared = ours.commits.keys() & theirs.commits.keys()
        assert len(shared) == 2
        assert all(ours.commits[name] is theirs.commits[name] for name in shared)


# ---- all branches at once -----------------------------------------------------------------


def long(folder: Path, commits: int) -> str:
    """Return a graph with a history, and two branches that were made at its end."""
    graph = new_graph(folder)
    for number in range(commits):
        add_person(graph, f"p{number}")
    for name in ("one", "two"):
        graph.branches.create(name)
        person(graph, name, name)
    add_person(graph, "last")
    graph.close()
    return graph.uri


def test_looking_at_all_branches_reads_what_they_do_not_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "JOURNAL_TIER_BASE", 3)
    monkeypatch.setattr(journal, "CHECKPOINT_ROWS", 8)
    costs = []
    for commits in (20, 60):
        uri = long(tmp_path / str(commits), commits)
        with og.open(uri, durability="none", upkeep=False) as graph:
            for name in ("one", "two"):
                graph.snapshot(name)
            # Its older part is not in memory.
            assert graph._engine.lines.main.manifest.history.recent.floor > 0
            heads = cost_of(graph.branches.heads)
            found = graph.branches.heads()
        distances = {item.name: (item.ahead, item.behind) for item in found.branches}
        assert distances == {"main": (0, 0), "one": (1, 1), "two": (1, 1)}
        costs.append(heads)
        graph = og.open(uri, durability="none", upkeep=False)
        for name in ("one", "two"):
            graph.branches.delete(name)
        alone = cost_of(graph.branches.heads)
        assert alone.get("manifest_scans", 0) == 0
        graph.close()
    assert costs[0].get("manifest_scans", 0) == costs[1].get("manifest_scans", 0)


def _noted(looked: list[str], found: dict[str, og.GraphCommit]) -> list[og.GraphCommit]:
    looked += found
    return children_first(found)


def test_a_page_of_all_history_reads_no_more_of_a_longer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "JOURNAL_TIER_BASE", 3)
    monkeypatch.setattr(journal, "CHECKPOINT_ROWS", 8)
    monkeypatch.setattr(overview, "HISTORY_SPARE_COMMITS", 2)
    read = []
    for commits in (20, 60):
        uri = long(tmp_path / str(commits), commits)
        with og.open(uri, durability="none", upkeep=False) as graph:
            looked: list[str] = []
            ordered = partial(_noted, looked)
            monkeypatch.setattr(overview, "children_first", ordered)
            page = graph.branches.history(limit=3)
        assert len(page.commits) == 3
        assert page.next_page_token is not None
        read.append(len(looked))
    assert read[0] == read[1] <= 6


# ---- tables -------------------------------------------------------------------------------


def test_a_schema_change_opens_the_tables_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = []
    for tables in (5, 40):
        graph = new_graph(tmp_path / str(tables), wide(tables))
        add_person(graph, "a")
        changed = wide(tables).replace("age: I32?", "age: I32?  size: I32?")
        with og.open(graph.uri, durability="none", upkeep=False) as cold:
            with recorded_opens(monkeypatch) as opened:
                costs.append(cost_of(partial(cold.schema.apply, changed)))
            assert len({path for path in opened if "__manifest" not in path}) == 1
    assert costs[0] == costs[1]


WORK = (
    (schema_reader, "_read"),
    (schema_compare.Comparison, "_type"),
    (shape, "_type_shape"),
    (identity, "lines_of"),
    (identity, "TypeIdentity"),
    (apply, "check_stored"),
)
"""What is done for each declaration: compiled, compared, written down, numbered, held against rows.
"""


@contextmanager
def counted_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count the calls that are made for single declarations."""
    calls: Counter[str] = Counter()

    def counting(name: str, original: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            calls[name] += 1
            return original(*arguments, **named)

        return call

    with monkeypatch.context() as patch:
        for owner, name in WORK:
            patch.setattr(owner, name, counting(name, getattr(owner, name)))
        yield calls


def test_a_schema_change_looks_at_the_declarations_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for tables in (5, 40):
        graph = new_graph(tmp_path / str(tables), wide(tables))
        add_person(graph, "a")
        changed = wide(tables).replace("age: I32?", "age: I32?  size: I32?")
        with counted_work(monkeypatch) as calls:
            assert graph.schema.apply(changed).applied
        assert calls["_read"] == calls["_type"] == calls["_type_shape"] == 1
        found.append(calls)
        with counted_work(monkeypatch) as calls:
            assert not graph.schema.apply(changed).applied
        assert not calls
    assert found[0] == found[1]


def test_maintenance_with_nothing_to_do_opens_each_table_once(tmp_path: Path) -> None:
    for tables in (5, 40):
        graph = new_graph(tmp_path / str(tables), wide(tables))
        add_person(graph, "a")
        graph.optimize()
        with og.open(graph.uri, durability="none", upkeep=False) as cold:
            cost = cost_of(cold.optimize)
            assert sum(cost.get(name, 0) for name in OPENS) <= tables
            again = cost_of(partial(cold.cleanup, dry_run=False))
            assert again.get("reclaims", 0) == 0
            assert sum(again.get(name, 0) for name in OPENS) == 0
