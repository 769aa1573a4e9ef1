r"""Queries on Spark: beside other engines on a social network, and how they grow with edges.

    python benchmarks/spark_queries.py                              # both parts, small
    python benchmarks/spark_queries.py --only growth --nodes 10000000 \
        --edges 25000000,50000000,100000000 --folder /large/disk

The social part runs the nine queries and the four by key on this project's two engines and on the
others that are installed; all answers are compared, then warm times are taken turn by turn. The
processor time of Spark is there that of its driver's Python only.

The growth part makes one graph with a node that a twentieth of all edges lead to, and adds edges to
it. At each size a new process counts paths of two hops, all of them and those between persons of
some ages, on a session with 2 GB of heap. The answers are compared with numpy's. Memory is that of
the largest process.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _harness import Report, run_child
from _social_data import make_tables, write_parquet
from _social_engines import BY_KEY, NINE
from _spark_process import watched_session
from social import OWN, Worker, check_answers, draw_keys, start_workers, time_query

import omnigraph as og
import omnigraph.spark as ogs

SCHEMA = """
node Person { name: String @key  age: I32 }
edge Knows: Person -> Person
"""
COUNTED = "query q() { match { $a $v:knows $b  $b $w:knows $c } return { count(*) as n } }"
FILTERED = """query q() {
    match { $a $v:knows $b  $b $w:knows $c  $a.age < 50  $c.age > 25 } return { count(*) as n } }"""
PAIRS = "query q() { match { $a knows $b  $b knows $c } return { count(*) as n } }"
QUERIES = {"counted 2-hop": COUNTED, "filtered 2-hop": FILTERED}
HUB_IN, HUB_OUT = 0.05, 0.01
"""Shares of all edges that end and start at one node."""
CHUNK = 5_000_000
GROWTH_MAX = 1.3
PROCESS_MB_MAX = 4096
SPARK = "spark"
PEERS = ("duckdb", "kuzu")


# ---- a graph that grows -------------------------------------------------------------------


@dataclass
class Growing:
    """A graph whose edges are added in chunks, and what two hops over them come to."""

    place: Path
    nodes: int
    edges: int = 0
    draw: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    def __post_init__(self) -> None:
        """Make the nodes."""
        self.ages = self.draw.integers(0, 90, self.nodes).astype(np.int32)
        # By node: edges that end there and start there, all and those to and from some ages.
        self._degrees = np.zeros((4, self.nodes), np.int64)
        with og.init(self.place, SCHEMA, durability="none") as graph:
            for start in range(0, self.nodes, CHUNK):
                ages = self.ages[start : start + CHUNK]
                names = _names(np.arange(start, start + len(ages)))
                table = pa.table({"name": names, "age": pa.array(ages)})
                graph.bulk({"Person": table}, mode="append", engine="local", index=False)

    def grow(self, edges: int) -> None:
        """Add edges until there are so many."""
        with og.open(self.place, durability="none", upkeep=False) as graph:
            while self.edges < edges:
                size = min(CHUNK, edges - self.edges)
                source, target = self.draw.integers(0, self.nodes, (2, size))
                source[: int(size * HUB_OUT)] = self.nodes // 2
                target[size - int(size * HUB_IN) :] = self.nodes // 2
                table = pa.table({"from": _names(source), "to": _names(target)})
                graph.bulk({"Knows": table}, mode="append", engine="local", index=False)
                self._count(source, target)
                self.edges += size

    def _count(self, source: np.ndarray, target: np.ndarray) -> None:
        young, old = self.ages[source] < 50, self.ages[target] > 25
        parts = (target, source, target[young], source[old])
        for degrees, nodes in zip(self._degrees, parts, strict=True):
            degrees += np.bincount(nodes, minlength=self.nodes)

    def answers(self) -> dict[str, int]:
        """Return what the queries must answer."""
        ends, starts, young_ends, old_starts = self._degrees
        return {
            "counted 2-hop": int(np.dot(ends, starts)),
            "filtered 2-hop": int(np.dot(young_ends, old_starts)),
        }

    def stored_mb(self) -> float:
        """Return the size of the graph on disk."""
        return sum(p.stat().st_size for p in self.place.rglob("*") if p.is_file()) / 2**20


def _names(numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise("p", pc.cast(pa.array(numbers), pa.string()), "")


def growth(report: Report, folder: Path, nodes: int, sizes: list[int], *, pairs: bool) -> None:
    """Run the counts at every size, each in a new process; report how they grow."""
    graph = Growing(folder / "graph", nodes)
    seconds: dict[str, list[tuple[int, float, float]]] = {}
    for size in sizes:
        report.section(f"{nodes:,} nodes, {size:,} edges")
        began = time.perf_counter()
        graph.grow(size)
        note = f"{time.perf_counter() - began:.0f} s to add edges up to here"
        report.figure(f"{size:,} edges: on disk", graph.stored_mb(), " MB", note=note)
        scratch = folder / "child"
        arguments = ("--child", str(graph.place), "--folder", str(scratch), "--edges", str(size))
        found = run_child(__file__, *arguments, *(("--pairs",) if pairs else ()))
        shutil.rmtree(scratch)
        for name, expected in graph.answers().items():
            assert found[f"{name}: answer"] == expected, (name, found, expected)
        for name in (*QUERIES, *(("pairs, 2-hop",) if pairs else ())):
            wall, cpu = found[f"{name}: seconds"], found[f"{name}: cpu"]
            seconds.setdefault(name, []).append((size, wall, cpu))
            shuffled = found[f"{name}: shuffle bytes"]
            note = f"cpu {cpu:.1f} s, shuffled {shuffled / 2**20:.0f} MB"
            report.figure(f"{size:,} edges: {name}", wall, " s", note=note)
        for kind in ("java", "driver", "worker"):
            report.figure(
                f"{size:,} edges: largest {kind}",
                found[f"{kind} MB"],
                " MB",
                at_most=PROCESS_MB_MAX,
            )
    report.section("growth")
    for name, times in seconds.items():
        for (few, wall, cpu), (many, wall_then, cpu_then) in itertools.pairwise(times):
            report.figure(
                f"{name}, {many:,} / {few:,} edges",
                (wall_then / wall) ** (1 / np.log2(many / few)),
                "x",
                at_most=GROWTH_MAX,
                note=f"for each doubling; cpu {(cpu_then / cpu) ** (1 / np.log2(many / few)):.2f}; "
                f"cpu for each edge {cpu_then / cpu * few / many:.2f}",
            )


def child(place: Path, folder: Path, edges: int, *, pairs: bool) -> None:
    """Run the queries in this process and print what they took."""
    partitions = max(4, edges // 1_500_000)
    answers: dict[str, float] = {}
    queries = {**QUERIES, **({"pairs, 2-hop": PAIRS} if pairs else {})}
    with watched_session(folder, cores=2, memory="2g", partitions=partitions) as watched:
        with watched.job("warm-up"):
            warm = "query q() { match { $p: Person $p.age = 7 } return { count(*) as n } }"
            ogs.query(watched.session, place, warm).scalar()
        for name, text in queries.items():
            with watched.job(name):
                answers[f"{name}: answer"] = ogs.query(watched.session, place, text).scalar()
    for name in queries:
        cost = watched.costs[name]
        answers[f"{name}: seconds"] = cost.seconds
        answers[f"{name}: cpu"] = cost.cpu_s
        answers[f"{name}: shuffle bytes"] = cost.shuffle_bytes
    peaks = dict(watched.peaks_mb)
    answers |= {"java MB": peaks.pop("java", 0.0), "driver MB": peaks.pop("driver", 0.0)}
    answers["worker MB"] = max(peaks.values(), default=0.0)
    print(json.dumps(answers))


# ---- a social network ---------------------------------------------------------------------


def social(report: Report, folder: Path, persons: int, rounds: int) -> None:
    """Compare the answers of all engines to all queries, then their warm times."""
    report.section(f"a social network of {persons:,} persons")
    paths = write_parquet(make_tables(persons), folder / "parquet")
    workers = start_workers((OWN, *PEERS), folder, persons, paths)
    # It reads what the engine in one process has stored.
    workers[SPARK] = Worker(SPARK, folder / OWN, persons=persons)
    draw = draw_keys(persons)
    check_answers(workers, draw)
    print("  all answers are equal", flush=True)
    for name in (*NINE, *BY_KEY):
        report.time(name, time_query(workers, name, draw, rounds=rounds))
    for worker in workers.values():
        worker.close()


def main() -> None:
    """Run the parts asked for and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="social,growth")
    parser.add_argument("--persons", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", default="500000,1000000,2000000")
    parser.add_argument("--pairs", action="store_true", help="count distinct pairs of nodes, too")
    parser.add_argument("--folder", help="where to put the graph and what Spark spills")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(item) for item in options.edges.split(",")]
    if options.child:
        child(Path(options.child), Path(options.folder), sizes[0], pairs=options.pairs)
        return
    shown = {name: value for name, value in vars(options).items() if name != "child"}
    report = Report("spark_queries", {**shown, "folder": None})
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-", dir=options.folder) as name:
        folder = Path(name)
        if "social" in options.only:
            social(report, folder / "social", options.persons, options.rounds)
        if "growth" in options.only:
            growth(report, folder / "growth", options.nodes, sizes, pairs=options.pairs)
    report.write()


if __name__ == "__main__":
    main()
