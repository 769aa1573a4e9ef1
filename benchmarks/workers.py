"""By-key reads of a server with one worker and with two, writes through two, and kills of workers.

    python benchmarks/workers.py [--quick] [--seconds N] [--kills N]

One thread makes the load, with kept connections. It takes part of the two cores that the workers
have, and the report says how much. What counts is the processor time of a read, which other
programs disturb least, and the ratio of two workers to one, measured turn by turn.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from _harness import Report
from _load import Load, load, request
from server import Server, percentile, serving

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I64? }"
READ = "query one($n: String) { match { $p: Person { name: $n } } return { $p.name, $p.age } }"
ADD = "query add($n: String) { insert Person { name: $n } }"
ALL = "query all() { match { $p: Person } return { $p.name } }"
ROWS = 10_000
CLIENTS = 8
MANY = 32
ROUNDS = 3
READ_MS_MAX = 1.0
"""A thousand reads a second for each core."""
TWO_TO_ONE_MAX = round(1 / 1.7, 3)

_names = itertools.count()


def processes(server: Server) -> list[int]:
    """Return the server's process and its workers."""
    pid = server.child.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return [pid, *map(int, children)]


def read(number: int) -> bytes:
    """Return a request for one row."""
    body = {"query": READ, "params": {"n": f"p{number % ROWS}"}}
    return request("/query", json.dumps(body).encode())


def read_stored(number: int) -> bytes:
    """Return a request for one row by a stored query."""
    body = {"params": {"n": f"p{number % ROWS}"}}
    return request("/queries/one", json.dumps(body).encode())


def write(_number: int) -> bytes:
    """Return a request that adds a row."""
    body = {"query": ADD, "params": {"n": f"w{next(_names)}"}}
    return request("/mutate", json.dumps(body).encode())


def ask(server: Server, make: Callable[[int], bytes], clients: int, seconds: float) -> Load:
    """Load a server for a while."""
    url = urlsplit(server.url)
    address = (str(url.hostname), int(url.port or 0))
    return load(address, make, clients=clients, seconds=seconds, pids=processes(server))


def compare(report: Report, store: Path, seconds: float) -> None:
    """Read, then write, with one worker and with two."""
    queries = store.parent / "queries"
    queries.mkdir()
    (queries / "one.gq").write_text(READ, encoding="utf-8")
    flags = ("--queries", str(queries))
    with serving(store, *flags) as one, serving(store, *flags, "--workers", "2") as two:
        for server in (one, two):
            ask(server, read, CLIENTS, seconds / 2)
        pairs = [
            (ask(one, read, CLIENTS, seconds), ask(two, read, CLIENTS, seconds))
            for _round in range(ROUNDS)
        ]
        report.section(f"by-key reads, {CLIENTS} clients")
        singles = [single for single, _double in pairs]
        report.figure(
            "processor time of a read, one worker",
            statistics.median(item.cpu_ms for item in singles),
            " ms",
            at_most=READ_MS_MAX,
            note=_rates(singles),
        )
        stored = [ask(one, read_stored, CLIENTS, seconds) for _round in range(ROUNDS)]
        report.figure(
            "the same by a stored query",
            statistics.median(item.cpu_ms for item in stored),
            " ms",
            at_most=READ_MS_MAX,
            note=_rates(stored),
        )
        report.figure(
            "time of a read, two workers / one",
            statistics.median(single.rate / double.rate for single, double in pairs),
            "x",
            at_most=TWO_TO_ONE_MAX,
            note=_rates([double for _single, double in pairs]),
        )
        report.figure(
            "processor time of a read, two workers / one",
            statistics.median(double.cpu_ms / single.cpu_ms for single, double in pairs),
            "x",
        )
        own = [item.own_cpu_seconds / item.seconds for pair in pairs for item in pair]
        report.figure("the load itself, at most", max(own) * 100, "% of a core")
        waits = [wait for _single, double in pairs for wait in double.waits]
        report.figure("wait for a read, two workers, p99", percentile(waits, 0.99), " ms")
        refused = sum(item.refused for item in (*stored, *itertools.chain(*pairs)))
        report.figure("reads refused", refused, "", at_most=0)
        report.section(f"writes of one branch, {MANY} clients")
        writes = [
            (ask(one, write, MANY, seconds), ask(two, write, MANY, seconds))
            for _round in range(ROUNDS)
        ]
        report.figure(
            "time of a write, two workers / one",
            statistics.median(single.rate / double.rate for single, double in writes),
            "x",
            note=_rates([double for _single, double in writes]),
        )


def _rates(loads: list[Load]) -> str:
    return f"{', '.join(f'{item.rate:.0f}' for item in loads)} a second"


def killed(report: Report, store: Path, kills: int) -> None:
    """Kill workers one after the other while they are written to."""
    report.section("workers killed while they are written to")
    stop = threading.Event()
    acknowledged: list[str] = []
    broken: list[str] = []

    def work(url: str) -> None:
        # Without retries: a write that got no answer is not sent again.
        with og.connect(url, retries=0) as graph:
            while not stop.is_set():
                name = f"k{next(_names)}"
                try:
                    graph.mutate(ADD, {"n": name})
                except (og.StorageError, og.OutcomeUnknownError):
                    broken.append(name)
                    continue
                acknowledged.append(name)

    with serving(store, "--workers", "2") as server:
        writers = [threading.Thread(target=work, args=(server.url,)) for _ in range(CLIENTS)]
        for writer in writers:
            writer.start()
        for number in range(kills):
            target = len(acknowledged) + 4 * CLIENTS
            while len(acknowledged) < target or len(processes(server)) < 3:
                time.sleep(0.05)
            os.kill(processes(server)[1 + number % 2], signal.SIGKILL)
        target = len(acknowledged) + 4 * CLIENTS
        while len(acknowledged) < target:
            time.sleep(0.05)
        stop.set()
        for writer in writers:
            writer.join(60)
        with og.connect(server.url, timeout=120) as graph:
            found = [row["p.name"] for row in graph.query(ALL)]
    report.figure("workers killed", kills, "")
    report.figure("writes acknowledged", len(acknowledged), "")
    report.figure("acknowledged writes lost", len(set(acknowledged) - set(found)), "", at_most=0)
    report.figure("rows there twice", len(found) - len(set(found)), "", at_most=0)
    report.figure("writes without an answer", len(broken), "", at_most=kills * CLIENTS)


def main() -> None:
    """Run and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each part")
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    seconds = 2.0 if options.quick else options.seconds
    kills = 2 if options.quick else options.kills
    report = Report("workers", {"quick": options.quick, "seconds": seconds, "kills": kills})
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        store = Path(name) / "g"
        with og.init(store, SCHEMA) as graph:
            rows = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(ROWS)]
            graph.load(rows, mode="append")
        compare(report, store, seconds)
        killed(report, store, kills)
    report.write()


if __name__ == "__main__":
    sys.exit(main())
