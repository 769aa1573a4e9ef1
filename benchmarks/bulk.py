"""How fast large inputs are loaded: bare Lance with DuckDB, one process, and Spark, in one run.

    python benchmarks/bulk.py [--rows N] [--rounds N] [--cores N]

The floor writes typed rows to bare Lance tables and checks ends and keys with anti-joins in
DuckDB; it parses nothing. Spark is warm: its session exists and has run a load before.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import duckdb
import lance
import numpy as np
import pyarrow as pa
from _harness import Report, interleave, ratio_of

import omnigraph as og
from omnigraph.spark import load, start_session

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
edge Knows: Person -> Person { since: I32? }
"""


class Input:
    """One node for every four edges, as a JSONL file and as Arrow tables."""

    def __init__(self, folder: Path, rows: int) -> None:
        rng = np.random.default_rng(7)
        nodes = max(rows // 5, 1)
        ends = rng.integers(0, nodes, (rows - nodes, 2))
        ages = rng.integers(0, 90, nodes)
        self.rows = rows
        self.path = folder / "input.jsonl"
        with self.path.open("w", encoding="utf-8") as out:
            for number, age in enumerate(ages.tolist()):
                data = {"name": f"p{number}", "age": age, "city": f"city {age}"}
                out.write(json.dumps({"type": "Person", "data": data}) + "\n")
            for source, target in ends.tolist():
                row = {"edge": "Knows", "from": f"p{source}", "to": f"p{target}"}
                out.write(json.dumps({**row, "data": {"since": source % 30}}) + "\n")
        self.nodes = pa.table(
            {
                "id": [f"p{number}" for number in range(nodes)],
                "age": pa.array(ages, pa.int32()),
                "city": [f"city {age}" for age in ages.tolist()],
            }
        )
        self.edges = pa.table(
            {
                "id": [f"e{number:026d}" for number in range(len(ends))],
                "src": [f"p{number}" for number in ends[:, 0].tolist()],
                "dst": [f"p{number}" for number in ends[:, 1].tolist()],
            }
        )


def floor(folder: Path, data: Input) -> None:
    """Write typed rows to bare tables and check them."""
    lance.write_dataset(data.nodes, folder / "floor-nodes", mode="overwrite")
    lance.write_dataset(data.edges, folder / "floor-edges", mode="overwrite")
    with duckdb.connect() as database:
        database.register("nodes", data.nodes)
        database.register("edges", data.edges)
        for column in ("src", "dst"):
            query = f"select count(*) from edges anti join nodes on edges.{column} = nodes.id"
            assert database.execute(query).fetchone() == (0,)
        assert database.execute("select count(*) - count(distinct id) from nodes").fetchone()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3, help="at least 3")
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    report = Report("bulk", vars(options))
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bulk-"))
    try:
        data = Input(folder, options.rows)
        session = start_session(f"local[{options.cores},4]")
        numbers = iter(range(1_000_000))

        def fresh() -> og.Graph:
            return og.init(folder / f"g{next(numbers)}", SCHEMA, durability="none")

        def in_process() -> None:
            with fresh() as graph:
                graph.load(data.path, mode="append")

        def on_spark() -> None:
            with fresh() as graph:
                load(graph, data.path, mode="append", session=session)

        report.section(f"{options.rows:,} rows, {data.path.stat().st_size / 1e6:.0f} MB")
        on_spark()
        steps = {
            "bare Lance and DuckDB, typed rows": lambda: floor(folder, data),
            "one process": in_process,
            "Spark, warm": on_spark,
        }
        timings = interleave(steps, rounds=options.rounds)
        report.time("append into an empty graph", timings)
        for name in ("one process", "Spark, warm"):
            value, note = ratio_of(timings, name, "bare Lance and DuckDB, typed rows")
            report.figure(f"{name} / floor", value, "x", note=note)
            report.figure(f"{name}, rows", data.rows / timings[name].median * 1e3, "/s")
        value, note = ratio_of(timings, "Spark, warm", "one process")
        report.figure("Spark, warm / one process", value, "x", note=note)
        session.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.write()


if __name__ == "__main__":
    main()
