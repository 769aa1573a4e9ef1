"""What a handle holds does not grow with the commits it made."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.store import keys, tables

ADD = "query add($n: String) { insert Person { name: $n } }"


def versions_held() -> int:
    gc.collect()
    return sum(type(item).__name__ == "LanceDataset" for item in gc.get_objects())


def test_old_versions_of_tables_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "OPEN_TABLES_MAX", 6)
    monkeypatch.setattr(keys, "PROBE_PLANS_MAX", 4)
    held = []
    with og.init(tmp_path / "g", "node Person { name: String @key }", durability="none") as graph:
        for number in range(36):
            graph.mutate(ADD, {"n": f"p{number}"})
            if number % 12 == 11:
                held.append(versions_held())
    assert held[2] <= held[1] + 2, held
