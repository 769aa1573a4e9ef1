"""What killed loads leave behind is removed by a cleanup, once it is old, and nothing else is."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.failpoints import Failpoint, armed, error

SCHEMA = "node Person { name: String @key  age: I32? }"
DAY_S = 86_400.0


def _load(graph: og.Graph, start: int, stop: int, branch: str = "main") -> None:
    rows = pa.table({"name": [f"p{n}" for n in range(start, stop)], "age": [1] * (stop - start)})
    graph.load_table("Person", rows, mode="append", branch=branch)


def _aged(folder: Path) -> None:
    past = time.time() - 2 * DAY_S
    for parent, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            os.utime(os.path.join(parent, name), (past, past))


def _data(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*.lance") if path.parent.name == "data"}


def test_staged_files_of_a_failed_load_are_reclaimed(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as graph:
        _load(graph, 0, 5)
        graph.branches.create("dev")
        _load(graph, 5, 9, "dev")
        graph.mutate('query q() { update Person set { age: 2 } where name = "p1" }')
        before = _data(tmp_path / "g")
        with armed(Failpoint.WRITE_POST_STAGE, error), pytest.raises(og.StorageError):
            _load(graph, 10, 20)
        left = _data(tmp_path / "g") - before
        assert left
        graph.cleanup(keep=1, dry_run=False)
        assert left <= _data(tmp_path / "g"), "a young file may belong to a write under way"
        _aged(tmp_path / "g")
        dry = graph.cleanup(keep=1, dry_run=True)
        assert left <= _data(tmp_path / "g")
        assert sum(item.bytes_removed for item in dry.tables)
        graph.cleanup(keep=1, dry_run=False)
        assert not left & _data(tmp_path / "g")
        rows = graph.query("query q() { match { $p: Person } return { $p.name } }")
        assert len(rows) == 5
        rows = graph.query("query q() { match { $p: Person } return { $p.name } }", branch="dev")
        assert len(rows) == 9


def test_scratch_of_a_killed_load_is_reclaimed(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as graph:
        folder = Path(graph.scratch_folder())
        (folder / "rows.arrow").write_bytes(b"x" * 100)
        graph.cleanup(keep=1, dry_run=False)
        assert folder.exists()
        _aged(folder.parent)
        report = graph.cleanup(keep=1, dry_run=False)
        assert not folder.exists()
        assert [t.bytes_removed for t in report.tables if t.table_key == "_scratch"] == [100]
