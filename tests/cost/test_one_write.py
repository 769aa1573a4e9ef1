"""Gates of a single write: the schema is checked once, tables open once, one publish, one slot."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import omnigraph as og
from tests.cost.measure import (
    OPENS,
    add_knows,
    add_person,
    new_graph,
    recorded_opens,
    three_table_rows,
)

Write = Callable[[og.Graph], Mapping[str, int]]


def _insert(graph: og.Graph) -> Mapping[str, int]:
    return add_person(graph, "x").io


def _insert_edge(graph: og.Graph) -> Mapping[str, int]:
    return add_knows(graph, source="ann", target="bob").io


def _load_three(graph: og.Graph) -> Mapping[str, int]:
    return graph.load(three_table_rows("new"), mode="merge").io


def _update(graph: og.Graph) -> Mapping[str, int]:
    text = 'query q() { update Person set { age: 9 } where name = "ann" }'
    return graph.mutate(text).io


def _delete(graph: og.Graph) -> Mapping[str, int]:
    return graph.mutate('query q() { delete Person where name = "eve" }').io


WRITES: list[tuple[Write, int]] = [
    # Each write with the number of tables it may open: those it touches or looks into.
    (_insert, 1),
    (_insert_edge, 2),
    (_load_three, 3),
    (_update, 1),
    (_delete, 3),
]
NAMES = ["insert", "insert-edge", "load-three-tables", "update", "delete-cascade"]
ALL_WRITES = pytest.mark.parametrize(("write", "tables"), WRITES, ids=NAMES)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A graph with a few rows in every table, and a handle that has written before."""
    found = new_graph(tmp_path)
    found.load(three_table_rows("old"), mode="append")
    for name in ("ann", "bob", "eve"):
        add_person(found, name)
    add_knows(found, source="ann", target="bob")
    add_knows(found, source="eve", target="bob")
    return found


@ALL_WRITES
def test_every_write_checks_the_schema_exactly_once(
    graph: og.Graph, write: Write, tables: int
) -> None:
    for _repetition in range(2):
        io = write(graph)
        assert (io["schema_text_reads"], io["schema_exists"]) == (3, 2)
        add_person(graph, "eve")


@ALL_WRITES
def test_a_cold_write_opens_each_table_at_most_once(
    graph: og.Graph, write: Write, tables: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = og.open(graph.uri, durability="none")
    with recorded_opens(monkeypatch) as opened:
        io = write(cold)
    by_table = Counter(path for path in opened if "__manifest" not in path)
    assert set(by_table.values()) <= {1}, by_table
    assert len(by_table) <= tables
    assert sum(io.get(name, 0) for name in OPENS) == len(by_table), "an open was not counted"
    assert io.get("data_opens_latest", 0) == 0


def test_a_warm_insert_opens_nothing(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    add_person(graph, "warm")
    with recorded_opens(monkeypatch) as opened:
        io = add_person(graph, "x").io
    assert opened == []
    assert sum(io.get(name, 0) for name in OPENS) == 0


@ALL_WRITES
def test_an_uncontended_write_publishes_once_and_reads_no_manifest(
    graph: og.Graph, write: Write, tables: int
) -> None:
    io = write(graph)
    assert io["publish_attempts"] == 1
    assert io.get("manifest_scans", 0) == 0
    assert io.get("manifest_opens", 0) == 0
    assert io["manifest_latest_probes"] <= 2


@ALL_WRITES
def test_a_write_moves_each_changed_table_once(graph: og.Graph, write: Write, tables: int) -> None:
    before = graph.snapshot().tables
    io = write(graph)
    after = graph.snapshot().tables
    moved = [key for key in after if after[key].version != before[key].version]
    assert 1 <= len(moved) <= tables
    assert all(after[key].version == before[key].version + 1 for key in moved)
    assert io["data_commits"] == io["data_stages"] == len(moved)


@ALL_WRITES
def test_a_write_takes_one_slot_and_leaves_none(graph: og.Graph, write: Write, tables: int) -> None:
    recovery = os.path.join(graph.uri, "__recovery")
    for _repetition in range(2):
        io = write(graph)
        assert (io["slot_puts"], io["slot_deletes"]) == (1, 1)
        assert io.get("slot_lists", 0) == 0
        assert os.listdir(recovery) == []
        add_person(graph, "eve")


def test_a_refused_write_takes_no_slot_and_commits_nothing(graph: og.Graph) -> None:
    before = graph.snapshot().version
    with pytest.raises(og.DataError):
        add_knows(graph, source="ann", target="nobody")
    assert os.listdir(os.path.join(graph.uri, "__recovery")) == []
    assert graph.snapshot().version == before


def test_an_unsynced_write_syncs_nothing_and_a_synced_one_a_fixed_number(tmp_path: Path) -> None:
    loose = new_graph(tmp_path)
    add_person(loose, "a")
    assert add_person(loose, "b").io.get("syncs", 0) == 0
    safe = og.open(loose.uri, durability="full")
    counts = [add_person(safe, f"s{number}").io["syncs"] for number in range(6)]
    # The data file, two version files, the journal's rows, the slot, and their folders.
    assert len(set(counts[1:])) == 1
    assert counts[-1] <= 12
