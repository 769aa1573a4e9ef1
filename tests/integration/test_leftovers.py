"""What killed loads leave behind is removed by a cleanup, once it is old, and nothing else is."""

from __future__ import annotations

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.failpoints import Failpoint, armed, error
from omnigraph.graph.seam import scratch_folder
from omnigraph.ops import cleanup
from omnigraph.store import locate
from tests.integration.helpers import NewGraph
from tests.places import files_below

SCHEMA = "node Person { name: String @key  age: I32?  photo: Blob? }"
NAMES = "query q() { match { $p: Person } return { $p.name } }"


def _load(graph: og.Graph, start: int, stop: int, branch: str = "main") -> None:
    rows = pa.table({"name": [f"p{n}" for n in range(start, stop)], "age": [1] * (stop - start)})
    graph.load_table("Person", rows, mode="append", branch=branch)


def _data(graph: og.Graph) -> set[str]:
    return {name for name, _ in files_below(graph.uri) if "/data/" in name}


def test_staged_files_of_a_failed_load_are_reclaimed(
    new_graph: NewGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(SCHEMA)
    _load(graph, 0, 5)
    graph.branches.create("dev")
    _load(graph, 5, 9, "dev")
    graph.mutate('query q() { update Person set { age: 2 } where name = "p1" }')
    before = _data(graph)
    with armed(Failpoint.WRITE_POST_STAGE, error), pytest.raises(og.StorageError):
        _load(graph, 10, 20)
    with armed(Failpoint.WRITE_POST_STAGE, error), pytest.raises(og.StorageError):
        _load(graph, 10, 20, "dev")
    left = _data(graph) - before
    assert len(left) >= 2
    assert any("/tree/" in name for name in left)
    graph.cleanup(keep=1, dry_run=False)
    assert left <= _data(graph), "a young file may belong to a write under way"
    # Everything is as old as that.
    monkeypatch.setattr(cleanup, "ORPHAN_AGE_S", -60.0)
    dry = graph.cleanup(keep=1, dry_run=True)
    assert left <= _data(graph)
    files = locate(graph.uri).files
    size = sum(len(files.read(f"{graph.uri}/{name}") or b"") for name in left)
    assert sum(item.bytes_removed for item in dry.tables if item.error is None) >= size
    graph.cleanup(keep=1, dry_run=False)
    assert not left & _data(graph)
    assert len(graph.query(NAMES)) == 5
    assert len(graph.query(NAMES, branch="dev")) == 9
    with og.open(graph.uri, mode="ro") as reader:
        assert len(reader.query(NAMES, branch="dev")) == 9


def test_scratch_of_a_killed_load_is_reclaimed(
    new_graph: NewGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(SCHEMA)
    files = locate(graph.uri).files
    rows = f"{scratch_folder(graph, shared=True)}/rows.arrow"
    files.replace(rows, b"x" * 100, sync=False)
    graph.cleanup(keep=1, dry_run=False)
    assert files.exists(rows)
    monkeypatch.setattr(cleanup, "ORPHAN_AGE_S", -60.0)
    report = graph.cleanup(keep=1, dry_run=False)
    assert not files.exists(rows)
    assert [t.bytes_removed for t in report.tables if t.table_key == "_scratch"] == [100]
