"""What branches and merges cost, as ratios: to bare Lance, to main, and to a smaller graph.

    python benchmarks/branching.py [--quick] [--large] [--only a,b,...] [--doltlite PYTHON]

Competitors take turns, so a busy machine slows all of them. `--large` adds ten million rows.
`--doltlite` names an interpreter that has the package `doltlite`; its times are for orientation.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _harness import Report, interleave, peak_memory_mb, ratio_of, run_child

import omnigraph as og

SCHEMA = """
node Person { name: String @key age: I32? }
edge Knows: Person -> Person { since: I32? }
"""
INSERT = "query person($name: String) { insert Person { name: $name, age: 1 } }"
CHANGED_ROWS = 1_000
MEGABYTE = 2**20


def _names(rows: int, start: int = 0) -> pa.Array:
    digits = pc.cast(pa.array(np.arange(start, start + rows)), pa.string())
    return pc.binary_join_element_wise("p", pc.utf8_lpad(digits, 9, "0"), "")


def _people(rows: int, start: int = 0, age: int = 0) -> pa.Table:
    ages = pa.array(np.full(rows, age, dtype=np.int32))
    return pa.table({"name": _names(rows, start), "age": ages})


def _wide(tables: int) -> str:
    others = [f"node Other{number} {{ code: String @key }}" for number in range(tables - 2)]
    return "\n".join([SCHEMA, *others])


def _graph(folder: Path, *, rows: int = 1_000, tables: int = 2, commits: int = 0) -> og.Graph:
    graph = og.init(folder, _wide(tables), durability="none")
    for first in range(0, rows, 1_000_000):
        part = _people(min(1_000_000, rows - first), first)
        graph.load_table("Person", part, mode="append")
    while graph.snapshot().version - 1 < commits:
        graph.mutate(INSERT, {"name": f"c{graph.snapshot().version}"})
    return graph


class Branching:
    """Makes and forgets branches of one graph."""

    def __init__(self, graph: og.Graph) -> None:
        self.graph = graph
        self._number = 0
        self._made: list[str] = []

    def create(self) -> str:
        """Make a branch: the step that is timed."""
        self._number += 1
        name = f"b{self._number}"
        self.graph.branches.create(name)
        self._made.append(name)
        return name

    def clear(self) -> None:
        """Delete every branch made here."""
        for name in self._made:
            self.graph.branches.delete(name)
        self._made.clear()


class Bare:
    """A bare Lance dataset of a few rows, and branches of it."""

    def __init__(self, folder: Path) -> None:
        self.dataset: Any = lance.write_dataset(_people(1_000), str(folder))
        self._number = 0

    def create(self) -> None:
        """Make a branch."""
        self._number += 1
        self.dataset.create_branch(f"b{self._number}", self.dataset.version)

    def clear(self) -> None:
        """Delete every branch."""
        for name in self.dataset.branches.list():
            self.dataset.branches.delete(name)


# ---- a: making a branch -------------------------------------------------------------------


def creating(report: Report, folder: Path, *, rounds: int, large: bool, commits: int) -> None:
    """Measure making a branch of larger, wider and older graphs."""
    sizes = {"10,000 rows": 10_000, "1,000,000 rows": 1_000_000}
    if large:
        sizes["10,000,000 rows"] = 10_000_000
    found = {name: Branching(_graph(folder / name, rows=n)) for name, n in sizes.items()}
    found["5 tables"] = Branching(_graph(folder / "5", tables=5))
    found["100 tables"] = Branching(_graph(folder / "100", tables=100))
    found["10 commits"] = Branching(_graph(folder / "c10", commits=10))
    found[f"{commits:,} commits"] = Branching(_graph(folder / "cn", commits=commits))
    bare = Bare(folder / "bare")

    def clear() -> None:
        for item in (*found.values(), bare):
            item.clear()

    steps: dict[str, Callable[[], object]] = {name: item.create for name, item in found.items()}
    steps["lance: create_branch"] = bare.create
    for step in steps.values():
        step()
    clear()
    timings = interleave(steps, rounds=rounds, between=clear)
    report.time("make a branch of", timings)
    pairs = [(name, "10,000 rows") for name in list(sizes)[1:]]
    pairs += [("100 tables", "5 tables"), (f"{commits:,} commits", "10 commits")]
    for name, base in pairs:
        value, spread = ratio_of(timings, name, base)
        report.figure(f"make a branch, {name} / {base}", value, "x", at_most=1.2, note=spread)
    value, spread = ratio_of(timings, "10,000 rows", "lance: create_branch")
    report.figure("make a branch / lance create_branch", value, "x", at_most=3.0, note=spread)


# ---- b: writing to a branch ---------------------------------------------------------------


def first_write(report: Report, folder: Path, *, rounds: int) -> None:
    """Measure the first and later inserts on a branch against the same on main."""
    graph = _graph(folder / "graph", rows=10_000)
    branching = Branching(graph)
    ready = {"fresh": branching.create(), "warm": branching.create()}
    number = 0

    def insert(branch: str) -> None:
        nonlocal number
        number += 1
        graph.mutate(INSERT, {"name": f"n{number}"}, branch=branch)

    def renew() -> None:
        # The used ones stay: a disk that has just removed files may be slow to make new ones
        # (ext4 without a journal passes over every inode freed in the last minutes).
        ready["fresh"] = branching.create()

    for _number in range(8):
        insert("main")
        insert(ready["warm"])
    timings = interleave(
        {
            "insert on main": lambda: insert("main"),
            "first insert on a branch": lambda: insert(ready["fresh"]),
            "later insert on a branch": lambda: insert(ready["warm"]),
        },
        rounds=rounds,
        between=renew,
    )
    report.time("write", timings)
    report.figure("making a file in a new folder", _file_microseconds(folder), " us")
    value, spread = ratio_of(timings, "first insert on a branch", "insert on main")
    report.figure("first insert on a branch / on main", value, "x", at_most=1.3, note=spread)
    value, spread = ratio_of(timings, "later insert on a branch", "insert on main")
    report.figure("later insert on a branch / on main", value, "x", at_most=1.2, note=spread)


def _file_microseconds(folder: Path) -> float:
    """Return what the disk takes for one new folder and an empty file in it."""
    number = 100
    start = time.perf_counter()
    for index in range(number):
        place = folder / "files" / str(index)
        place.mkdir(parents=True)
        (place / "file").touch()
    return (time.perf_counter() - start) / number * 1e6


# ---- c: merging ---------------------------------------------------------------------------


class Merging:
    """Two sides of one graph that each change rows of their own."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._branching = Branching(_graph(folder, rows=rows))
        self.graph = self._branching.graph
        self._age = 0
        self._branch = ""
        self.prepare()

    def prepare(self) -> None:
        """Change a thousand rows on a new branch and a thousand others on main."""
        self._branching.clear()
        self._branch = self._branching.create()
        self._age += 1
        theirs = _people(CHANGED_ROWS, 2_000, self._age)
        ours = _people(CHANGED_ROWS, 6_000, self._age)
        self.graph.load_table("Person", theirs, mode="merge", branch=self._branch)
        self.graph.load_table("Person", ours, mode="merge")

    def plan(self) -> None:
        """Compute the merge."""
        assert self.graph.branches.merge_plan(self._branch).is_clean

    def upsert(self) -> None:
        """Change a thousand rows of main: the write a merge ends with."""
        self._age += 1
        rows = _people(CHANGED_ROWS, 8_000, self._age)
        self.graph.load_table("Person", rows, mode="merge")

    def merge(self) -> None:
        """Merge."""
        assert self.graph.branches.merge(self._branch).outcome == "merged"


