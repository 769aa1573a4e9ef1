"""What a read costs: a repeated one touches no table, a selective one not the whole of any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.limits import PROBED_QUERIES_MAX
from omnigraph.read import execute
from omnigraph.store import measured
from tests.cost.measure import add_knows, new_graph, recorded_opens, three_table_rows

POINT = 'match { $p: Person { name: "a0" } } return { $p.age }'
FRIENDS = 'match { $p: Person { name: "a0" } $p knows $q } return { $q.age }'
COUNT = "match { $p: Person $p knows $q $q worksAt $c } return { $c.name, count($p) as n }"
QUERIES = (POINT, FRIENDS, COUNT)


def cost(graph: og.Graph, body: str) -> Mapping[str, int]:
    with measured() as io:
        graph.query(f"query q() {{ {body} }}")
    return io


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = new_graph(tmp_path)
    made.load(three_table_rows("a", people=30), mode="append")
    for number in range(10):
        add_knows(made, source="a0", target=f"a{number}")
    return made


@pytest.mark.parametrize("body", QUERIES)
def test_a_repeated_read_only_asks_whether_it_is_fresh(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    cost(graph, body)
    with recorded_opens(monkeypatch) as opened:
        warm = cost(graph, body)
    assert opened == []
    assert warm["manifest_latest_probes"] == 1
    assert {name for name, value in warm.items() if value} == {"manifest_latest_probes"}


@pytest.mark.parametrize("body", [FRIENDS, COUNT])
def test_a_read_after_a_commit_reads_what_was_added(graph: og.Graph, body: str) -> None:
    cost(graph, body)
    add_knows(graph, source="a0", target="a20")
    after = cost(graph, body)
    assert after["topology_builds"] == 0
    assert after["topology_patches"] == 1
    assert after["data_scans"] == 1, "only the new rows"


def test_a_selective_read_of_large_cold_tables_is_probed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(tmp_path)
    names = pa.array([f"a{number}" for number in range(200)])
    graph.load_table("Person", pa.table({"name": names}), mode="append")
    add_knows(graph, source="a0", target="a1")
    monkeypatch.setattr(execute, "PROBE_ROWS_MIN", 100)
    for turn in range(PROBED_QUERIES_MAX):
        found = cost(graph, FRIENDS)
        assert found["probed_queries"] == 1, turn
        assert found["data_scans"] == 2, "edges of one node, then the nodes they reach"
        assert found["topology_builds"] == 0
    # What is asked for again and again comes into memory after all.
    assert cost(graph, FRIENDS)["topology_builds"] == 1
    assert cost(graph, FRIENDS)["data_scans"] == 0


def test_small_tables_are_read_whole(graph: og.Graph) -> None:
    assert cost(graph, FRIENDS)["probed_queries"] == 0
