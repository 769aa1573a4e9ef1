"""How fast large inputs are loaded: bare Lance with DuckDB, Kuzu, one process and Spark, one run.

    python benchmarks/bulk.py [--quick] [--nodes N] [--edges N] [--rounds N] [--cores N]

Every competitor starts from the same files and ends with checked, stored rows: keys are unique and
both ends of every edge exist. The floor reads Parquet, writes bare Lance tables and checks with
joins in DuckDB. Spark is warm: its session has run a load before.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import lance
import pyarrow as pa
import pyarrow.parquet as pq
from _bulk_data import SCHEMA, Input
from _harness import Report, interleave, peak_memory_mb, ratio_of, run_child

import omnigraph as og

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.intake.declared import Sources
    from omnigraph.spark.progress import Stage

FLOOR = "bare Lance and DuckDB"
LOCAL = "one process, Parquet"
PARQUET = "Spark, Parquet files written, unchecked"
HUB = 0.3
LINES = "one process, JSONL"
SPARK = "Spark, warm, Parquet"
SPARK_LINES = "Spark, warm, JSONL"
KUZU = "Kuzu COPY"


class Bench:
    """One input and the ways to load it."""

    def __init__(self, folder: Path, data: Input) -> None:
        self.folder = folder
        self.data = data
        self._numbers = itertools.count()
        self.publish_s: list[float] = []
        # The floor has no indexes; what they cost is a figure of its own.
        self.index = False

    def place(self, name: str) -> Path:
        """Return a new folder."""
        return self.folder / f"{name}{next(self._numbers)}"

    def floor(self) -> None:
        """Write typed rows to bare tables and check them."""
        place = self.place("floor")
        for path in (self.data.people, self.data.knows):
            with pq.ParquetFile(path) as found:
                batches = found.iter_batches(batch_size=262_144)
                reader = pa.RecordBatchReader.from_batches(found.schema_arrow, batches)
                lance.write_dataset(reader, place / path.stem)
        with duckdb.connect() as database:
            for column in ("from", "to"):
                query = (
                    f"select count(*) from '{self.data.knows}' k anti join '{self.data.people}' p "
                    f'on k."{column}" = p.name'
                )
                assert database.execute(query).fetchone() == (0,)
            query = f"select count(*) - count(distinct name) from '{self.data.people}'"
            assert database.execute(query).fetchone() == (0,)
        shutil.rmtree(place)

    def local(self, sources: Sources) -> None:
        """Load in this process."""
        place = self.place("local")
        with og.init(place, SCHEMA, durability="none") as graph:
            self._check(graph.bulk(sources, mode="append", engine="local", index=self.index))
        shutil.rmtree(place)

    def default(self) -> tuple[float, float]:
        """Load as users do; return after how many seconds the call returned, and indexes stood."""
        place = self.place("default")
        start = time.perf_counter()
        with og.init(place, SCHEMA, durability="none") as graph:
            self._check(graph.bulk(self.data.sources, mode="append", engine="local"))
            returned = time.perf_counter() - start
        built = time.perf_counter() - start
        shutil.rmtree(place)
        return returned, built

    def spark(self, session: SparkSession, sources: Sources) -> None:
        """Load on Spark."""
        place = self.place("spark")
        with og.init(place, SCHEMA, durability="none") as graph:
            result = graph.bulk(
                sources,
                mode="append",
                engine="spark",
                session=session,
                index=self.index,
                progress=self._note,
            )
            self._check(result)
        shutil.rmtree(place)

    def parquet(self, session: SparkSession) -> None:
        """Let Spark read the rows and write them to Parquet files, unchecked."""
        place = self.place("parquet")
        for path in (self.data.people, self.data.knows):
            session.read.parquet(str(path)).write.parquet(str(place / path.stem))
        shutil.rmtree(place)

    def kuzu(self) -> None:
        """Copy into Kuzu, which checks keys and ends too."""
        import kuzu

        place = self.place("kuzu")
        database = kuzu.Database(str(place))
        with kuzu.Connection(database) as connection:
            connection.execute(
                "create node table Person(name string, age int32, city string, primary key(name))"
            )
            connection.execute("create rel table Knows(from Person to Person, since int32)")
            connection.execute(f"copy Person from '{self.data.people}'")
            connection.execute(f"copy Knows from '{self.data.knows}'")
        database.close()
        shutil.rmtree(place, ignore_errors=True)
        place.unlink(missing_ok=True)

    def _note(self, stage: Stage) -> None:
        if stage.finished and stage.name == "publish":
            self.publish_s.append(stage.seconds)

    def _check(self, result: og.LoadResult) -> None:
        assert result.total_entities == self.data.rows


class Memory:
    """The largest resident size of the children of this process, by kind, while a block runs."""

    def __enter__(self) -> Memory:
        self.java_mb = self.worker_mb = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            for name, mb in _descendants():
                if name == "java":
                    self.java_mb = max(self.java_mb, mb)
                else:
                    self.worker_mb = max(self.worker_mb, mb)


def _descendants() -> list[tuple[str, float]]:
    parents: dict[int, int] = {}
    names: dict[int, tuple[str, float]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path(f"/proc/{entry}/status").read_text().splitlines()
        except OSError:
            continue
        rows = dict(row.split(":", 1) for row in fields if ":" in row)
        parents[int(entry)] = int(rows["PPid"])
        mb = int(rows.get("VmRSS", "0 kB").split()[0]) / 1024
        names[int(entry)] = (rows["Name"].strip(), mb)
    found: list[tuple[str, float]] = []
    for process, known in names.items():
        parent = parents.get(process, 0)
        while parent not in (0, 1, os.getpid()):
            parent = parents.get(parent, 0)
        if parent == os.getpid():
            found.append(known)
    return found


def compare(report: Report, bench: Bench, session: SparkSession, rounds: int) -> None:
    """Time every way to load one input, turn by turn."""
    data = bench.data
    steps = {
        FLOOR: bench.floor,
        LOCAL: lambda: bench.local(data.sources),
        LINES: lambda: bench.local(str(data.lines)),
        SPARK: lambda: bench.spark(session, data.sources),
        SPARK_LINES: lambda: bench.spark(session, str(data.lines)),
    }
    if importlib.util.find_spec("kuzu") is not None:
        steps[KUZU] = bench.kuzu
    bench.spark(session, data.sources)
    with Memory() as memory:
        timings = interleave(steps, rounds=rounds)
    report.time("append into an empty graph", timings)
    loads = [bench.default() for _time in range(rounds)]
    returned, indexed = (statistics.median(times) * 1e3 for times in zip(*loads, strict=True))
    report.figure(f"{LOCAL}, by default: returned", returned, "ms")
    report.figure(f"{LOCAL}, by default: indexes built", indexed, "ms")
    report.figure(f"{LOCAL}, with indexes / without", indexed / timings[LOCAL].median, "x")
    judged = [(LOCAL, FLOOR, 2.0), (SPARK, LOCAL, 3.0), (LINES, LOCAL, 3.0)]
    if KUZU in timings:
        judged.append((LOCAL, KUZU, 0.8))
        copied = timings[KUZU].median
        note = f"indexes are there after {indexed / copied:.2f}x"
        report.figure(f"{LOCAL}, by default / {KUZU}", returned / copied, "x",
                      at_most=1.0, note=note)  # fmt: skip
    for name, base, most in judged:
        value, note = ratio_of(timings, name, base)
        report.figure(f"{name} / {base}", value, "x", at_most=most, note=note)
    for name in (LOCAL, LINES, SPARK, SPARK_LINES):
        report.figure(f"{name}: rows", data.rows / timings[name].median * 1e3, "/s")
    report.figure("peak memory of this process", peak_memory_mb(), "MB")
    report.figure("peak memory of Java", memory.java_mb, "MB")
    report.figure("peak memory of a worker", memory.worker_mb, "MB")


def with_hub(report: Report, folder: Path, session: SparkSession, size: Input, rounds: int) -> None:
    """Load edges of which 30 % end at one node, beside one process and plain Parquet files."""
    data = Input(folder / "hub", size.nodes, size.edges, jsonl=False, hub=HUB)
    bench = Bench(folder, data)
    steps = {
        LOCAL: lambda: bench.local(data.sources),
        SPARK: lambda: bench.spark(session, data.sources),
        PARQUET: lambda: bench.parquet(session),
    }
    bench.spark(session, data.sources)
    bench.parquet(session)
    timings = interleave(steps, rounds=rounds)
    report.time("append edges with a hub", timings)
    for base, most in ((LOCAL, 2.5), (PARQUET, 1.5)):
        value, note = ratio_of(timings, SPARK, base)
        report.figure(f"hub: {SPARK} / {base}", value, "x", at_most=most, note=note)
    shutil.rmtree(folder / "hub")


def at_sizes(report: Report, folder: Path, session: SparkSession, sizes: list[int]) -> None:
    """Show that the rate and the time of the commit do not depend on the size."""
    rates: list[float] = []
    publishes: list[float] = []
    for edges in sizes:
        data = Input(folder / f"input{edges}", edges // 10, edges, jsonl=False)
        bench = Bench(folder, data)
        start = time.perf_counter()
        bench.spark(session, data.sources)
        rates.append(data.rows / (time.perf_counter() - start))
        publishes.append(bench.publish_s[-1])
        report.figure(f"Spark at {edges:,} edges: rows", rates[-1], "/s")
        report.figure(f"Spark at {edges:,} edges: publish", publishes[-1] * 1e3, "ms")
        shutil.rmtree(folder / f"input{edges}")
    report.figure("rate of the smallest / largest", rates[0] / rates[-1], "x", at_most=1.5)
    report.figure("publish of the largest / smallest", publishes[-1] / publishes[0], "x")


def by_cores(report: Report, folder: Path, cores: int) -> None:
    """Compare one core with several, each in a process of its own."""
    seconds = {}
    for count in (1, cores):
        found = run_child(__file__, "--child", str(folder), "--cores", str(count))
        seconds[count] = found["seconds"]
    report.figure(f"Spark on 1 core / on {cores}", seconds[1] / seconds[cores], "x")


def child(folder: Path, cores: int) -> None:
    """Time one warm load on a number of cores."""
    from omnigraph.spark import start_session

    data = Input.__new__(Input)
    data.people, data.knows = folder / "people.parquet", folder / "knows.parquet"
    data.nodes = pq.read_metadata(data.people).num_rows
    data.edges = pq.read_metadata(data.knows).num_rows
    session = start_session(f"local[{cores},4]")
    place = Path(tempfile.mkdtemp(prefix="omnigraph-bulk-"))
    bench = Bench(place, data)
    bench.spark(session, data.sources)
    start = time.perf_counter()
    bench.spark(session, data.sources)
    print(f'{{"seconds": {time.perf_counter() - start}}}')
    session.stop()
    shutil.rmtree(place, ignore_errors=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="at least 3")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(Path(options.child), options.cores)
        return
    sizes = [1_000_000, 10_000_000, 30_000_000]
    if options.quick:
        options.nodes, options.edges = 100_000, 1_000_000
        sizes = [300_000, 1_000_000]
    from omnigraph.spark import start_session

    report = Report("bulk", vars(options))
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bulk-"))
    try:
        data = Input(folder / "input", options.nodes, options.edges, jsonl=True)
        session = start_session(f"local[{options.cores},4]")
        size = data.lines.stat().st_size / 1e6
        report.section(f"{data.nodes:,} nodes, {data.edges:,} edges, {size:,.0f} MB of JSONL")
        compare(report, Bench(folder, data), session, options.rounds)
        report.section(f"a node that {HUB:.0%} of the edges lead to")
        with_hub(report, folder, session, data, options.rounds)
        report.section("sizes")
        at_sizes(report, folder, session, sizes)
        session.stop()
        report.section("cores")
        by_cores(report, folder / "input", options.cores)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.write()


if __name__ == "__main__":
    main()