def merging(report: Report, folder: Path, *, rounds: int, large: bool) -> None:
    """Measure the same merge in graphs of different sizes."""
    sizes = [10_000, 1_000_000] + ([10_000_000] if large else [])
    sides = {f"{size:,} rows": Merging(folder / str(size), size) for size in sizes}

    def prepare() -> None:
        for item in sides.values():
            item.prepare()

    timings = interleave(
        {f"merge, {name}": item.merge for name, item in sides.items()}
        | {f"upsert on main, {name}": item.upsert for name, item in sides.items()},
        rounds=rounds,
        between=prepare,
    )
    planned = interleave(
        {f"plan, {name}": item.plan for name, item in sides.items()}, rounds=rounds
    )
    report.time("1,000 rows against 1,000 others", timings | planned)
    for name in sides:
        value, spread = ratio_of(timings, f"merge, {name}", f"upsert on main, {name}")
        report.figure(f"merge / upsert of 1,000 rows, {name}", value, "x", note=spread)
    for name in list(sides)[1:]:
        for word, found in (("merge", timings), ("plan", planned)):
            value, spread = ratio_of(found, f"{word}, {name}", f"{word}, 10,000 rows")
            report.figure(
                f"{word} 1,000 x 1,000, {name} / 10,000", value, "x", at_most=1.5, note=spread
            )


