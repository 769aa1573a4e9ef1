"""What a handle holds does not grow with the commits it made."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.store.tables import keys
from omnigraph.store.tables import table as tables

ADD = "query add($n: String) { insert Person { name: $n } }"
ALL = "query all() { match { $p: Person } return { $p.name } }"


def versions_held() -> int:
    gc.collect()
    return sum(type(item).__name__ == "LanceDataset" for item in gc.get_objects())


def test_old_versions_of_tables_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "OPEN_TABLES_MAX", 6)
    monkeypatch.setattr(keys, "PROBE_PLANS_MAX", 4)
    held = []
    with og.init(tmp_path / "g", "node Person { name: String @key }", durability="none") as graph:
        for number in range(72):
            graph.mutate(ADD, {"n": f"p{number}"})
            if number % 24 == 23:
                held.append(versions_held())
    assert held[2] <= held[1] + 2, held


class Allocated(ctypes.Structure):
    """What glibc's `mallinfo2` tells."""

    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


def allocated_bytes() -> int:
    """Return what all code of this process holds, Lance's included."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        pytest.skip("needs glibc")
    library.mallinfo2.restype = Allocated
    gc.collect()
    found = library.mallinfo2()
    return int(found.uordblks + found.hblkhd)


def test_versions_of_a_branch_do_not_hold_on_to_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "OPEN_TABLES_MAX", 6)
    monkeypatch.setattr(tables, "HANDLE_COMMITS_MAX", 16)
    monkeypatch.setattr(tables, "LANCE_METADATA_CACHE_BYTES", 1 << 20)
    monkeypatch.setattr(keys, "PROBE_PLANS_MAX", 4)
    with og.init(tmp_path / "g", "node Person { name: String @key }", durability="none") as graph:
        graph.branches.create("dev")
        grown = {}
        for branch in ("main", "dev"):
            # Both counts leave as many rows behind that wait to be folded.
            for number in range(64):
                graph.mutate(ADD, {"n": f"{branch}-{number}"}, branch=branch)
            before = allocated_bytes()
            for number in range(64, 160):
                graph.mutate(ADD, {"n": f"{branch}-{number}"}, branch=branch)
            grown[branch] = (allocated_bytes() - before) / 96
    # Without opening anew it is 20 KB.
    assert grown["dev"] - grown["main"] < 8_000, grown


def test_a_branch_is_opened_anew_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "HANDLE_COMMITS_MAX", 16)
    opens = {"main": 0, "dev": 0}
    with og.init(tmp_path / "g", "node Person { name: String @key }", durability="none") as graph:
        graph.branches.create("dev")
        for branch in opens:
            graph.mutate(ADD, {"n": "first"}, branch=branch)
            for number in range(64):
                io = graph.mutate(ADD, {"n": f"p{number}"}, branch=branch).io
                opens[branch] += io.get("manifest_opens", 0) + io.get("data_opens_pinned", 0)
        assert len(graph.query(ALL, branch="dev")) == 65
    assert opens["main"] == 0
    assert 4 <= opens["dev"] <= 12


def test_a_refused_query_lets_go_of_what_it_had_made(tmp_path: Path) -> None:
    """Whoever keeps the error keeps nothing of the query; a collection is not waited for."""
    schema = "node Person { name: String @key }\nedge Knows: Person -> Person"
    numbers = range(2_000)
    rows = [{"type": "Person", "data": {"name": f"p{n}"}} for n in numbers]
    rows += [
        {"edge": "Knows", "from": f"p{n}", "to": f"p{(n * 7 + k * 13 + 1) % 2_000}"}
        for n in numbers
        for k in range(20)
    ]
    # 16 million paths are made, 320 million are refused.
    paths = """query q() { match { $a: Person  $a knows $b  $b knows $c  $c knows $d  $d knows $e }
        return { $a.name, $b.name, $c.name, $d.name, $e.name } }"""
    with og.init(tmp_path / "g", schema, durability="none") as graph:
        graph.load(rows, mode="append")
        graph.query("query q() { match { $a: Person  $a knows $b } return { count(*) as n } }")
        gc.collect()
        gc.disable()
        try:
            before = resident_mb()
            with pytest.raises(og.ResourceLimitError) as kept:
                graph.query(paths)
            assert resident_mb() - before < 100
            assert "rows" in str(kept.value)
        finally:
            gc.enable()


def resident_mb() -> float:
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("VmRSS:"))
    return int(row.split()[1]) / 1024
