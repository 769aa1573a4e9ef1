"""How writes scale with writers: one branch or many, on a disk, in a bucket and over HTTP.

    python benchmarks/writers.py [--quick] [--seconds N] [--only disk,http,s3,branches]

Every writer inserts one row, waits for the answer, and goes on. The same graph is written to by one
writer and by many, turn by turn, and what counts is the ratio within this run: the time of one
write of many against that of one writer alone. The bucket is a real S3 server (SeaweedFS, on this
machine) behind a proxy that adds 25 ms to every request and counts them. The proxy is a process of
its own: in this one it would take turns with the writers it is to slow down by a fixed time.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import multiprocessing
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from _harness import Report
from server import serving

import omnigraph as og

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.servers.proxy import Proxy
from tests.servers.seaweed import Seaweed

SCHEMA = "node Person { name: String @key  age: I64? }"
ADD = "query add($n: String) { insert Person { name: $n } }"
MANY = 32
LATENCY_S = 0.025
ROUNDS = 3
DISK_MIN, HTTP_MIN, S3_MIN, BRANCHES_S3_MIN, BRANCHES_DISK_MIN = 15, 8, 20, 20, 2
P50_MAX, REQUESTS_MAX = 3.0, 1.0

Write = Callable[[str], object]
_names = itertools.count()


@dataclass
class Run:
    """What some writers did in a while."""

    seconds: float
    cpu_seconds: float
    waits: list[float] = field(default_factory=list)

    @property
    def each_s(self) -> float:
        """Seconds of the run for each write."""
        return self.seconds / max(1, len(self.waits))


def run(writes: Sequence[Write], seconds: float) -> Run:
    """Let writers go on for a time, each in a thread; return how long each write took."""
    until = time.perf_counter() + seconds
    waits: list[list[float]] = [[] for _ in writes]

    def work(number: int, write: Write) -> None:
        while (began := time.perf_counter()) < until:
            write(f"w{next(_names)}")
            waits[number].append(time.perf_counter() - began)

    threads = [threading.Thread(target=work, args=item) for item in enumerate(writes)]
    began, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken, spent = time.perf_counter() - began, time.process_time() - cpu
    return Run(taken, spent, [item for part in waits for item in part])


def compare(
    report: Report, title: str, alone: Callable[[], Run], many: Callable[[], Run], at_least: float
) -> None:
    """Measure one writer and many turn by turn; report the ratio of their throughput."""
    report.section(title)
    alone()
    pairs = [(alone(), many()) for _ in range(ROUNDS)]
    ratios = [many_run.each_s / one.each_s for one, many_run in pairs]
    rates = [f"{1 / one.each_s:.0f} -> {1 / other.each_s:.0f}" for one, other in pairs]
    report.figure(
        f"{title}: time of a write of {MANY} writers / of one alone",
        statistics.median(ratios),
        "",
        at_most=round(1 / at_least, 4),
        note=f"{1 / statistics.median(ratios):.1f}x; writes/s {', '.join(rates)}",
    )
    waits = [statistics.median(other.waits) / statistics.median(one.waits) for one, other in pairs]
    report.figure(
        f"{title}: wait of one write, median", statistics.median(waits), "x", at_most=P50_MAX
    )
    cpu = [
        (other.cpu_seconds / len(other.waits)) / max(one.cpu_seconds / len(one.waits), 1e-9)
        for one, other in pairs
    ]
    report.figure(f"{title}: processor time of a write, this process", statistics.median(cpu), "x")


def on(graph: og.Graph, branch: str = "main") -> Write:
    """Return a writer of a branch."""
    return lambda name: graph.mutate(ADD, {"n": name}, branch=branch)


def disk(report: Report, folder: Path, seconds: float) -> None:
    """One branch on a disk, writers are threads."""
    with og.init(folder / "disk", SCHEMA) as graph:
        compare(
            report,
            "disk",
            lambda: run([on(graph)], seconds),
            lambda: run([on(graph)] * MANY, seconds),
            DISK_MIN,
        )


def branches(report: Report, folder: Path, seconds: float) -> None:
    """A branch for every writer, on a disk."""
    with og.init(folder / "branches", SCHEMA) as graph:
        names = [f"b{number}" for number in range(MANY)]
        for name in names:
            graph.branches.create(name)
            on(graph, name)("first")
        compare(
            report,
            "disk, a branch each",
            lambda: run([on(graph, names[0])], seconds),
            lambda: run([on(graph, name) for name in names], seconds),
            BRANCHES_DISK_MIN,
        )


class FarProxy:
    """The proxy in front of a bucket, in a process of its own."""

    def __init__(self, upstream: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far_end = context.Pipe()
        self._process = context.Process(target=_proxy, args=(upstream, far_end), daemon=True)
        self.endpoint = ""

    def __enter__(self) -> Self:
        self._process.start()
        self.endpoint = self._pipe.recv()
        return self

    def __exit__(self, *_error: object) -> None:
        self._pipe.send(None)
        self._process.join()

    def slow_down(self, latency_s: float) -> None:
        """Add so much to every request from now on."""
        self._asked(latency_s)

    def passed(self) -> int:
        """Return how many requests there were so far."""
        return self._asked(0.0)

    def _asked(self, latency_s: float) -> int:
        self._pipe.send(latency_s)
        return int(self._pipe.recv())


def _proxy(upstream: str, pipe: Connection) -> None:
    with Proxy(upstream) as proxy:
        pipe.send(proxy.endpoint)
        while (latency_s := pipe.recv()) is not None:
            proxy.latency_s = latency_s or proxy.latency_s
            pipe.send(proxy.passed)


def bucket(report: Report, seconds: float) -> None:
    """One branch, and a branch for every writer, in a bucket that is far away."""
    with Seaweed() as server, FarProxy(server.endpoint) as proxy:
        root = f"s3://{server.bucket}/writers"
        og.init(root, SCHEMA, storage_options=server.options()).close()
        with og.open(root, storage_options=server.options(proxy.endpoint)) as graph:
            names = [f"b{number}" for number in range(MANY)]
            for name in names:
                graph.branches.create(name)
                on(graph, name)("first")
            proxy.slow_down(LATENCY_S)
            compare(
                report,
                "bucket",
                lambda: run([on(graph)], seconds),
                lambda: run([on(graph)] * MANY, seconds),
                S3_MIN,
            )
            before = proxy.passed()
            found = run([on(graph)] * MANY, seconds)
            requests = (proxy.passed() - before) / len(found.waits)
            report.figure("bucket: requests for each write", requests, "", at_most=REQUESTS_MAX)
            compare(
                report,
                "bucket, a branch each",
                lambda: run([on(graph, names[0])], seconds),
                lambda: run([on(graph, name) for name in names], seconds),
                BRANCHES_S3_MIN,
            )


def clients(url: str, number: int, seconds: float, seed: int) -> tuple[float, list[float]]:
    """Write over HTTP with some connections, from a process of its own."""
    address = urlsplit(url)
    body = {"query": ADD}
    lock = threading.Lock()
    count = itertools.count()

    def writer() -> Write:
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)

        def write(_name: str) -> object:
            with lock:
                name = f"h{seed}-{next(count)}"
            text = json.dumps({**body, "params": {"n": name}})
            headers = {"content-type": "application/json"}
            connection.request("POST", "/graphs/default/mutate", text, headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{answer.status}: {content[:200]!r}")
            return content

        return write

    found = run([writer() for _ in range(number)], seconds)
    return found.seconds, found.waits


def over_http(report: Report, folder: Path, seconds: float) -> None:
    """One branch behind a server; the clients are two processes."""
    og.init(folder / "served", SCHEMA).close()
    seeds = itertools.count()
    context = multiprocessing.get_context("spawn")
    with serving(folder / "served") as server, context.Pool(2) as pool:

        def together(numbers: Sequence[int]) -> Run:
            jobs = [(server.url, number, seconds, next(seeds)) for number in numbers]
            parts = pool.starmap(clients, jobs)
            return Run(max(item[0] for item in parts), 0.0, [w for item in parts for w in item[1]])

        compare(report, "HTTP", lambda: together([1]), lambda: together([16, 16]), HTTP_MIN)
        report.section("HTTP, many clients of one actor")
        few, more, most = (together([n, n]) for n in (4, 16, 128))
        for name, found in (("32", more), ("256", most)):
            report.figure(
                f"HTTP: time of a write of {name} clients / of 8",
                found.each_s / few.each_s,
                "x",
                at_most=1.0,
                note=f"{1 / found.each_s:.0f} writes/s, none refused",
            )


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--only", default="disk,http,s3,branches")
    options = parser.parse_args()
    seconds = min(options.seconds, 2.0) if options.quick else options.seconds
    parts = options.only.split(",")
    report = Report("writers", {"quick": options.quick, "seconds": seconds, "only": parts})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "disk" in parts:
            disk(report, folder, seconds)
        if "branches" in parts:
            branches(report, folder, seconds)
        if "http" in parts:
            over_http(report, folder, seconds)
        if "s3" in parts:
            bucket(report, seconds)
    report.write()


if __name__ == "__main__":
    main()
