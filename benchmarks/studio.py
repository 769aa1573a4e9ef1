"""How long people wait for the studio on a large graph, in a real browser before a real server.

    python benchmarks/studio.py [nodes] [rounds]

A graph of so many nodes (1,000,000) is served by a process of its own; Chromium, headless and
without a graphics card, opens its page. Times are those of a clock, from the click to what is seen,
and are taken several times, each in a new page. They need an idle machine.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from _harness import Report
from playwright.sync_api import Page, sync_playwright

import omnigraph as og

CHROMIUM = os.environ.get("OMNIGRAPH_CHROMIUM") or shutil.which("chromium")
NODES, ROUNDS, AROUND = 1_000_000, 5, 2_000
_AT_MOST_MS = {"first view": 2_000, "page of a table": 300, "2,000 neighbours drawn": 1_000}
SCHEMA = """\
node Person { slug: String @key  name: String  level: I32? }
edge Knows: Person -> Person
"""
SERVER = """\
import sys, time
from omnigraph.server import Settings, Tokens, open_service, running
service = open_service(Settings(store=sys.argv[1], unauthenticated=True), Tokens(()), {})
with running(service, 0) as url:
    print(url, flush=True)
    sys.stdin.read()
service.close()
"""
PAGE = (
    "query page() { match { $p: Person } return { $p, $p.name, $p.level } %s limit 200 offset %d }"
)
STAR = 'query star() { match { $h: Person { slug: "p0" } $h knows $o } return { $h, $o } }'


def build(place: Path, nodes: int) -> None:
    """Make a graph whose first node knows 2,000 others, and all others one each."""
    numbers = np.arange(nodes)
    slugs = np.char.add("p", numbers.astype(str))
    people = pa.table(
        {
            "slug": slugs,
            "name": np.char.add("Person ", ((numbers * 7919) % nodes).astype(str)),
            "level": (numbers % 9).astype(np.int32),
        }
    )
    starts = np.concatenate([np.zeros(AROUND, dtype=np.int64), numbers[1:]])
    ends = np.concatenate([numbers[1 : AROUND + 1], (numbers[1:] * 31) % nodes])
    knows = pa.table({"from": slugs[starts], "to": slugs[ends]})
    with og.init(place, SCHEMA, durability="none") as graph:
        graph.load_table("Person", people, mode="append")
        graph.load_table("Knows", knows, mode="append")
        graph.optimize()


def processor_s() -> float:
    """Return the processor time of the browser, its driver and the server so far, in seconds."""
    parents, times = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # It has just ended.
            parents[int(entry.name)] = int(stat[1])
            times[int(entry.name)] = sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")

    def is_ours(process: int) -> bool:
        while process in parents:
            process = parents[process]
            if process == os.getpid():
                return True
        return False

    return sum(spent for process, spent in times.items() if is_ours(process))


def timed(step: Callable[[], object]) -> tuple[float, float]:
    """Return how long something took, and the processor time for it, in milliseconds."""
    cpu, begun = processor_s(), time.perf_counter()
    step()
    taken = (time.perf_counter() - begun) * 1e3
    return taken, (processor_s() - cpu) * 1e3


def first_view(page: Page, url: str, nodes: int) -> tuple[float, float]:
    """Open the page and wait until it tells how large the graph is."""

    def look() -> None:
        page.goto(f"{url}/studio/g/default/overview")
        page.get_by_text(f"{nodes:,}").first.wait_for()
        page.get_by_text("Last commits").wait_for()

    return timed(look)


def ask(page: Page, url: str, query: str) -> tuple[float, float]:
    """Run a query for a page of 200 rows and wait for them."""
    page.goto("about:blank")
    page.goto(f"{url}/studio/g/default/query#q={query.replace(' ', '+').replace('$', '%24')}")
    run = page.get_by_role("button", name="Run")
    run.wait_for()
    page.wait_for_timeout(1_500)  # The text is checked while nobody waits for it.

    def click() -> None:
        run.click()
        page.get_by_test_id("row-count").filter(has_text="200 rows").wait_for()

    return timed(click)


def star(page: Page, url: str) -> tuple[float, float]:
    """Draw 2,000 neighbours: from the click on Run to the first picture that has them all."""
    page.goto("about:blank")
    page.goto(f"{url}/studio/g/default/query#q={STAR.replace(' ', '+').replace('$', '%24')}")
    run = page.get_by_role("button", name="Run")
    run.wait_for()
    page.wait_for_timeout(1_500)

    def click() -> None:
        run.click()
        page.get_by_role("tab", name="Graph").click()
        page.locator(f"canvas[data-drawn='{AROUND + 1}']").wait_for()

    return timed(click)


def measure(url: str, nodes: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return the times of each step, each in a page that knows nothing of the one before."""
    found: dict[str, list[tuple[float, float]]] = {}
    steps: dict[str, Callable[[Page], Any]] = {
        "first view": lambda page: first_view(page, url, nodes),
        "page of a table": lambda page: ask(page, url, PAGE % ("", nodes // 2)),
        "page of a sorted table": lambda page: ask(
            page, url, PAGE % ("order { $p.name }", nodes // 2)
        ),
        "2,000 neighbours drawn": lambda page: star(page, url),
    }
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM)
        for _round in range(rounds):
            for name, step in steps.items():
                context = browser.new_context(viewport={"width": 1280, "height": 860})
                page = context.new_page()
                page.set_default_timeout(120_000)
                found.setdefault(name, []).append(step(page))
                context.close()
        browser.close()
    return found


def main() -> None:
    """Build, serve, look, report."""
    if CHROMIUM is None:
        print("chromium is not installed: nothing is measured")
        return
    given = [int(text) for text in sys.argv[1:]]
    nodes, rounds = (given + [NODES, ROUNDS][len(given) :])[:2]
    report = Report("studio", {"nodes": nodes, "rounds": rounds})
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "g"
        report.section(f"a graph of {nodes:,} nodes")
        build(place, nodes)
        report.section("the page")
        command = [sys.executable, "-c", SERVER, str(place)]
        with subprocess.Popen(  # noqa: S603 - ours
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            if server.stdin is None or server.stdout is None:
                raise RuntimeError("the server cannot be spoken to")
            found = measure(server.stdout.readline().strip(), nodes, rounds)
            server.stdin.close()
    for name, taken in found.items():
        times = [wall for wall, _cpu in taken]
        cpu = statistics.median(spent for _wall, spent in taken)
        note = f"first {times[0]:,.0f}, lowest {min(times):,.0f}, processor {cpu:,.0f}"
        report.figure(
            name, statistics.median(times), " ms", at_most=_AT_MOST_MS.get(name), note=note
        )
    report.write()


if __name__ == "__main__":
    main()
