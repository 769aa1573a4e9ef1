"""What a long history costs: open, insert, blame, feed, lists and memory at 10 to 100,000 commits.

python benchmarks/history.py [--commits 10,1000,10000,100000] [--rounds N]

A graph gets a few real commits and then, written straight into its manifest, as many as asked for:
each moves one table of two, as a one-row insert does, and files end with checkpoints as the writer
puts them. Reads are measured in processes of their own; graphs take turns.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from _harness import BLOCKS, Report, Step, Timing, interleave, ratio_of, timing_of
from msgspec.structs import replace as changed

import omnigraph as og
from omnigraph.commits.checkpoints import checkpoint
from omnigraph.commits.records import GraphCommit, Record, encode
from omnigraph.ids import UlidSource
from omnigraph.limits import CHECKPOINT_ROWS
from omnigraph.store.tables.protobuf import number_field
from omnigraph.store.tables.torn_versions import version_name

SCHEMA = "node Person { name: String @key  age: I32? }\nnode City { name: String @key }"
ADD = "query add($n: String) { insert Person { name: $n, age: 1 } }"
FOUND = "query found($n: String) { insert City { name: $n } }"
REAL = 8
"""Commits that are really made, besides the first one."""
VERSION_FIELD = 3
PART = 25_000
"""Commits written at once."""
COUNT = "query q() { match { $p: Person } return { count($p) as n } }"
WARM = 5
STEPS = 15
WHAT = {
    "open": "cold read-only open",
    "blame": "blame of an old row",
    "list": "list of the newest 20 commits",
    "get": "the newest commit by its id",
    "repeat": "an operation that never was",
    "past": "a state near the beginning",
    "feed": "a page of the oldest changes",
}
LIMITS = {"open": {"wall": 1.3, "cpu": 1.3}}
INSERTS = 60


def lengthen(root: Path, commits: int) -> None:
    """Make a graph look as if it had had this many commits."""
    with og.init(root, SCHEMA, durability="none") as graph:
        graph.mutate(FOUND, {"n": "c0"})
        for number in range(REAL - 1):
            graph.mutate(ADD, {"n": f"real{number}"})
        reader = graph._engine.lines.main.manifest
        journal = reader.journal
        ids = UlidSource()
        while (done := reader.capture().version) < commits:
            capture = reader.capture()
            pin, head = capture.pins["node:Person"], capture.head
            records: list[Record] = []
            since, made = reader.history.recent.floor, []
            last = min(done + PART, commits)
            for seq in range(done + 1, last + 1):
                pin = changed(pin, version=pin.version + 1, seq=seq)
                head = _next(head, ids, seq)
                made.append(head)
                records += [pin, head]
                if len(made) * 2 >= CHECKPOINT_ROWS or seq == last:
                    pins = {**capture.pins, "node:Person": pin}.values()
                    records.append(checkpoint(seq, since, pins, made))
                    since, made = seq, []
            rows = encode(records, capture.view.dataset.schema)
            journal.append(journal.stage(capture.view, rows), {})
            folder = Path(graph._engine.tables.folder(pin.path))
            newest = graph._engine.tables.open(pin.path, capture.pins["node:Person"].version)
            _jump(folder, newest.version, pin.version)
            _jump(root / "__manifest", done + 1, last)
            graph.close()
            graph = og.open(root, durability="none")
            reader = graph._engine.lines.main.manifest
            journal = reader.journal
        graph.close()


def _next(head: GraphCommit, ids: UlidSource, seq: int) -> GraphCommit:
    return changed(
        head,
        graph_commit_id=ids.next(),
        parent_commit_id=head.graph_commit_id,
        operation_id=ids.next(),
        manifest_version=seq,
        created_at_us=head.created_at_us + 1_000,
    )


def _jump(folder: Path, version: int, to: int) -> None:
    """Give the newest version of a dataset another number: copy its file under that number."""
    if version == to:
        return
    body = (folder / version_name(version)).read_bytes()
    at = int.from_bytes(body[-16:-8], "little")
    size = int.from_bytes(body[at : at + 4], "little")
    # Of a number that is given twice the last one counts.
    message = body[at + 4 : at + 4 + size] + number_field(VERSION_FIELD, to)
    tail = body[at + 4 + size :]
    made = body[:at] + len(message).to_bytes(4, "little") + message + tail
    (folder / version_name(to)).write_bytes(made)


# ---- in a process of its own ----------------------------------------------------------------


def _resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    start, cpu = time.perf_counter(), time.process_time()
    found = call()
    return (time.perf_counter() - start) * 1e3, (time.process_time() - cpu) * 1e3, found


def child(root: str, what: str, rounds: int) -> dict[str, float]:
    """Measure one thing; return milliseconds of wall and processor time, and bytes."""
    if what == "open":
        # Once elsewhere first: a process that never opened anything loads its libraries with it.
        with tempfile.TemporaryDirectory() as name:
            og.init(Path(name) / "g", SCHEMA, durability="none").close()
            og.open(Path(name) / "g", mode="ro").close()
        before = _resident()
        wall, cpu, graph = _timed(lambda: og.open(root, mode="ro"))
        graph.query(COUNT)
        return {"wall": wall, "cpu": cpu, "bytes": _resident() - before}
    with og.open(root, mode="ro") as graph:
        calls: dict[str, Callable[[], object]] = {
            "blame": lambda: graph.commits.last_change("Person", "real1"),
            "list": lambda: graph.commits.list(limit=20),
            "repeat": lambda: graph._engine.lines.main.manifest.commit_of("never made"),
            "get": lambda: graph.commits.get(graph.commits.head().graph_commit_id),
            "past": lambda: graph.snapshot(version=REAL),
            "feed": lambda: graph.feed.poll("beginning", limit=REAL // 2),
        }
        first = _timed(calls[what])[0]
        times = [_timed(calls[what])[:2] for _round in range(rounds)]
        return {**_median(times), "first": first, "bytes": _resident()}


def inserts(roots: dict[int, Path]) -> dict[str, Timing]:
    """Time one-row inserts into copies of the graphs, turn by turn in one process."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        numbers = itertools.count()
        steps: dict[str, Step] = {}
        for depth, root in roots.items():
            copy = shutil.copytree(root, Path(name) / str(depth))
            graph = stack.enter_context(og.open(copy, durability="none", upkeep=False))
            steps[f"{depth:,} commits"] = partial(_insert, graph, numbers)
        interleave(steps, rounds=WARM)
        return interleave(steps, rounds=INSERTS)


