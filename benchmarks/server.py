"""A server under load: readers and writers at once, then killed while it is written to.

    python benchmarks/server.py [--quick] [--seconds N] [--clients N] [--readers N] [--soak N]

Every acknowledged write is looked for afterwards: its row and its commit must be there, and no
write may have made two commits. Writers work on a branch each, then all on one; then readers and
writers go on for longer while the memory of the server is watched. Clients are threads of this
process, so the figures include them.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from _harness import Report

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
ADD = "query add($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
READ = "query old($a: I32) { match { $p: Person  $p.age > $a } return { $p.name } limit 20 }"
ALL = "query all() { match { $p: Person } return { $p.name } }"
START_ROWS = 1_000
MEMORY_SAMPLES = 80
MEMORY_GROWTH_MB_MAX = 16.0


@dataclass
class Server:
    """`omnigraph serve` in a process of its own."""

    child: subprocess.Popen[str]
    url: str

    def memory_mb(self) -> float:
        """Return what the process holds."""
        text = Path(f"/proc/{self.child.pid}/status").read_text(encoding="utf-8")
        row = next(line for line in text.splitlines() if line.startswith("VmRSS:"))
        return int(row.split()[1]) / 1024

    def end(self, sig: signal.Signals) -> None:
        """Send a signal and wait."""
        self.child.send_signal(sig)
        self.child.wait(60)


@contextmanager
def serving(store: Path, *more: str) -> Iterator[Server]:
    """Run a server while the block runs."""
    program = "from omnigraph.cli.main import main; main()"
    flags = ["--bind", "127.0.0.1:0", "--unauthenticated", "--log-level", "warning"]
    child = subprocess.Popen(  # noqa: S603  # our own program
        [sys.executable, "-c", program, "serve", "--store", str(store), *flags, *more],
        stdout=subprocess.PIPE,
        text=True,
    )
    if child.stdout is None:
        raise RuntimeError("the server has no output")
    server = Server(child, "http://" + child.stdout.readline().partition("=")[2].strip())
    try:
        yield server
    finally:
        if child.poll() is None:
            server.end(signal.SIGTERM)


@dataclass
class Client(threading.Thread):
    """Writes or reads until told to stop, and remembers what was acknowledged."""

    url: str
    label: str
    branch: str
    stop: threading.Event
    ready: threading.Barrier
    reads: bool = False
    seconds: list[float] = field(default_factory=list)
    acknowledged: dict[str, str] = field(default_factory=dict)
    """The commit of each name that was written."""
    failures: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__init__()

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        """Work."""
        with og.connect(self.url) as graph:
            # The first answer takes longest: the server opens what it is about.
            graph.query(READ, {"a": 500}, branch=self.branch)
            self.ready.wait()
            number = 0
            while not self.stop.is_set():
                number += 1
                begun = time.perf_counter()
                try:
                    self._step(graph, f"{self.label}-{number}")
                except og.OmniGraphError as error:
                    self.failures[str(error.kind)] += 1
                    if isinstance(error, og.StorageError | og.OutcomeUnknownError):
                        return
                    continue
                self.seconds.append(time.perf_counter() - begun)

    def _step(self, graph: og.RemoteGraph, key: str) -> None:
        if self.reads:
            graph.query(READ, {"a": 500}, branch=self.branch)
            return
        done = graph.mutate(ADD, {"n": key, "a": len(self.acknowledged)}, branch=self.branch)
        if done.commit is None:
            raise RuntimeError("a write was acknowledged without a commit")
        self.acknowledged[key] = done.commit.graph_commit_id


def percentile(values: list[float], share: float) -> float:
    """Return a percentile, in milliseconds."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3 if ordered else 0.0


def run(
    report: Report, server: Server, name: str, *, branches: list[str], readers: int, seconds: float
) -> list[Client]:
    """Let clients work for a while and report how that went."""
    stop = threading.Event()
    ready = threading.Barrier(len(branches) + readers + 1)
    clients = [
        Client(server.url, f"{name}-w{n}", branch, stop, ready) for n, branch in enumerate(branches)
    ]
    clients += [
        Client(server.url, f"{name}-r{n}", "main", stop, ready, reads=True) for n in range(readers)
    ]
    for client in clients:
        client.start()
    ready.wait()
    begun = time.perf_counter()
    memory = watch_memory(server, seconds)
    stop.set()
    for client in clients:
        client.join(60)
    elapsed = time.perf_counter() - begun
    for what, reads in (("writes", False), ("reads", True)):
        found = [s for c in clients if c.reads is reads for s in c.seconds]
        report.figure(f"{name}: {what} per second", len(found) / elapsed, "/s")
        report.figure(f"{name}: {what}, p50", percentile(found, 0.5), " ms")
        report.figure(f"{name}: {what}, p99", percentile(found, 0.99), " ms")
    failures = sum((c.failures for c in clients), Counter())
    note = ", ".join(f"{kind} {count}" for kind, count in sorted(failures.items()))
    report.figure(f"{name}: requests refused", float(sum(failures.values())), "", note=note)
    writes = sum(len(c.acknowledged) for c in clients)
    report_memory(report, name, memory, writes=writes)
    return [c for c in clients if not c.reads]


