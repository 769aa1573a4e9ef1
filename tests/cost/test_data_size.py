"""The cost of a write does not depend on the rows stored, on its own rows, or on other tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.ops import compact_tail as fold
from omnigraph.store import ID_INDEX
from tests.cost.measure import (
    add_knows,
    add_person,
    assert_flat,
    counted_bytes,
    is_plain,
    new_graph,
    three_table_rows,
)

INDEX_PAGE_BYTES_MAX = 96 * 1024
"""One page of a BTREE over short ids: 4,096 ids and row addresses."""


# ---- rows of the write itself -------------------------------------------------------------


def _base_graph(folder: Path) -> og.Graph:
    """Return a new handle on a graph with some people: nothing it probes is in memory."""
    graph = new_graph(folder)
    people = [
        {"type": "Person", "data": {"name": f"p{number}", "email": f"p{number}@x"}}
        for number in range(200)
    ]
    graph.load(people, mode="append")
    graph.close()
    return og.open(graph.uri, durability="none")


def _load_people(graph: og.Graph, rows: int) -> Mapping[str, int]:
    people = [
        {"type": "Person", "data": {"name": f"q{number}", "email": f"q{number}@x"}}
        for number in range(rows)
    ]
    return graph.load(people, mode="merge").io


def _load_edges(graph: og.Graph, rows: int) -> Mapping[str, int]:
    edges = [
        {"edge": "Knows", "from": f"p{number}", "to": f"p{number + 100}", "data": {}}
        for number in range(rows)
    ]
    return graph.load(edges, mode="append").io


@pytest.mark.parametrize("load", [_load_people, _load_edges], ids=["unique", "endpoints"])
def test_probes_do_not_depend_on_the_rows_of_the_write(tmp_path: Path, load: Any) -> None:
    costs = [load(_base_graph(tmp_path / str(rows)), rows) for rows in (4, 64)]
    assert costs[0]["data_scans"] == costs[1]["data_scans"]
    assert costs[0]["data_scans"] >= 1, "nothing was probed, so nothing was shown"
    assert_flat(costs, slack=0)


# ---- other tables -------------------------------------------------------------------------


def _schema_of(tables: int) -> str:
    return "\n".join(
        ["node Person { name: String @key age: I32? }", "edge Knows: Person -> Person"]
        + [f"node Other{number} {{ code: String @key }}" for number in range(tables - 2)]
    )


def _costs_beside(folder: Path, tables: int) -> dict[str, Mapping[str, int]]:
    graph = new_graph(folder, _schema_of(tables))
    assert len(graph.snapshot().tables) == tables
    for name in ("a", "b", "c"):
        add_person(graph, name)
    add_knows(graph, source="a", target="b")
    costs = {
        "insert": add_person(graph, "d").io,
        "insert edge": add_knows(graph, source="b", target="c").io,
        "update": graph.mutate('query q() { update Person set { age: 2 } where name = "a" }').io,
        "delete": graph.mutate('query q() { delete Person where name = "d" }').io,
    }
    cold = og.open(graph.uri, durability="none")
    costs["first insert of a handle"] = add_person(cold, "e").io
    return costs


def test_a_write_costs_the_same_beside_5_and_50_tables(tmp_path: Path) -> None:
    few, many = (_costs_beside(tmp_path / str(tables), tables) for tables in (5, 50))
    assert few == many


# ---- rows stored --------------------------------------------------------------------------

SIZES = (10_000, 1_000_000)


class Sized:
    """A graph with many people, ids `p000000000` and up, all covered by the id index."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.rows = rows
        self.graph = new_graph(folder)
        names = pa.array([f"p{number:09d}" for number in range(rows)])
        self.graph.load_table("Person", pa.table({"name": names}), mode="append")
        for number in range(40):
            add_person(self.graph, f"p000000000-warm{number:02d}")
        pin = self.graph.snapshot().tables["node:Person"]
        table = self.graph._engine.tables.open(pin.path, pin.version)
        assert table.index_fragments(ID_INDEX), "no id index: the comparison would mean nothing"

    def costs(self, names: list[str]) -> tuple[list[Mapping[str, int]], list[int]]:
        """Insert people; return counters and bytes read of the inserts that folded nothing."""
        counters: list[Mapping[str, int]] = []
        read: list[int] = []
        for name in names:
            with counted_bytes() as found:
                io = add_person(self.graph, name).io
            if is_plain(io):
                counters.append(io)
                read.append(found.read)
        return counters, read


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Sized]]:
    graphs = [Sized(tmp_path_factory.mktemp("sized"), rows) for rows in SIZES]
    yield graphs
    for item in graphs:
        item.graph.close()


def test_a_keyed_insert_costs_the_same_on_a_small_and_a_large_table(sized: list[Sized]) -> None:
    names = [f"p000000000-same{number}" for number in range(8)]
    small, large = (item.costs(names) for item in sized)
    assert_flat([small[0][-1], large[0][-1]], slack=0)
    # The ids are neighbours, so the index page they fall on is in memory on both sides.
    assert median(large[1]) <= 1.2 * median(small[1])


def test_an_insert_anywhere_in_a_large_table_reads_at_most_one_index_page(
    sized: list[Sized],
) -> None:
    _small, large = sized
    step = large.rows // 8
    near = large.costs([f"p000000000-near{number}" for number in range(8)])
    spread = large.costs([f"p{number * step:09d}-far" for number in range(8)])
    assert_flat([near[0][-1], spread[0][-1]], slack=0)
    assert median(spread[1]) <= median(near[1]) + INDEX_PAGE_BYTES_MAX


def test_an_edge_between_nodes_of_a_large_table_costs_the_same(sized: list[Sized]) -> None:
    costs = [
        [
            add_knows(item.graph, source="p000000001", target=f"p00000000{number}").io
            for number in range(2, 6)
        ][-1]
        for item in sized
    ]
    assert_flat(costs, slack=0)


# ---- folding after a load -----------------------------------------------------------------


def test_a_load_indexes_every_table_it_made_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "TAIL_ROWS", 10)
    graph = new_graph(tmp_path)
    graph.load(three_table_rows("t", people=20), mode="append")
    pins = graph.snapshot().tables
    covered = {
        key: graph._engine.tables.open(pins[key].path, pins[key].version).index_fragments(ID_INDEX)
        for key in ("node:Person", "edge:WorksAt")
    }
    assert all(covered.values()), covered
