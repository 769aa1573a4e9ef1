"""What readers of different states and branches share: only what is the same in both."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.limits import KEYS_ADDED_MAX
from omnigraph.read.columns import KeyMap, TableColumns
from omnigraph.read.topology import Topologies

SCHEMA = "node P { k: String @key  v: I64? }\nedge E: P -> P"
ADD = "query add($k: String) { insert P { k: $k, v: 1 } }"
LINK = "query link($a: String, $b: String) { insert E { from: $a, to: $b } }"
PAIRS = "query pairs() { match { $a: P  $a e $b } return { $a.k, $b.k } order { $a.k } }"
VALUES = "query values() { match { $a: P } return { $a.k, $a.v } order { $a.k } }"
SUM = "query sum() { match { $a: P } return { count($a) as n } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    rows: list[dict[str, Any]] = [{"type": "P", "data": {"k": k}} for k in "zabc"]
    rows += [{"edge": "E", "from": a, "to": "c"} for a in "ab"]
    with og.init(tmp_path / "g", SCHEMA, durability="none") as found:
        found.load(rows, mode="append")
        yield found


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Columns and topologies that were made from whole tables."""
    found: list[str] = []
    read, build = TableColumns.read, Topologies.built

    def reading(self: TableColumns, pin: Any, name: str) -> Any:
        found.append(name)
        return read(self, pin, name)

    def building(self: Topologies, pin: Any, source: Any, target: Any) -> Any:
        found.append("topology")
        return build(self, pin, source, target)

    monkeypatch.setattr(TableColumns, "read", reading)
    monkeypatch.setattr(Topologies, "built", building)
    return found


def pairs(graph: og.Graph, **state: Any) -> list[tuple[str, str]]:
    return [(row["a.k"], row["b.k"]) for row in graph.query(PAIRS, **state)]


def test_branches_whose_nodes_differ_share_no_topology(graph: og.Graph) -> None:
    graph.branches.create("dev")
    # As many commits on both sides, so that versions have the same numbers.
    graph.mutate('query drop() { delete P where k = "z" }', branch="dev")
    graph.mutate(ADD, {"k": "y"})
    tables = [graph.snapshot(branch=name).tables for name in ("main", "dev")]
    assert tables[0]["node:P"].version == tables[1]["node:P"].version
    assert tables[0]["edge:E"] == tables[1]["edge:E"]
    for branch in ("main", "dev", "main"):
        assert pairs(graph, branch=branch) == [("a", "c"), ("b", "c")]
    graph.mutate(LINK, {"a": "c", "b": "y"})
    graph.mutate(LINK, {"a": "c", "b": "a"}, branch="dev")
    assert pairs(graph) == [("a", "c"), ("b", "c"), ("c", "y")]
    assert pairs(graph, branch="dev") == [("a", "c"), ("b", "c"), ("c", "a")]


def test_an_older_state_is_part_of_a_newer_one(graph: og.Graph, whole: list[str]) -> None:
    before = graph.commits.head().graph_commit_id
    graph.query(VALUES)
    for number in range(3):
        graph.mutate(ADD, {"k": f"n{number}"})
        assert len(graph.query(VALUES)) == 5 + number
    read = list(whole)
    assert [row["a.k"] for row in graph.query(VALUES, commit=before)] == ["a", "b", "c", "z"]
    assert len(graph.query(VALUES)) == 7
    assert whole == read


def test_a_branch_reads_only_what_it_added(graph: og.Graph, whole: list[str]) -> None:
    graph.query(VALUES)
    assert len(pairs(graph)) == 2
    graph.branches.create("dev")
    graph.mutate(ADD, {"k": "n"}, branch="dev")
    graph.mutate(LINK, {"a": "n", "b": "a"}, branch="dev")
    read = list(whole)
    assert [row["a.k"] for row in graph.query(VALUES, branch="dev")] == ["a", "b", "c", "n", "z"]
    assert pairs(graph, branch="dev") == [("a", "c"), ("b", "c"), ("n", "a")]
    assert len(graph.query(VALUES)) == 4
    assert len(pairs(graph)) == 2
    assert whole == read


def test_readers_at_once_read_what_was_added_once(graph: og.Graph, whole: list[str]) -> None:
    graph.query(VALUES)
    pairs(graph)
    read = list(whole)
    readers = 8
    barrier = threading.Barrier(readers + 1)
    wrong: list[object] = []

    def reading(rounds: int) -> None:
        for number in range(rounds):
            barrier.wait()
            # The writer goes on: some readers see the state before, some that after.
            rows, links = len(graph.query(VALUES)), len(pairs(graph))
            if not (4 + number <= rows <= 5 + number and 2 + number <= links <= 3 + number):
                wrong.append((number, rows, links))
            barrier.wait()

    with ThreadPoolExecutor(readers) as pool:
        done = [pool.submit(reading, 6) for _reader in range(readers)]
        for number in range(6):
            barrier.wait()
            graph.load(
                [
                    {"type": "P", "data": {"k": f"n{number}"}},
                    {"edge": "E", "from": f"n{number}", "to": "a"},
                ],
                mode="append",
            )
            barrier.wait()
        for item in done:
            item.result()
    assert wrong == []
    assert len(graph.query(VALUES)) == 10
    assert len(pairs(graph)) == 8
    assert whole == read


def test_ids_of_a_branch_are_put_in_order_once(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered: list[int] = []
    make = KeyMap.__init__

    def made(self: KeyMap, ids: Any, base: KeyMap | None = None) -> None:
        if base is None:
            ordered.append(len(ids))
        make(self, ids, base)

    monkeypatch.setattr(KeyMap, "__init__", made)
    assert len(pairs(graph)) == 2
    graph.branches.create("dev")
    for number in range(4):
        for branch in ("main", "dev"):
            graph.mutate(ADD, {"k": f"n{number}"}, branch=branch)
            graph.mutate(LINK, {"a": f"n{number}", "b": "a"}, branch=branch)
            graph.mutate(LINK, {"a": "b", "b": f"n{number}"}, branch=branch)
            found = pairs(graph, branch=branch)
            assert (f"n{number}", "a") in found
            assert ("b", f"n{number}") in found
            assert len(found) == 2 + 2 * (number + 1)
    # Once for each of the two branches, which have gone apart by then.
    assert ordered == [5, 6]


def test_a_map_of_ids_grows() -> None:
    ids = pa.array([f"k{number * 7 % 50}" for number in range(50)])
    base = KeyMap(ids.slice(0, 30))
    grown = KeyMap(ids, KeyMap(ids.slice(0, 40), base))
    assert [grown.find(item.as_py()) for item in ids] == list(range(50))
    assert grown.find("nobody") == -1
    assert base.can_grow(30)
    assert not base.can_grow(29)
    assert not base.can_grow(30 + KEYS_ADDED_MAX + 1)
