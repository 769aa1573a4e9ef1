"""A server among hostile clients: does it stay well, fair and small?

    python benchmarks/hostile.py [--minutes N] [--workers N] [--quick]

Eight clients read rows by key, first alone, then beside others who send heads and bodies byte by
byte, take answers slowly, hold connections without a word, ask for 25 million rows, and count
paths that grow with every hop. Then they are alone again. Meanwhile `/healthz` is asked all the
time. The hostile ones are another actor, in a process of their own: they do not slow down who
measures.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from multiprocessing.synchronize import Event
from pathlib import Path
from urllib.parse import urlsplit

from _harness import Report
from _load import Load, load, request
from server import Server, percentile, serving

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I64? }\nedge Knows: Person -> Person"
READ = "query one($n: String) { match { $p: Person { name: $n } } return { $p.name, $p.age } }"
PRODUCT = "query all() { match { $a: Person  $b: Person } return { $a.name, $b.name } }"
HOPS = (
    "query far() { match { $a: Person  $a knows $b  $b knows $c  $c knows $d  $d knows $e  "
    "$e knows $f } return { $a.name, $b.name, $c.name, $d.name, $e.name, $f.name } }"
)
NODES = 5_000
"""Their product has 25 million rows."""
FRIENDS = 20
CLIENTS = 8
CONNECTIONS = 1_000
SLOW = 100
GREEDY = 4
IMPATIENT_S = 20.0
PATIENT_S = 90.0
"""Longer than the 60 seconds a query may take."""
HEALTH_MS_MAX = 100.0
NORMAL_MAX = 3.0
MEMORY_MAX = 1.1

TOKENS = {"normal": "a-token-of-the-normal-ones", "hostile": "a-token-of-the-hostile-ones"}

Client = Callable[[str, int], Awaitable[None]]


def _bearer(actor: str) -> str:
    return f"Authorization: Bearer {TOKENS[actor]}"


async def _drip(host: str, port: int, start: bytes, parts: bytes) -> None:
    """Send a beginning, then a byte each second, until the server has enough of it."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(start)
        for byte in parts:
            writer.write(bytes([byte]))
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    if not await reader.read(65536):
                        return
    finally:
        writer.close()


async def slow_head(host: str, port: int) -> None:
    """Send a head byte by byte."""
    await _drip(host, port, b"POST /query HTTP/1.1\r\nHost: localhost\r\nX-A: ", b"a" * 300)


async def slow_body(host: str, port: int) -> None:
    """Send a body byte by byte."""
    whole = request("/query", b" " * 100_000, _bearer("hostile"))
    await _drip(host, port, whole[:-100_000], b" " * 300)


async def silent(host: str, port: int) -> None:
    """Hold a connection and say nothing."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        await reader.read(1)
    finally:
        writer.close()


def _asking(query: str, accept: str) -> bytes:
    body = json.dumps({"query": query}).encode()
    return request("/query", body, _bearer("hostile"), f"Accept: {accept}")


async def slow_reader(host: str, port: int) -> None:
    """Ask for all there is, and take it a little at a time."""
    reader, writer = await asyncio.open_connection(host, port, limit=4096)
    try:
        writer.write(_asking(PRODUCT, "application/x-ndjson"))
        while await reader.read(1024):
            await asyncio.sleep(0.5)
    finally:
        writer.close()


async def greedy(host: str, port: int) -> None:
    """Ask for what takes long: 25 million rows as one answer, and paths of five hops.

    Every other one is waited for until the server's own limit of time, the rest are left behind.
    """
    for query in (PRODUCT, HOPS):
        for patience_s in (IMPATIENT_S, PATIENT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(_asking(query, "application/json"))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(patience_s):
                        await reader.read(1024)
            finally:
                writer.close()


KINDS: list[tuple[Client, int]] = [
    (slow_head, SLOW),
    (slow_body, SLOW),
    (slow_reader, GREEDY),
    (greedy, GREEDY),
    (silent, CONNECTIONS - 2 * SLOW - 2 * GREEDY),
]


def hostile(host: str, port: int, stop: Event) -> None:
    """Run all hostile clients until told to stop; each begins anew when it was cut off."""

    async def again(client: Client) -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                await client(host, port)
            await asyncio.sleep(0.2)

    async def run() -> None:
        tasks = [
            asyncio.ensure_future(again(kind)) for kind, number in KINDS for _ in range(number)
        ]
        while not stop.is_set():
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())


class Health(threading.Thread):
    """Asks whether the server is well, many times a second, and notes how long that took."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__()
        self._place = host, port
        self.waits: list[float] = []
        self.stop = threading.Event()

    def run(self) -> None:
        """Ask."""

        def make(_number: int) -> bytes:
            time.sleep(0.02)
            return b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

        while not self.stop.is_set():
            self.waits += load(self._place, make, clients=1, seconds=1.0, pids=()).waits


