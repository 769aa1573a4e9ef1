"""What many branches and many tables cost, as ratios to a graph with few of them.

    python benchmarks/branches.py [--quick] [--large] [--only branches,tables]

Competitors take turns, so a busy machine slows all of them. `--large` also opens ten thousand
branches.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from _harness import Report, Timing, interleave, ratio_of, timing_of

import omnigraph as og

SCHEMA = """
node Person { name: String @key age: I32? }
edge Knows: Person -> Person { since: I32? }
"""
INSERT = "query person($name: String) { insert Person { name: $name, age: 1 } }"
FEW, MANY = 10, 1_000


def _wide(tables: int, extra: str = "") -> str:
    others = [f"node Other{number} {{ code: String @key }}" for number in range(tables - 2)]
    return "\n".join([SCHEMA.replace("age: I32?", f"age: I32? {extra}"), *others])


def _graph(folder: Path, *, tables: int = 2) -> og.Graph:
    graph = og.init(folder, _wide(tables), durability="none", upkeep=False)
    graph.load([{"type": "Person", "data": {"name": f"p{n}"}} for n in range(100)], mode="append")
    return graph


def _insert(graph: og.Graph, branch: str, name: str) -> None:
    graph.mutate(INSERT, {"name": name}, branch=branch)


class Branching:
    """A graph with some branches that were written to; others come and go beside them."""

    def __init__(self, folder: Path, branches: int) -> None:
        self.graph = _graph(folder)
        self.names = [f"agent{number:05}" for number in range(branches)]
        for name in self.names:
            self.graph.branches.create(name)
            _insert(self.graph, name, f"by {name}")
        self._number = 0

    def create(self) -> None:
        """Make a branch."""
        self._number += 1
        self.graph.branches.create(f"b{self._number}")

    def write(self) -> None:
        """Write to the branch for the first time."""
        _insert(self.graph, f"b{self._number}", "x")

    def write_again(self) -> None:
        """Write to it once more."""
        _insert(self.graph, f"b{self._number}", f"y{time.perf_counter_ns()}")

    def write_to_old(self) -> None:
        """Write to one of the branches that were there, each in its turn."""
        name = self.names[self._number * 7 % len(self.names)]
        _insert(self.graph, name, f"z{time.perf_counter_ns()}")

    def delete(self) -> None:
        """Delete it."""
        self.graph.branches.delete(f"b{self._number}")


def branches(report: Report, folder: Path, *, many: int, rounds: int) -> Branching:
    """Measure each step of a branch's life beside few and beside many others."""
    sides = {FEW: Branching(folder / "few", FEW), many: Branching(folder / "many", many)}
    for side in sides.values():
        for step in (side.create, side.write, side.delete):
            step()
    life: list[tuple[str, Callable[[Branching], object]]] = [
        ("create", Branching.create),
        ("first write", Branching.write),
        ("later write", Branching.write_again),
        ("write to an old branch", Branching.write_to_old),
        ("delete", Branching.delete),
    ]
    timings = _in_order(sides, life, rounds=rounds)
    report.time("beside other branches", timings)
    for name, _step in life:
        value, spread = ratio_of(timings, f"{name}, {many}", f"{name}, {FEW}")
        report.figure(f"{name}, {many:,} / {FEW} branches", value, "x", at_most=1.3, note=spread)
    return sides[many]


def _in_order(
    sides: dict[int, Branching],
    steps: Sequence[tuple[str, Callable[[Branching], object]]],
    *,
    rounds: int,
) -> dict[str, Timing]:
    times: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    for number in range(rounds):
        order = list(sides) if number % 2 else list(reversed(sides))
        for name, step in steps:
            for size in order:
                start, cpu_start = time.perf_counter(), time.process_time()
                step(sides[size])
                times.setdefault(f"{name}, {size}", []).append(time.perf_counter() - start)
                cpu.setdefault(f"{name}, {size}", []).append(time.process_time() - cpu_start)
    return {name: timing_of(found, cpu[name]) for name, found in times.items()}


