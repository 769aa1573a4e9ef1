"""How fast the engine writes, as ratios to bare Lance doing the same commits.

    python benchmarks/write.py [--quick] [--rows N] [--only a,b,...]

Competitors take turns, so a busy machine slows all of them. Figures with and without syncing to
disk are kept apart. Folding is inside the engine's times and outside those of bare Lance.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _harness import Report, interleave, peak_memory_mb, process_bytes, ratio_of, run_child
from _rivals import BareHead, BareTable, Kuzu, Sqlite, SyncedFile, edge_rows, node_rows

import omnigraph as og
from omnigraph.commits.records import GraphCommit, decode, encode, manifest_schema
from omnigraph.store import Journal, Pin, locate

SCHEMA = """
node Person { name: String @key age: I32? }
node Company { name: String @key age: I32? }
edge Knows: Person -> Person { since: I32? }
"""
QUERIES = """
query person($name: String) { insert Person { name: $name, age: 1 } }
query knows($a: String, $b: String) { insert Knows { from: $a, to: $b, since: 1 } }
"""
BASE_ROWS = 1_000
WARM_STEPS = 40
JOURNAL_WINDOW = 64
"""Last appends a journal figure is the median of: every fold of the two lowest tiers is in it."""


class Engine:
    """A graph with some rows, and the writes that are timed."""

    def __init__(
        self, folder: Path, *, durability: str, schema: str = SCHEMA, rows: int = BASE_ROWS
    ) -> None:
        self.graph = og.init(folder, schema, durability=durability)
        self._number = 0
        if rows:
            self.graph.load_table("Person", pa.table({"name": _names(rows)}), mode="append")

    @classmethod
    def at(cls, folder: Path) -> Engine:
        """Open a graph that exists."""
        found = cls.__new__(cls)
        found.graph = og.open(folder, durability="none")
        found._number = found.graph.snapshot().version * 1000
        return found

    def _next(self) -> int:
        self._number += 1
        return self._number

    def insert(self, name: str | None = None) -> og.MutationResult:
        """Insert one person with a new key."""
        wanted = name or f"new{self._next()}"
        return self.graph.mutate(QUERIES, {"name": wanted}, name="person")

    def insert_edge(self) -> None:
        """Insert one edge between two people of the first rows."""
        number = self._next()
        ends = {"a": _name(number % BASE_ROWS), "b": _name(number * 7 % BASE_ROWS)}
        self.graph.mutate(QUERIES, ends, name="knows")

    def load_hundred(self) -> None:
        """Load 40 people, 20 companies and 40 edges between them."""
        tag = self._next()
        rows: list[dict[str, object]] = [
            {"type": "Person", "data": {"name": f"p{tag}-{i}", "age": 1}} for i in range(40)
        ]
        rows += [{"type": "Company", "data": {"name": f"c{tag}-{i}", "age": 1}} for i in range(20)]
        rows += [
            {"edge": "Knows", "from": f"p{tag}-{i}", "to": f"p{tag}-{39 - i}", "data": {"since": 1}}
            for i in range(40)
        ]
        self.graph.load(rows, mode="merge")

    def warm(self, step: Callable[[], object]) -> None:
        """Run a step often enough that caches are filled and the tail was folded once."""
        for _number in range(WARM_STEPS):
            step()


def _name(number: int) -> str:
    return f"p{number:09d}"


def _names(rows: int, start: int = 0) -> pa.Array:
    digits = pc.cast(pa.array(np.arange(start, start + rows)), pa.string())
    return pc.binary_join_element_wise("p", pc.utf8_lpad(digits, 9, "0"), "")


class Floor:
    """Bare Lance: the same rows, the same number of commits, one head commit on top."""

    def __init__(self, folder: Path) -> None:
        names = _names(BASE_ROWS).to_pylist()
        self.people = BareTable(folder / "people", node_rows(names))
        self.companies = BareTable(folder / "companies", node_rows(["first"]))
        self.knows = BareTable(folder / "knows", edge_rows(["first"], [names[0]]))
        self.head = BareHead(folder / "head")
        self._number = 0

    def _next(self) -> int:
        self._number += 1
        return self._number

    def upsert(self) -> None:
        """Upsert one node through the index."""
        self.people.upsert(node_rows([f"new{self._next()}"]))
        self.head.publish()

    def append(self) -> None:
        """Append one node without looking whether it exists."""
        self.people.append(node_rows([f"new{self._next()}"]))
        self.head.publish()

    def upsert_edge(self) -> None:
        """Upsert one edge through the index, without looking at its endpoints."""
        number = self._next()
        self.knows.upsert(edge_rows([f"e{number}"], [_name(number % BASE_ROWS)]))
        self.head.publish()

    def upsert_hundred(self) -> None:
        """Upsert 40 people, 20 companies and 40 edges, one table after another."""
        tag = self._next()
        self.people.upsert(node_rows([f"p{tag}-{i}" for i in range(40)]))
        self.companies.upsert(node_rows([f"c{tag}-{i}" for i in range(20)]))
        ids = [f"e{tag}-{i}" for i in range(40)]
        self.knows.upsert(edge_rows(ids, [f"p{tag}-{i}" for i in range(40)]))
        self.head.publish()

    def fold(self) -> None:
        """Keep the tables fast, outside the clock."""
        for table in (self.people, self.companies, self.knows):
            table.fold_if_due()


# ---- a, b, c, d: one write ----------------------------------------------------------------


def single_writes(report: Report, folder: Path, *, rounds: int) -> None:
    """Measure one-row inserts, edges and small batches against bare Lance."""
    loose = Engine(folder / "loose", durability="none")
    loose_edges = Engine(folder / "loose-edges", durability="none")
    loose_batch = Engine(folder / "loose-batch", durability="none")
    floors = {name: Floor(folder / f"floor-{name}") for name in ("upsert", "append", "edge", "3")}
    loose.warm(loose.insert)
    loose_edges.warm(loose_edges.insert_edge)
    for _number in range(4):
        loose_batch.load_hundred()

    def fold() -> None:
        for item in floors.values():
            item.fold()

    timings = interleave(
        {
            "engine: insert": loose.insert,
            "engine: edge insert": loose_edges.insert_edge,
            "engine: 100 rows, 3 tables": loose_batch.load_hundred,
            "lance: upsert + head": floors["upsert"].upsert,
            "lance: append + head": floors["append"].append,
            "lance: edge upsert + head": floors["edge"].upsert_edge,
            "lance: 3 upserts + head": floors["3"].upsert_hundred,
        },
        rounds=rounds,
        between=fold,
    )
    report.time("not synced", timings)
    for label, name, base, at_most in (
        ("insert / lance upsert + head", "engine: insert", "lance: upsert + head", 1.5),
        ("insert / lance append + head", "engine: insert", "lance: append + head", None),
        ("edge insert / lance upsert + head", "engine: edge insert", "lance: upsert + head", 2.0),
        (
            "100 rows / lance 3 upserts",
            "engine: 100 rows, 3 tables",
            "lance: 3 upserts + head",
            1.5,
        ),
    ):
        value, spread = ratio_of(timings, name, base)
        report.figure(label, value, "x", at_most=at_most, note=spread)
    mean = timings["engine: insert"].mean / timings["engine: insert"].median
    report.figure("insert, mean / median (share of folding)", mean, "x")


def synced_writes(report: Report, folder: Path, *, rounds: int) -> None:
    """Measure the price of surviving a power loss, beside SQLite and Kuzu."""
    safe = Engine(folder / "safe", durability="full")
    loose = Engine(folder / "loose", durability="none")
    batch = {kind: Engine(folder / f"batch-{kind}", durability=kind) for kind in ("full", "none")}
    safe.warm(safe.insert)
    loose.warm(loose.insert)
    steps: dict[str, Callable[[], object]] = {
        "engine: insert, synced": safe.insert,
        "engine: insert, not synced": loose.insert,
        "engine: 100 rows, synced": batch["full"].load_hundred,
        "engine: 100 rows, not synced": batch["none"].load_hundred,
        "sqlite: WAL, synchronous=FULL": Sqlite(folder / "wal.db", "WAL").insert,
        "sqlite: DELETE, synchronous=FULL": Sqlite(folder / "delete.db", "DELETE").insert,
        "one small file, synced": SyncedFile(folder / "files").write,
    }
    try:
        steps["kuzu: autocommit"] = Kuzu(folder / "kuzu").insert
    except ImportError:
        print("  kuzu is not installed: skipped")
    timings = interleave(steps, rounds=rounds)
    report.time("synced", timings)
    for label, name, base in (
        ("insert, synced / not", "engine: insert, synced", "engine: insert, not synced"),
        ("100 rows, synced / not", "engine: 100 rows, synced", "engine: 100 rows, not synced"),
    ):
        value, spread = ratio_of(timings, name, base)
        report.figure(label, value, "x", at_most=2.0, note=spread)
    for rival in ("sqlite: WAL, synchronous=FULL", "kuzu: autocommit"):
        if rival in timings:
            value, spread = ratio_of(timings, "engine: insert, synced", rival)
            report.figure(f"insert, synced / {rival}", value, "x", note=spread)


# ---- e: history and other tables ----------------------------------------------------------


def _wide_schema(tables: int) -> str:
    others = [f"node Other{number} {{ code: String @key }}" for number in range(tables - 3)]
    return "\n".join([SCHEMA, *others])


def history_and_tables(
    report: Report, folder: Path, *, depths: tuple[int, ...], rounds: int
) -> None:
    """Measure the same insert after more and more commits, and beside more tables."""
    grown = Engine(folder / "grown", durability="none")
    start = time.perf_counter()
    engines: dict[str, Engine] = {}
    for depth in depths:
        while grown.graph.snapshot().version - 1 < depth:
            grown.insert()
        copy = folder / f"at-{depth}"
        shutil.copytree(folder / "grown", copy)
        engines[f"{depth:,} commits"] = Engine.at(copy)
    built = time.perf_counter() - start
    print(f"  grew to {depths[-1]:,} commits in {built:.1f} s")
    engines["5 tables"] = Engine(folder / "5", durability="none", schema=_wide_schema(5))
    engines["50 tables"] = Engine(folder / "50", durability="none", schema=_wide_schema(50))
    for item in engines.values():
        item.warm(item.insert)
    moved: dict[str, list[tuple[int, int]]] = {name: [] for name in engines}

    def counting(name: str) -> Callable[[], object]:
        def step() -> None:
            before = process_bytes()
            engines[name].insert()
            after = process_bytes()
            moved[name].append((after[0] - before[0], after[1] - before[1]))

        return step

    timings = interleave({name: counting(name) for name in engines}, rounds=rounds)
    report.time("insert after", timings)
    first = f"{depths[0]:,} commits"
    for name, base in [(f"{d:,} commits", first) for d in depths[1:]] + [("50 tables", "5 tables")]:
        value, spread = ratio_of(timings, name, base)
        judged = name in ("1,000 commits", "50 tables")
        report.figure(f"{name} / {base}", value, "x", at_most=1.2 if judged else None, note=spread)
    for column, word in ((0, "read"), (1, "written")):
        sizes = {name: median(pair[column] for pair in found) for name, found in moved.items()}
        last = f"{depths[-1]:,} commits"
        shown = ", ".join(f"{name}: {size:,.0f}" for name, size in sizes.items())
        report.figure(
            f"bytes {word}, {last} / {first}",
            sizes[last] / sizes[first],
            "x",
            at_most=1.2,
            note=shown,
        )


# ---- f: rows stored -----------------------------------------------------------------------


def stored_rows(report: Report, folder: Path, *, rows: int, rounds: int) -> None:
    """Measure bytes read per insert on a small and a large table."""
    engines: dict[str, Engine] = {}
    for size in (10_000, rows):
        engine = Engine(folder / str(size), durability="none", rows=0)
        start = time.perf_counter()
        for first in range(0, size, 1_000_000):
            names = _names(min(1_000_000, size - first), first)
            engine.graph.load_table("Person", pa.table({"name": names}), mode="append")
        print(f"  {size:,} rows loaded in {time.perf_counter() - start:.1f} s")
        for number in range(WARM_STEPS):
            engine.insert(f"{_name(0)}-warm{number}")
        engines[f"{size:,} rows"] = engine
    draw = random.Random(5)  # noqa: S311 - any spread of keys will do
    steps: dict[str, Callable[[], object]] = {}
    read: dict[str, list[int]] = {}
    small, large = engines
    for name, engine in engines.items():
        size = 10_000 if name == small else rows
        for kind in ("neighbouring", "scattered"):
            key = f"{kind} keys, {name}"
            read[key] = []
            steps[key] = _insert_step(engine, draw, size, kind, read[key])
    report.time("insert into", interleave(steps, rounds=rounds))
    for kind, why in (
        ("neighbouring", "the index page is in memory"),
        ("scattered", "the small index is wholly in memory, the large one reads one page"),
    ):
        before, after = (median(read[f"{kind} keys, {name}"]) for name in (small, large))
        report.figure(
            f"bytes read, {kind} keys, {large} / {small}",
            after / before,
            "x",
            at_most=1.2,
            note=f"{after:,.0f} / {before:,.0f} bytes; {why}",
        )


def _insert_step(
    engine: Engine, draw: random.Random, size: int, kind: str, read: list[int]
) -> Callable[[], object]:
    def step() -> None:
        number = 0 if kind == "neighbouring" else draw.randrange(size)
        before = process_bytes()[0]
        engine.insert(f"{_name(number)}-{kind}{len(read)}")
        read.append(process_bytes()[0] - before)

    return step


# ---- g: bulk load -------------------------------------------------------------------------


def _write_jsonl(path: Path, *, nodes: int, edges: int) -> None:
    draw = random.Random(3)  # noqa: S311 - any graph will do
    with open(path, "w", encoding="utf-8") as out:
        for number in range(nodes):
            out.write(f'{{"type":"Person","data":{{"name":"{_name(number)}","age":30}}}}\n')
        for _number in range(edges):
            source, target = draw.randrange(nodes), draw.randrange(nodes)
            out.write(
                f'{{"edge":"Knows","from":"{_name(source)}","to":"{_name(target)}",'
                f'"data":{{"since":2000}}}}\n'
            )


def bulk_load(report: Report, folder: Path, *, nodes: int, edges: int, repeats: int) -> None:
    """Load a JSONL file in a process of its own: rows per second and peak memory."""
    folder.mkdir(parents=True)
    source = folder / "rows.jsonl"
    _write_jsonl(source, nodes=nodes, edges=edges)
    print(f"  {nodes:,} nodes and {edges:,} edges, {source.stat().st_size / 1e6:.0f} MB of JSONL")
    found: dict[str, list[dict[str, float]]] = {"none": [], "full": []}
    for number in range(repeats):
        for kind, runs in found.items():
            target = folder / f"{kind}-{number}"
            runs.append(run_child(__file__, "--child-load", str(source), str(target), kind))
            shutil.rmtree(target)
    total = nodes + edges
    for kind, word in (("none", "not synced"), ("full", "synced")):
        rates = [total / item["seconds"] for item in found[kind]]
        spread = f"{min(rates):,.0f} to {max(rates):,.0f} over {len(rates)} runs"
        report.figure(f"load from JSONL, {word}", median(rates), " rows/s", note=spread)
    cpu = median(item["cpu_s"] for item in found["none"]) / total * 1e6
    report.figure("load, processor time per row", cpu, " us")
    runs = found["none"] + found["full"]
    report.figure("load, peak memory", max(item["peak_mb"] for item in runs), " MB")
    grown = max(item["peak_mb"] - item["before_mb"] for item in runs)
    report.figure("load, peak memory above an open graph", grown, " MB")


def _child_load(source: str, target: str, durability: str) -> None:
    graph = og.init(target, SCHEMA, durability=durability)
    before = peak_memory_mb()
    start, cpu = time.perf_counter(), time.process_time()
    graph.load(source, mode="append")
    answer = {
        "seconds": time.perf_counter() - start,
        "cpu_s": time.process_time() - cpu,
        "before_mb": before,
        "peak_mb": peak_memory_mb(),
    }
    print(json.dumps(answer))


# ---- h: publishing alone ------------------------------------------------------------------


def _published(number: int, schema: pa.Schema) -> pa.Table:
    """Return what a commit of one table publishes: the table's version, and the commit."""
    pin = Pin(
        table_key="node:Person",
        incarnation=1,
        path="nodes/0123456789abcdef",
        version=number,
        row_count=number,
        transaction_uuid=str(uuid.UUID(int=number)),
        seq=number,
    )
    commit = GraphCommit(
        graph_commit_id=f"{number:026d}",
        manifest_version=number,
        parent_commit_id=f"{number - 1:026d}",
        created_at_us=1_700_000_000_000_000 + number,
        operation_id=f"{number:026d}",
        kind="mutation",
        schema_hash="sha256:" + "0" * 64,
    )
    return encode([pin, commit], schema)


