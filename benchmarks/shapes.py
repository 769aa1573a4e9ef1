"""What the shape of an input costs a load on Spark: many files, wide rows, one large CSV file.

    python benchmarks/shapes.py [--files N] [--wide ROWS] [--csv MB] [--merge ROWS]
                                [--cores N] [--rounds N]

Spark is warm: its session has run a load before. Memory is the largest resident size of one Python
worker. The CSV file has quotes everywhere and a line break in every tenth value. Rows are merged
into ten times as many, half of them new, on both engines.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bulk import Memory

import omnigraph as og

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.intake.declared import Sources

SCHEMA = """\
node Person {
    name: String @key
    age: I32?
    city: String?
}

node Picture {
    name: String @key
    face: Vector(768)?
}
"""
ROWS_PER_FILE = 1_000
WIDTH = 768


class Bench:
    """One session, and a place for files."""

    def __init__(self, folder: Path, session: SparkSession) -> None:
        self._folder = folder
        self._session = session
        self._numbers = itertools.count()

    def load(self, sources: Sources) -> tuple[float, float, int]:
        """Load into an empty graph; return seconds, megabytes of the largest worker, and rows."""
        place = self._folder / f"graph{next(self._numbers)}"
        with og.init(place, SCHEMA, durability="none") as graph, Memory() as memory:
            start = time.perf_counter()
            result = graph.bulk(
                sources, mode="append", engine="spark", session=self._session, index=False
            )
            seconds = time.perf_counter() - start
        shutil.rmtree(place)
        return seconds, memory.worker_mb, result.total_entities

    def merge(self, base: Path, sources: Sources, engine: str) -> tuple[float, float, int]:
        """Merge into a copy of a graph; return seconds, megabytes, and rows of the outcome."""
        place = self._folder / f"graph{next(self._numbers)}"
        shutil.copytree(base, place)
        more = {"session": self._session} if engine == "spark" else {}
        with og.open(place, durability="none") as graph, Memory() as memory:
            start = time.perf_counter()
            graph.bulk(sources, mode="merge", engine=engine, index=False, **more)
            seconds = time.perf_counter() - start
            rows = graph.snapshot().tables["node:Person"].row_count
        shutil.rmtree(place)
        return seconds, memory.worker_mb, rows


def people(first: int, rows: int, *, older: int = 0) -> pa.Table:
    """Return rows of people."""
    numbers = range(first, first + rows)
    return pa.table(
        {
            "name": [f"person {number}" for number in numbers],
            "age": pa.array([number % 90 + older for number in numbers], pa.int32()),
            "city": [f"city {number % 1000}" for number in numbers],
        }
    )


def small_files(bench: Bench, folder: Path, files: int, rounds: int) -> None:
    """Compare many files with one file of the same rows."""
    many = folder / "many"
    many.mkdir()
    for number in range(files):
        path = many / f"{number:06}.parquet"
        pq.write_table(people(number * ROWS_PER_FILE, ROWS_PER_FILE), path)
    one = folder / "one.parquet"
    pq.write_table(people(0, files * ROWS_PER_FILE), one, row_group_size=262_144)
    bench.load({"Person": str(one)})
    taken: dict[str, list[float]] = {"one": [], "many": []}
    for _round in range(rounds):
        for name, data in (("one", one), ("many", many)):
            seconds, mb, rows = bench.load({"Person": str(data)})
            taken[name].append(seconds)
            print(f"{name}: {rows:,} rows, {seconds:.1f} s, worker {mb:.0f} MB", flush=True)
    ratio = min(taken["many"]) / min(taken["one"])
    print(f"{files:,} files / one file: {ratio:.2f}x", flush=True)


def wide_rows(bench: Bench, folder: Path, rows: int) -> None:
    """Load vectors that lie in one row group."""
    path = folder / "wide.parquet"
    numbers = np.random.default_rng(7).random((rows, WIDTH), dtype=np.float32)
    faces = pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), WIDTH)
    table = pa.table({"name": [f"picture {n}" for n in range(rows)], "face": faces})
    pq.write_table(table, path, row_group_size=rows)
    del numbers, faces, table
    seconds, mb, loaded = bench.load({"Picture": str(path)})
    size = path.stat().st_size >> 20
    print(f"{loaded:,} x {WIDTH}, {size} MB: {seconds:.1f} s, worker {mb:.0f} MB", flush=True)


def large_csv(bench: Bench, folder: Path, megabytes: int) -> None:
    """Load one CSV file."""
    path = folder / "people.csv"
    number = 0
    with path.open("w", encoding="utf-8", newline="") as out:
        out.write("name,age,city\n")
        while out.tell() < megabytes << 20:
            out.writelines(
                f'"person {n}",{n % 90},"city ""{n % 1000}"",{chr(10) if n % 10 == 0 else ""} x"\n'
                for n in range(number, number + 10_000)
            )
            number += 10_000
    seconds, mb, rows = bench.load({"Person": str(path)})
    assert rows == number
    size = path.stat().st_size >> 20
    print(f"CSV, {size} MB, {rows:,} rows: {seconds:.1f} s, worker {mb:.0f} MB", flush=True)


def merged_rows(bench: Bench, folder: Path, rows: int) -> None:
    """Merge rows into ten times as many, half of them new."""
    stored, base = 10 * rows, folder / "base"
    given = folder / "merged.parquet"
    pq.write_table(people(stored - rows // 2, rows, older=1), given, row_group_size=262_144)
    with og.init(base, SCHEMA, durability="none") as graph:
        for first in range(0, stored, 1_000_000):
            found = people(first, min(1_000_000, stored - first))
            graph.bulk({"Person": found}, mode="append", engine="local")
    for engine in ("local", "spark", "local", "spark"):
        seconds, mb, outcome = bench.merge(base, {"Person": str(given)}, engine)
        assert outcome == stored + rows - rows // 2
        print(
            f"merge {rows:,} into {stored:,}, {engine}: {seconds:.1f} s, worker {mb:.0f} MB",
            flush=True,
        )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=0)
    parser.add_argument("--wide", type=int, default=0)
    parser.add_argument("--csv", type=int, default=0)
    parser.add_argument("--merge", type=int, default=0)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    from omnigraph.spark import start_session

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = start_session(f"local[{given.cores},4]", spark__local__dir=name)
        bench = Bench(folder, session)
        if given.files:
            small_files(bench, folder, given.files, given.rounds)
        if given.wide:
            wide_rows(bench, folder, given.wide)
        if given.csv:
            large_csv(bench, folder, given.csv)
        if given.merge:
            merged_rows(bench, folder, given.merge)
        session.stop()


if __name__ == "__main__":
    main()
