"""How fast values are joined, and in how much memory, beside DuckDB on the same rows.

    python benchmarks/joins.py [rows]

Two types of a million rows each are joined on unique integers and on unique texts: counted, and
listed. DuckDB holds the rows in tables in memory. Memory is the growth of the resident set by the
joins of a process of its own, with the rows already read. The smaller join is measured cold, too.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from _harness import Report, interleave, ratio_of
from numpy.typing import NDArray

import omnigraph as og

SMALL, ROUNDS = 20_000, 15
SCHEMA = """
node Left { slug: String @key  number: I64  word: String  other: I64 }
node Right { slug: String @key  number: I64  word: String  other: I64 }
"""
QUERIES = {
    "count, integers": "match { $a: Left $b: Right { number: $a.number } }"
    " return { count(*) as n }",
    "count, texts": "match { $a: Left $b: Right { word: $a.word } } return { count(*) as n }",
    "list, integers": "match { $a: Left $b: Right { number: $a.number } }"
    " return { $a.other as x, $b.other as y }",
    "list, texts": "match { $a: Left $b: Right { word: $a.word } }"
    " return { $a.other as x, $b.other as y }",
}
SQL = {
    "count, integers": "SELECT count(*) FROM l JOIN r USING (number)",
    "count, texts": "SELECT count(*) FROM l JOIN r USING (word)",
    "list, integers": "SELECT l.other, r.other FROM l JOIN r USING (number)",
    "list, texts": "SELECT l.other, r.other FROM l JOIN r USING (word)",
}


def sides(rows: int) -> tuple[pa.Table, pa.Table]:
    """Return the rows of both types: the same keys, each in an order of its own."""
    rng = np.random.default_rng(7)
    keys = rng.choice(rows * 1000, rows, replace=False)

    def side(order: NDArray[np.int64]) -> pa.Table:
        return pa.table(
            {
                "slug": [f"k{number}" for number in range(rows)],
                "number": pa.array(order),
                "word": [f"person-{number}" for number in order],
                "other": pa.array(np.arange(rows)),
            }
        )

    return side(rng.permutation(keys)), side(rng.permutation(keys))


def asked_graph(graph: og.Graph) -> dict[str, Callable[[], pa.Table]]:
    """Return what asks a graph each question."""

    def ask(text: str) -> pa.Table:
        return graph.query(f"query q() {{ {text} }}").to_arrow()

    return {name: partial(ask, text) for name, text in QUERIES.items()}


def asked_duckdb(base: duckdb.DuckDBPyConnection) -> dict[str, Callable[[], pa.Table]]:
    """Return what asks DuckDB each question."""

    def ask(text: str) -> pa.Table:
        return base.sql(text).to_arrow_table()

    return {name: partial(ask, text) for name, text in SQL.items()}


def duckdb_with(one: pa.Table, other: pa.Table) -> duckdb.DuckDBPyConnection:
    """Return a database in memory that holds both sides."""
    base = duckdb.connect()
    for name, rows in (("l", one), ("r", other)):
        base.register("given", rows.select(["number", "word", "other"]))
        base.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        base.unregister("given")
    return base


def load(graph: og.Graph, one: pa.Table, other: pa.Table) -> None:
    """Fill a graph."""
    graph.load_table("Left", one, mode="append")
    graph.load_table("Right", other, mode="append")


def resident() -> int:
    """Return the memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def peak_of(work: Callable[[], object]) -> int:
    """Return by how many bytes the process grows while it works."""
    base = highest = resident()
    done = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.0005):
            highest = max(highest, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    result = work()
    highest = max(highest, resident())
    done.set()
    watcher.join()
    del result
    return highest - base


def memory(folder: str, who: str, name: str, rows: int) -> None:
    """Print what one question adds to the memory of this process, the rows having been read."""
    if who == "omnigraph":
        with og.open(Path(folder) / "g") as graph:
            for side in ("Left", "Right"):
                columns = "$x, $x.number, $x.word, $x.other"
                text = f"query q() {{ match {{ $x: {side} }} return {{ {columns} }} }}"
                graph.query(text)
            pa.default_memory_pool().release_unused()
            print(peak_of(asked_graph(graph)[name]))
        return
    one, other = sides(rows)
    with duckdb_with(one, other) as base:
        del one, other
        pa.default_memory_pool().release_unused()
        print(peak_of(asked_duckdb(base)[name]))


def grown(folder: str, who: str, name: str, rows: int) -> float:
    """Return what one question adds to the memory of a process of its own, in megabytes."""
    call = [sys.executable, __file__, json.dumps([folder, who, name, rows])]
    found = subprocess.run(  # noqa: S603 - this file
        call, check=True, capture_output=True, text=True
    )
    return int(found.stdout) / 1e6


def small(report: Report) -> None:
    """Measure the join that was refused before there were any."""
    one, other = sides(SMALL)
    with (
        tempfile.TemporaryDirectory() as folder,
        og.init(Path(folder) / "g", SCHEMA, durability="none") as graph,
    ):
        load(graph, one, other)
        for name, ask in asked_graph(graph).items():
            begun = time.perf_counter()
            ask()
            seconds = time.perf_counter() - begun
            report.figure(f"{name}, 20,000 rows, first", seconds, " s", at_most=0.2)


def main() -> None:
    """Run the benchmark."""
    if len(sys.argv) > 1 and sys.argv[1].startswith("["):
        memory(*json.loads(sys.argv[1]))
        return
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    report = Report("joins", {"rows": rows, "small": SMALL})
    report.section("Small joins")
    small(report)
    one, other = sides(rows)
    with (
        tempfile.TemporaryDirectory() as folder,
        og.init(Path(folder) / "g", SCHEMA, durability="none") as graph,
        duckdb_with(one, other) as base,
    ):
        load(graph, one, other)
        ours, theirs = asked_graph(graph), asked_duckdb(base)
        report.section("Unique keys")
        for name in QUERIES:
            assert ours[name]().num_rows == theirs[name]().num_rows
            found = interleave({"omnigraph": ours[name], "duckdb": theirs[name]}, rounds=ROUNDS)
            report.time(name, found)
            ratio, note = ratio_of(found, "omnigraph", "duckdb")
            report.figure(f"{name}: ratio", ratio, "x", at_most=2.0, note=note)
        report.section("Memory")
        for name in QUERIES:
            mine, other_ = (grown(folder, who, name, rows) for who in ("omnigraph", "duckdb"))
            note = f"{mine:.0f} MB, DuckDB {other_:.0f} MB"
            report.figure(f"{name}: memory", mine / other_, "x", at_most=3.0, note=note)
    report.write()


if __name__ == "__main__":
    main()