def publish_alone(report: Report, folder: Path, *, depths: tuple[int, ...]) -> None:
    """Append two rows to a journal again and again; look at it after more and more appends."""
    folder.mkdir(parents=True)
    schema = manifest_schema(1)
    journal = Journal(locate(folder), "journal")
    view = journal.create(_published(1, schema), {})
    times: list[float] = []
    written = process_bytes()[1]
    opened: dict[int, float] = {}
    start: dict[int, float] = {}
    for number in range(2, depths[-1] + 2):
        rows = _published(number, schema)
        begin = time.perf_counter()
        view, _file = journal.append(journal.stage(view, rows), {})
        times.append((time.perf_counter() - begin) * 1e3)
        if number - 1 not in depths:
            continue
        depth = number - 1
        start[depth] = median(times[-JOURNAL_WINDOW:])
        opened[depth] = _cold_open_ms(folder)
        size = process_bytes()[1] - written
        note = (
            f"{len(view.dataset.get_fragments())} fragments, {size / 1e6:,.1f} MB written so far, "
            f"cold open {opened[depth]:.1f} ms, worst append {max(times[-JOURNAL_WINDOW:]):.1f} ms"
        )
        report.figure(f"publish alone, ms after {depth:,} appends", start[depth], " ms", note=note)
    first, last = depths[0], depths[-1]
    for name, found in (("append", start), ("cold open", opened)):
        label = f"publish alone, {name}, {last:,} / {first:,} appends"
        report.figure(label, found[last] / found[first], "x")