def cleanup(report: Report, side: Branching) -> None:
    """Measure a cleanup with nothing to do beside many branches, then that of deleted ones."""
    graph, many = side.graph, len(side.names)
    graph.cleanup(dry_run=False)
    start = time.perf_counter()
    graph.cleanup(dry_run=False)
    report.figure(f"cleanup, nothing to do, {many:,} branches", time.perf_counter() - start, " s")
    start = time.perf_counter()
    for name in side.names:
        graph.branches.delete(name)
    passed = time.perf_counter() - start
    report.figure(f"deleting {many:,} branches, each", passed / many * 1e3, " ms")
    start = time.perf_counter()
    graph.cleanup(dry_run=False)
    passed = time.perf_counter() - start
    report.figure(f"cleanup of {many:,} deleted branches", passed, " s", at_most=20.0 * many / MANY)


def tables(report: Report, folder: Path, *, few: int, many: int, rounds: int) -> None:
    """Measure maintenance and a schema change of one type beside few and many other tables."""
    graphs: dict[int, og.Graph] = {}
    for size in (few, many):
        start = time.perf_counter()
        graphs[size] = _graph(folder / str(size), tables=size)
        report.figure(f"init, {size} tables", time.perf_counter() - start, " s")
        graphs[size].optimize()
        graphs[size].cleanup(dry_run=False)
    number = 0

    def apply(size: int) -> None:
        nonlocal number
        number += 1
        fields = " ".join(f"extra{n}: I32?" for n in range(number))
        graphs[size].schema.apply(_wide(size, fields))

    steps: dict[str, Callable[[int], object]] = {
        "schema apply": apply,
        "optimize": lambda size: graphs[size].optimize(),
        "cleanup": lambda size: graphs[size].cleanup(dry_run=False),
        "insert": lambda size: _insert(graphs[size], "main", f"n{time.perf_counter_ns()}"),
    }
    for name, step in steps.items():
        found = interleave(
            {f"{name}, {size} tables": partial(step, size) for size in (few, many)},
            rounds=rounds if name != "schema apply" else rounds // 2 + 2,
        )
        report.time(name, found)
        value, spread = ratio_of(found, f"{name}, {many} tables", f"{name}, {few} tables")
        report.figure(
            f"{name}, {many} / {few} tables",
            value,
            "x",
            at_most=1.2 if name in ("schema apply", "insert") else None,
            note=spread,
        )
        if name in ("optimize", "cleanup"):
            seconds = found[f"{name}, {many} tables"].median / 1e3
            report.figure(f"{name}, nothing to do, {many} tables", seconds, " s", at_most=0.3)


def opening(report: Report, folder: Path, *, number: int) -> None:
    """Measure a graph with very many branches: opening it, listing them, writing to each."""
    graph = _graph(folder)
    for place in range(number):
        graph.branches.create(f"agent{place:05}")
    uri = graph.uri
    graph.close()
    start = time.perf_counter()
    graph = og.open(uri, durability="none", upkeep=False)
    report.figure(f"open, {number:,} branches", (time.perf_counter() - start) * 1e3, " ms")
    start = time.perf_counter()
    assert len(graph.branches.list()) == number + 1
    report.figure(f"first list, {number:,} branches", (time.perf_counter() - start) * 1e3, " ms")
    before = resident_mb()
    start = time.perf_counter()
    for place in range(number):
        graph.snapshot(f"agent{place:05}")
    each = (time.perf_counter() - start) / number * 1e3
    grown = resident_mb() - before
    report.figure(f"open each of {number:,} branches", each, " ms", note=f"{grown:.0f} MB more")


def resident_mb() -> float:
    """Return how much memory the process has now."""
    rows = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(row.split()[1]) / 1024 for row in rows if row.startswith("VmRSS:"))


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--many", type=int, default=MANY)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", default="branches,tables")
    options = parser.parse_args()
    report = Report("branches", vars(options))
    rounds = 9 if options.quick else 30
    wanted = options.only.split(",")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if "branches" in wanted:
            report.section("branches")
            side = branches(report, place / "branches", many=options.many, rounds=rounds)
            cleanup(report, side)
        if "tables" in wanted:
            report.section("tables")
            tables(report, place / "tables", few=5, many=200, rounds=rounds // 3 + 2)
        if options.large:
            report.section("very many branches")
            opening(report, place / "opening", number=10_000)
    report.write()


if __name__ == "__main__":
    main()