def watch_memory(server: Server, seconds: float) -> list[float]:
    """Return what the server held, taken evenly over a time, in MB."""
    found = [server.memory_mb()]
    for _sample in range(MEMORY_SAMPLES):
        time.sleep(seconds / MEMORY_SAMPLES)
        found.append(server.memory_mb())
    return found


def report_memory(report: Report, name: str, memory: list[float], *, writes: int) -> None:
    """Report how memory went, and how much it still grew when caches were full.

    A graph holds its history and its ids in memory, so what is left is a little for each write.
    """
    quarter = len(memory) // 4
    third, last = memory[-2 * quarter : -quarter], memory[-quarter:]
    growth = statistics.median(last) - statistics.median(third)
    note = f"from {memory[0]:.0f} to {memory[-1]:.0f} MB, most {max(memory):.0f}"
    # Caches of Lance take some 2,000 writes to fill.
    limit = MEMORY_GROWTH_MB_MAX if name == "soak" else None
    report.figure(
        f"{name}: memory grown in the last quarter", growth, " MB", at_most=limit, note=note
    )
    per_write = growth / max(writes / 4, 1) * 1024
    report.figure(f"{name}: the same per write", per_write, " KB")


def heads(server: Server, branches: list[str]) -> dict[str, int]:
    """Return the version each branch has."""
    with og.connect(server.url) as graph:
        return {name: graph.commits.head(name).manifest_version for name in set(branches)}


def verify(
    report: Report, server: Server, name: str, writers: list[Client], before: dict[str, int]
) -> None:
    """Look for the row and the commit of every acknowledged write, once."""
    lost = doubled = extra = 0
    with og.connect(server.url, timeout=120) as graph:
        for branch in sorted({w.branch for w in writers}):
            found = Counter(row["p.name"] for row in graph.query(ALL, branch=branch))
            commits = [
                commit.graph_commit_id
                for commit in graph.commits.list(branch)
                if commit.kind == "mutation" and commit.manifest_version > before[branch]
            ]
            promised = {
                k: v for w in writers if w.branch == branch for k, v in w.acknowledged.items()
            }
            own = {key for key in found if key.startswith(f"{name}-w")}
            lost += len(promised.keys() - own) + len(set(promised.values()) - set(commits))
            # A row has a key, so a write done twice shows in the history, not in the rows.
            doubled += max(0, len(commits) - len(own)) + sum(n > 1 for n in found.values())
            extra += len(own - promised.keys())
    report.figure(f"{name}: acknowledged writes lost", lost, "", at_most=0)
    report.figure(f"{name}: writes that landed twice", doubled, "", at_most=0)
    report.figure(f"{name}: writes that landed without an answer", extra, "", at_most=len(writers))


def killed(report: Report, store: Path, *, clients: int, seconds: float) -> None:
    """Kill the server while it is written to; everything it acknowledged must be there."""
    with serving(store) as server:
        before = heads(server, ["main"])
        stop, ready = threading.Event(), threading.Barrier(clients + 1)
        writers = [Client(server.url, f"killed-w{n}", "main", stop, ready) for n in range(clients)]
        for writer in writers:
            writer.start()
        ready.wait()
        time.sleep(seconds)
        server.end(signal.SIGKILL)
        for writer in writers:
            writer.join(60)
    begun = time.perf_counter()
    with serving(store) as server:
        report.figure("killed: seconds until it serves again", time.perf_counter() - begun, " s")
        done = sum(len(w.acknowledged) for w in writers)
        report.figure("killed: writes acknowledged before", done, "")
        verify(report, server, "killed", writers, before)


def main() -> None:
    """Run and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about a minute")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each part")
    parser.add_argument("--clients", type=int, default=8, help="writers")
    parser.add_argument("--readers", type=int, default=4, help="readers")
    parser.add_argument("--soak", type=float, default=180.0, help="seconds memory is watched for")
    parser.add_argument("--durability", choices=["full", "none"], default="full")
    options = parser.parse_args()
    seconds = 3.0 if options.quick else options.seconds
    clients = 4 if options.quick else options.clients
    readers = 2 if options.quick else options.readers
    soak = 12.0 if options.quick else options.soak
    os.environ["OMNIGRAPH_DURABILITY"] = options.durability
    about = {"seconds": seconds, "clients": clients, "readers": readers, "soak": soak}
    report = Report("server", {"quick": options.quick, "durability": options.durability, **about})
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        store = Path(name) / "g"
        with og.init(store, SCHEMA, durability=options.durability) as graph:
            rows = [
                {"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(START_ROWS)
            ]
            graph.load(rows, mode="append")
            own = [f"own-{n}" for n in range(clients)]
            for branch in own:
                graph.branches.create(branch)
        with serving(store) as server:
            shared = ["main"] * clients
            half = [*own[: clients // 2], *shared[clients // 2 :]]
            for title, part, branches, length in (
                ("a branch for each writer", "own", own, seconds),
                ("one branch for all writers", "shared", shared, seconds),
                ("for longer, on branches and main", "soak", half, soak),
            ):
                report.section(title)
                before = heads(server, branches)
                writers = run(
                    report, server, part, branches=branches, readers=readers, seconds=length
                )
                verify(report, server, part, writers, before)
        report.section("killed while it is written to")
        killed(report, store, clients=clients, seconds=seconds)
    report.write()


if __name__ == "__main__":
    main()