def read(number: int) -> bytes:
    """Return a request for one row."""
    body = {"query": READ, "params": {"n": f"p{number % NODES}"}}
    return request("/query", json.dumps(body).encode(), _bearer("normal"))


def normal(server: Server, seconds: float) -> tuple[Load, list[float]]:
    """Let eight clients read; return how that went, and how the health was meanwhile."""
    url = urlsplit(server.url)
    address = (str(url.hostname), int(url.port or 0))
    health = Health(*address)
    health.start()
    found = load(address, read, clients=CLIENTS, seconds=seconds, pids=())
    health.stop.set()
    health.join()
    return found, health.waits


def measure(report: Report, store: Path, minutes: float, workers: int) -> None:
    """Measure alone, among hostile clients, and alone again."""
    tokens = store.parent / "tokens.json"
    tokens.write_text(json.dumps(TOKENS), encoding="utf-8")
    flags = ["--tokens", str(tokens), "--workers", str(workers)]
    with serving(store, *flags) as server:
        url = urlsplit(server.url)
        quiet_s = min(15.0, minutes * 20)
        normal(server, quiet_s)
        quiet, _health = normal(server, quiet_s)
        before = memory_mb(server)
        context = multiprocessing.get_context("spawn")
        stop = context.Event()
        child = context.Process(target=hostile, args=(str(url.hostname), int(url.port or 0), stop))
        child.start()
        time.sleep(2.0)
        beside, health = normal(server, minutes * 60)
        during = memory_mb(server)
        stop.set()
        child.join(60)
        normal(server, quiet_s)
        after = memory_mb(server)
    report.section(f"{minutes:g} minutes among hostile clients")
    calm, busy = percentile(quiet.waits, 0.99), percentile(beside.waits, 0.99)
    rates = f"{quiet.rate:.0f} and {beside.rate:.0f} a second"
    note = f"{calm:.1f} ms alone, {busy:.1f} ms beside, {rates}"
    report.figure("wait of normal clients, p99, beside / alone", busy / calm, "x",
                  at_most=NORMAL_MAX, note=note)  # fmt: skip
    medians = statistics.median(beside.waits) / statistics.median(quiet.waits)
    report.figure("the same, median", medians, "x")
    report.figure("normal requests refused", beside.refused + quiet.refused, "", at_most=0)
    report.figure("wait for /healthz, p99", percentile(health, 0.99), " ms", at_most=HEALTH_MS_MAX)
    note = f"{before:.0f} MB before, {during:.0f} at the end, {after:.0f} after"
    report.figure("memory after / before", after / before, "x", at_most=MEMORY_MAX, note=note)


def memory_mb(server: Server) -> float:
    """Return what the server and its workers hold."""
    pid = server.child.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    total = 0
    for each in (pid, *children):
        text = Path(f"/proc/{each}/status").read_text(encoding="utf-8")
        row = next(line for line in text.splitlines() if line.startswith("VmRSS:"))
        total += int(row.split()[1])
    return total / 1024


def main() -> None:
    """Run and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="half a minute")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    minutes = 0.5 if options.quick else options.minutes
    report = Report("hostile", {"minutes": minutes, "workers": options.workers})
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        store = Path(name) / "g"
        with og.init(store, SCHEMA) as graph:
            rows = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(NODES)]
            rows += [
                {"edge": "Knows", "from": f"p{n}", "to": f"p{(n * 7 + k * 13 + 1) % NODES}"}
                for n in range(NODES)
                for k in range(FRIENDS)
            ]
            graph.load(rows, mode="append")
        measure(report, store, minutes, options.workers)
    report.write()


if __name__ == "__main__":
    sys.exit(main())