# ---- d: fast-forward of many new rows -----------------------------------------------------


def forwarding(report: Report, folder: Path, *, rows: int, repeats: int) -> None:
    """Take over a branch of new rows, in a process of its own, against a bare append."""
    folder.mkdir(parents=True)
    template = folder / "template"
    with _graph(template, rows=10_000) as graph:
        graph.branches.create("dev")
        for first in range(0, rows, 1_000_000):
            part = _people(min(1_000_000, rows - first), 20_000_000 + first)
            graph.load_table("Person", part, mode="append", branch="dev")
    found: dict[str, list[dict[str, float]]] = {"forward": [], "append": []}
    for _repeat in range(repeats):
        for kind, runs in found.items():
            copy = folder / "copy"
            shutil.copytree(template, copy)
            runs.append(run_child(__file__, "--child", kind, str(copy)))
            shutil.rmtree(copy)
    times = {kind: median(item["seconds"] for item in runs) for kind, runs in found.items()}
    peaks = {kind: median(item["grown_mb"] for item in runs) for kind, runs in found.items()}
    note = f"{times['forward'] * 1e3:.0f} / {times['append'] * 1e3:.0f} ms, {rows:,} rows"
    value = times["forward"] / times["append"]
    report.figure("fast-forward of new rows / lance append", value, "x", at_most=3.0, note=note)
    report.figure(
        "fast-forward, peak memory above the append's",
        peaks["forward"] - peaks["append"],
        " MB",
        at_most=64.0,
        note=f"{peaks['forward']:.0f} / {peaks['append']:.0f} MB",
    )


def _child(kind: str, folder: str) -> None:
    graph = og.open(folder, durability="none")
    theirs, ours = (graph.snapshot(b).tables["node:Person"] for b in ("dev", "main"))
    source = lance.dataset(os.path.join(folder, theirs.path), version=theirs.version)
    target = lance.dataset(os.path.join(folder, ours.path), version=ours.version)
    before = peak_memory_mb()
    start = time.perf_counter()
    if kind == "forward":
        assert graph.branches.merge("dev").outcome == "fast_forward"
    else:
        new = [f for f in source.get_fragments() if f.fragment_id >= len(target.get_fragments())]
        lance.write_dataset(source.scanner(fragments=new).to_reader(), target, mode="append")
    answer = {"seconds": time.perf_counter() - start, "grown_mb": peak_memory_mb() - before}
    print(json.dumps(answer))


# ---- e: space -----------------------------------------------------------------------------


def _size(folder: str) -> int:
    return sum(
        os.path.getsize(os.path.join(parent, name))
        for parent, _folders, names in os.walk(folder)
        for name in names
    )


def space(report: Report, folder: Path, *, rows: int) -> None:
    """Measure what a branch with one changed row adds on disk."""
    graph = _graph(folder, rows=rows)
    before = _size(graph.uri)
    graph.branches.create("dev")
    empty = _size(graph.uri) - before
    graph.load_table("Person", _people(1, 5, 9), mode="merge", branch="dev")
    changed = _size(graph.uri) - before
    report.figure(f"space of an empty branch, {rows:,} rows", empty / 1024, " KiB")
    report.figure(
        f"space of a branch with one changed row, {rows:,} rows",
        changed / 1024,
        " KiB",
        note=f"{changed / before:.2%} of the graph",
    )


# ---- g: diff ------------------------------------------------------------------------------