def _cold_open_ms(folder: Path) -> float:
    """Return how long a new handle takes to know everything the journal says."""
    found: list[float] = []
    for _repeat in range(5):
        begin = time.perf_counter()
        fresh = Journal(locate(folder), "journal")
        for rows in fresh.unread_rows(fresh.open_latest(), set()):
            for _record in decode(rows):
                pass
        found.append((time.perf_counter() - begin) * 1e3)
    return median(found)


# ---- the run ------------------------------------------------------------------------------


def main() -> None:
    """Run the parts asked for and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about a minute instead of eight")
    parser.add_argument(
        "--rows", type=int, default=0, help="rows of the large table, such as 10000000"
    )
    parser.add_argument("--only", default="", help="parts to run, such as a,e,g")
    parser.add_argument("--child-load", nargs=3, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child_load is not None:
        _child_load(*options.child_load)
        return
    quick = bool(options.quick)
    wanted = set(options.only.split(",")) if options.only else set("abcdefgh")
    report = Report("write", {"quick": quick, "only": sorted(wanted), "rows": options.rows})
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        folder = Path(name)
        if wanted & set("abc"):
            report.section("a, b, c: one write against bare Lance")
            single_writes(report, folder / "abc", rounds=60 if quick else 300)
        if "d" in wanted:
            report.section("d: synced writes")
            synced_writes(report, folder / "d", rounds=60 if quick else 300)
        if "e" in wanted:
            report.section("e: the same insert with more history, or beside more tables")
            depths = (10, 300, 1_000) if quick else (10, 300, 1_000, 5_000)
            history_and_tables(report, folder / "e", depths=depths, rounds=64 if quick else 160)
        if "f" in wanted:
            report.section("f: the same insert into a larger table")
            rows = options.rows or (1_000_000 if quick else 2_000_000)
            stored_rows(report, folder / "f", rows=rows, rounds=30 if quick else 100)
        if "g" in wanted:
            report.section("g: bulk load")
            nodes, edges = (20_000, 100_000) if quick else (100_000, 500_000)
            bulk_load(report, folder / "g", nodes=nodes, edges=edges, repeats=2 if quick else 3)
        if "h" in wanted:
            report.section("h: publishing alone")
            depths = (100, 1_000) if quick else (100, 1_000, 5_000, 20_000)
            publish_alone(report, folder / "h", depths=depths)
    report.write()


if __name__ == "__main__":
    main()