def _insert(graph: og.Graph, numbers: Iterator[int]) -> None:
    graph.mutate(ADD, {"n": f"new{next(numbers):06}"})


def _median(times: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "wall": statistics.median(wall for wall, _cpu in times),
        "cpu": statistics.median(cpu for _wall, cpu in times),
    }


def _run(root: Path, what: str, rounds: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", str(root), what, str(rounds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Build the graphs, measure them turn by turn, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", default="10,1000,10000,100000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", nargs=3, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        root, what, rounds = options.child
        print(json.dumps(child(root, what, int(rounds))))
        return
    depths = [int(part) for part in options.commits.split(",")]
    rounds = max(options.rounds, BLOCKS)
    report = Report("history", {"commits": depths, "rounds": rounds})
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        roots: dict[int, Path] = {}
        for depth in depths:
            roots[depth] = Path(name) / str(depth)
            lengthen(roots[depth], depth)
        report.section("cold and warm, each in processes of its own")
        found = measured(roots, rounds)
        timings = inserts(roots)
    judge(report, found, depths)
    report.time("insert of one row", timings)
    names = [f"{depth:,} commits" for depth in (depths[-1], depths[0])]
    ratio, note = ratio_of(timings, *names)
    label = f"insert of one row, {names[0]} / {depths[0]:,}"
    report.figure(label, ratio, "x", at_most=1.2, note=note)
    report.write()


Found = dict[str, dict[int, list[dict[str, float]]]]


def measured(roots: dict[int, Path], rounds: int) -> Found:
    """Measure everything on every graph, the graphs turn by turn."""
    found: Found = {what: {depth: [] for depth in roots} for what in WHAT}
    for _round in range(rounds):
        for what in WHAT:
            for depth, root in roots.items():
                found[what][depth].append(_run(root, what, STEPS))
    return found


def judge(report: Report, found: Found, depths: list[int]) -> None:
    """Print times, and how the longest history compares with the shortest."""
    least, most = depths[0], depths[-1]
    middle: dict[tuple[str, int, str], float] = {}
    for what, by_depth in found.items():
        timings: dict[str, Timing] = {}
        for depth, rounds in by_depth.items():
            walls = [item["wall"] / 1e3 for item in rounds]
            timings[f"{depth:,} commits"] = timing_of(walls, [i["cpu"] / 1e3 for i in rounds])
            for name in rounds[0]:
                middle[what, depth, name] = statistics.median(item[name] for item in rounds)
        report.time(WHAT[what], timings)
        for name, limit in LIMITS.get(what, {}).items():
            ratio = middle[what, most, name] / middle[what, least, name]
            label = f"{WHAT[what]}, {name}, {most:,} / {least:,} commits"
            report.figure(label, ratio, "x", at_most=limit)
        if "first" in found[what][most][0]:
            label = f"{WHAT[what]}, first of a handle, {most:,} commits"
            report.figure(label, middle[what, most, "first"], " ms")
    report.figure(
        f"blame of an old row, {most:,} commits", middle["blame", most, "wall"], " ms", at_most=50
    )
    grown = middle["open", most, "bytes"] - middle["open", least, "bytes"]
    each = grown / (most - least)
    report.figure("resident after an open, per commit", each, " B", at_most=50)
    grown = middle["repeat", most, "bytes"] - middle["repeat", least, "bytes"]
    each = grown / (most - least)
    report.figure("resident when repeats are looked for, per commit", each, " B", at_most=50)


if __name__ == "__main__":
    main()