class Diffing:
    """Commits that changed one row, compared by the engine and by bare Lance."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.graph = _graph(folder, rows=rows)
        self.graph.load_table("Person", _people(1, 7_000, 3), mode="merge")
        old, new = self.graph.commits.list()[1::-1]
        self._commits = (old.graph_commit_id, new.graph_commit_id)
        states = [self.graph.snapshot(commit=name).tables["node:Person"] for name in self._commits]
        self._versions = [int(pin.version) for pin in states]
        path = Path(self.graph.uri) / states[1].path
        self._dataset = lance.dataset(str(path), version=self._versions[1])

    def diff(self) -> None:
        """Compare the two commits."""
        assert len(self.graph.diff(*self._commits).changes) == 1

    def delta(self) -> None:
        """Ask Lance which rows of the table were added and changed, and which went."""
        delta = self._dataset.delta(begin_version=self._versions[0], end_version=self._versions[1])
        changed = delta.get_updated_rows().read_all()
        added = delta.get_inserted_rows().read_all()
        assert (changed.num_rows, added.num_rows) == (1, 0)


def diffing(report: Report, folder: Path, *, rounds: int, large: bool) -> None:
    """Measure the same diff in graphs of different sizes."""
    sizes = [10_000, 1_000_000] + ([10_000_000] if large else [])
    sides = {f"{size:,} rows": Diffing(folder / str(size), size) for size in sizes}
    timings = interleave(
        {f"diff, {name}": item.diff for name, item in sides.items()}
        | {f"raw delta, {name}": item.delta for name, item in sides.items()},
        rounds=rounds,
    )
    report.time("a commit of one row", timings)
    for name in sides:
        value, spread = ratio_of(timings, f"diff, {name}", f"raw delta, {name}")
        report.figure(f"diff / raw delta, {name}", value, "x", at_most=4.0, note=spread)
    for name in list(sides)[1:]:
        value, spread = ratio_of(timings, f"diff, {name}", "diff, 10,000 rows")
        report.figure(f"diff of one row, {name} / 10,000", value, "x", at_most=1.5, note=spread)


# ---- f: beside DoltLite -------------------------------------------------------------------


def doltlite(report: Report, python: str, *, rounds: int) -> None:
    """Print what the same steps take in DoltLite: one process, one file, one table."""
    script = str(Path(__file__).parent / "_doltlite.py")
    for rows in (10_000, 1_000_000):
        command = [python, script, str(rows), str(rounds)]
        found = subprocess.run(  # noqa: S603 - our own script
            command, capture_output=True, text=True, check=True
        )
        for step, value in json.loads(found.stdout).items():
            report.figure(f"doltlite: {step}, {rows:,} rows", value, " ms")


# ---- the run ------------------------------------------------------------------------------


def main() -> None:
    """Run the parts asked for and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about a minute instead of five")
    parser.add_argument("--large", action="store_true", help="also ten million rows")
    parser.add_argument("--only", default="", help="parts to run, such as a,c")
    parser.add_argument("--folder", default="", help="put the graphs there, and leave them")
    parser.add_argument("--doltlite", default="", help="interpreter that has doltlite")
    parser.add_argument("--child", nargs=2, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        _child(*options.child)
        return
    quick, large = bool(options.quick), bool(options.large)
    wanted = set(options.only.split(",")) if options.only else set("abcdeg")
    report = Report("branching", {"quick": quick, "large": large, "only": sorted(wanted)})
    kept = nullcontext(options.folder) if options.folder else None
    with kept or tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        folder = Path(name)
        if "b" in wanted:  # before any part that removes files, see there
            report.section("b: writing to a branch")
            first_write(report, folder / "b", rounds=20 if quick else 60)
        if "a" in wanted:
            report.section("a: making a branch")
            rounds = 20 if quick else 60
            creating(report, folder / "a", rounds=rounds, large=large, commits=1_000)
        if "c" in wanted:
            report.section("c: merging")
            merging(report, folder / "c", rounds=8 if quick else 20, large=large)
        if "d" in wanted:
            report.section("d: fast-forward of new rows")
            rows = 300_000 if quick else 1_000_000
            forwarding(report, folder / "d", rows=rows, repeats=3)
        if "e" in wanted:
            report.section("e: space")
            space(report, folder / "e", rows=100_000 if quick else 1_000_000)
        if "g" in wanted:
            report.section("g: diff")
            diffing(report, folder / "g", rounds=10 if quick else 30, large=large)
        if options.doltlite:
            report.section("f: DoltLite")
            doltlite(report, options.doltlite, rounds=6 if quick else 20)
    report.write()


if __name__ == "__main__":
    main()
