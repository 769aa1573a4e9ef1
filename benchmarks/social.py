"""The public embedded-graph benchmark: a social network, nine queries and four reads by key.

    python benchmarks/social.py                 # 100,000 persons, 2.4 million follows
    python benchmarks/social.py --persons 10000

Every engine lives in a process of its own (two of them cannot share one) and answers the same
queries turn by turn; all answers are compared before anything is timed. Engines that are not
installed are left out: `pip install -r requirements/bench.txt` brings them.
"""

from __future__ import annotations

import argparse
import importlib
import math
import multiprocessing
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from _harness import Report, Timing, peak_memory_mb, ratio_of, timing_of
from _social_data import make_tables, write_parquet
from _social_engines import (
    BY_KEY,
    NINE,
    PARAMETERS,
    Cypher,
    DuckDb,
    Engine,
    OmniGraph,
    OnSpark,
    Rows,
)

OWN = "omnigraph"
PEERS = ("kuzu", "ladybug", "duckdb")
MOST_FOLLOWED = ("most followed", "city of the most followed")
BY_KEY_TARGETS = dict(zip(BY_KEY, (1.5, 1.5, 1.0, 0.6), strict=True))
REFRESH_EDGES = 100
Paths = Mapping[str, str] | None
KEYS = 64


# ---- one process per engine ---------------------------------------------------------------


def _open(kind: str, place: Path, persons: int, paths: Mapping[str, str] | None) -> Engine:
    if kind == OWN:
        tables = None if paths is None else make_tables(persons)
        return OmniGraph(place, tables)
    if kind == "spark":
        return OnSpark(place)
    return DuckDb(place, paths) if kind == "duckdb" else Cypher(kind, place, paths)


def _serve(pipe: Connection, kind: str, place: Path, persons: int, paths: Paths) -> None:
    """Hold one engine and answer requests until the pipe closes."""
    try:
        engine = _open(kind, place, persons, paths)
    except (ImportError, RuntimeError) as error:
        pipe.send(("missing", str(error)))
        return
    pipe.send(("ready", ""))
    while (request := pipe.recv()) is not None:
        if request == "memory":
            pipe.send(peak_memory_mb())
            continue
        name, parameters = request
        start, cpu = time.perf_counter(), time.process_time()
        rows = engine.run(name, parameters)
        pipe.send((time.perf_counter() - start, time.process_time() - cpu, rows))
    engine.close()
    pipe.send("closed")


class Worker:
    """An engine in a process of its own."""

    def __init__(
        self, kind: str, place: Path, *, persons: int, paths: Mapping[str, str] | None = None
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(other, kind, place, persons, paths), daemon=True
        )
        start = time.perf_counter()
        self._process.start()
        state, why = self._pipe.recv()
        self.load_s = time.perf_counter() - start
        if state == "missing":
            raise ImportError(why)

    def run(self, name: str, parameters: Mapping[str, object]) -> tuple[float, float, Rows]:
        """Return wall seconds, processor seconds and rows of one query."""
        self._pipe.send((name, dict(parameters)))
        found: tuple[float, float, Rows] = self._pipe.recv()
        return found

    def peak_mb(self) -> float:
        """Return the largest resident size of the process so far."""
        self._pipe.send("memory")
        return float(self._pipe.recv())

    def close(self) -> None:
        """End the process."""
        self._pipe.send(None)
        self._pipe.recv()
        self._process.join()


def start_workers(
    kinds: tuple[str, ...], folder: Path, persons: int, paths: Mapping[str, str]
) -> dict[str, Worker]:
    """Load engines, those that are installed, then start each again on what it stored."""
    found: dict[str, Worker] = {}
    for kind in kinds:
        try:
            loader = Worker(kind, folder / kind, persons=persons, paths=paths)
        except ImportError as error:
            print(f"  {kind} is not installed: skipped ({error})")
            continue
        loader.close()
        print(f"  {kind}: loaded in {loader.load_s:.1f} s", flush=True)
        found[kind] = Worker(kind, folder / kind, persons=persons)
    return found


# ---- queries ------------------------------------------------------------------------------

Draw = Callable[[str], Mapping[str, object]]


def check_answers(workers: Mapping[str, Worker], draw: Draw) -> None:
    """Assert that every engine gives the same rows for every query."""
    for name in (*NINE, *BY_KEY):
        for _turn in range(3 if name in BY_KEY else 1):
            parameters = draw(name)
            answers = {
                kind: _plain(worker.run(name, parameters)[2], name)
                for kind, worker in workers.items()
            }
            for kind, rows in answers.items():
                assert rows == answers[OWN], f"{name}: {kind} gives {rows}, not {answers[OWN]}"


def _plain(rows: Rows, name: str) -> Rows:
    return sorted(rows) if name in BY_KEY else rows


def time_query(
    workers: Mapping[str, Worker], name: str, draw: Draw, *, rounds: int, seed: int = 7
) -> dict[str, Timing]:
    """Time one query on all engines, turn by turn, in a new order each round."""
    order = list(workers)
    shuffle = random.Random(seed).shuffle  # noqa: S311 - the order only has to vary
    times: dict[str, list[float]] = {kind: [] for kind in order}
    cpu: dict[str, list[float]] = {kind: [] for kind in order}
    for number in range(rounds + 2):
        parameters = draw(name)
        shuffle(order)
        for kind in order:
            wall_s, cpu_s, _rows = workers[kind].run(name, parameters)
            # The first two rounds warm everybody up.
            if number >= 2:
                times[kind].append(wall_s)
                cpu[kind].append(cpu_s)
    return {kind: timing_of(times[kind], cpu[kind]) for kind in workers}


def queries(report: Report, workers: Mapping[str, Worker], draw: Draw, *, rounds: int) -> None:
    """Time the nine queries and the reads by key; judge them against the peers."""
    timings = {
        name: time_query(workers, name, draw, rounds=rounds * 4 if name in BY_KEY else rounds)
        for name in (*NINE, *BY_KEY)
    }
    for name, found in timings.items():
        report.time(name, found)
    peers = [kind for kind in workers if kind != OWN]
    if "kuzu" in peers:
        _judge_nine(report, timings)
    for name in NINE:
        best = min(peers, key=lambda kind: timings[name][kind].median, default=None)
        if best is not None:
            value, note = ratio_of(timings[name], OWN, best)
            report.figure(f"{name} / best peer ({best})", value, "x", at_most=1.5, note=note)
    if "ladybug" in peers:
        for name, at_most in BY_KEY_TARGETS.items():
            value, note = ratio_of(timings[name], OWN, "ladybug")
            report.figure(f"{name} / ladybug", value, "x", at_most=at_most, note=note)


def _judge_nine(report: Report, timings: Mapping[str, Mapping[str, Timing]]) -> None:
    wall: list[float] = []
    cpu: list[float] = []
    for name in NINE:
        value, note = ratio_of(timings[name], OWN, "kuzu")
        wall.append(value)
        cpu.append(timings[name][OWN].cpu / max(timings[name]["kuzu"].cpu, 1e-6))
        at_most = {"2-hop paths": 1.0, "2-hop paths with ages": 0.5}.get(name)
        if name in MOST_FOLLOWED:
            at_most = 0.2
        report.figure(f"{name} / kuzu", value, "x", at_most=at_most, note=note)
    report.figure("geometric mean of the nine / kuzu", _mean(wall), "x", at_most=0.5)
    report.figure("geometric mean of the nine / kuzu, cpu", _mean(cpu), "x", at_most=0.5)


def _mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(max(value, 1e-6)) for value in values))


def memory(report: Report, workers: Mapping[str, Worker]) -> None:
    """Compare what the processes needed at most, after everything ran."""
    peaks = {kind: worker.peak_mb() for kind, worker in workers.items()}
    for kind, value in peaks.items():
        report.figure(f"peak memory, {kind}", value, " MB")
    if "kuzu" in peaks:
        report.figure("peak memory / kuzu", peaks[OWN] / peaks["kuzu"], "x", at_most=1.2)


# ---- the first query of a process ---------------------------------------------------------


def _first(pipe: Connection, kind: str, place: Path, name: str) -> None:
    """Time the opening of a graph and one query, in a process that has imported all it needs."""
    for module in ("omnigraph.graph", "lance") if kind == OWN else (kind,):
        importlib.import_module(module)
    start = time.perf_counter()
    engine = _open(kind, place, 0, None)
    engine.run(name, PARAMETERS.get(name, {}))
    pipe.send(time.perf_counter() - start)
    engine.close()


def first_queries(report: Report, folder: Path, *, rounds: int) -> None:
    """Open a graph and ask one query, each time in a new process."""
    context = multiprocessing.get_context("spawn")
    for name in NINE:
        found: dict[str, list[float]] = {OWN: [], "kuzu": []}
        for _round in range(rounds):
            for kind, times in found.items():
                pipe, other = context.Pipe()
                child = context.Process(target=_first, args=(other, kind, folder / kind, name))
                child.start()
                times.append(pipe.recv())
                child.join()
        own, peer = (statistics.median(times) for times in found.values())
        note = f"{own * 1e3:.0f} ms, kuzu {peer * 1e3:.0f} ms"
        report.figure(f"first query, {name} / kuzu", own / peer, "x", at_most=1.5, note=note)


# ---- one process that loads and asks ------------------------------------------------------


def _loading(pipe: Connection, kind: str, place: Path, paths: Mapping[str, str]) -> None:
    """Load files, ask the nine queries, and tell the peak of memory."""
    start = time.perf_counter()
    if kind == OWN:
        engine: Engine = OmniGraph.loaded(place, paths)
    else:
        engine = Cypher(kind, place, paths)
    loaded = time.perf_counter() - start
    for name in NINE:
        engine.run(name, PARAMETERS.get(name, {}))
    engine.close()
    pipe.send((loaded, peak_memory_mb()))


def load_and_ask(report: Report, folder: Path, paths: Mapping[str, str], *, rounds: int) -> None:
    """Load and ask in one new process for each round, engine by engine."""
    context = multiprocessing.get_context("spawn")
    found: dict[str, list[tuple[float, float]]] = {OWN: [], "kuzu": []}
    for number in range(rounds):
        for kind, figures in found.items():
            pipe, other = context.Pipe()
            place = folder / f"one-{kind}-{number}"
            child = context.Process(target=_loading, args=(other, kind, place, paths))
            child.start()
            figures.append(pipe.recv())
            child.join()
    (own_s, own_mb), (peer_s, peer_mb) = (
        (statistics.median(s for s, _mb in figures), statistics.median(mb for _s, mb in figures))
        for figures in found.values()
    )
    note = f"{own_s:.1f} s, kuzu {peer_s:.1f} s"
    report.figure("load from files / kuzu COPY", own_s / peer_s, "x", at_most=1.0, note=note)
    note = f"{own_mb:.0f} MB, kuzu {peer_mb:.0f} MB"
    name = "peak of a load and the nine queries in one process / kuzu"
    report.figure(name, own_mb / peer_mb, "x", at_most=1.2, note=note)


# ---- topology -----------------------------------------------------------------------------


def topology(report: Report, folder: Path, *, persons: int, repeats: int) -> None:
    """Time the first traversal of a new handle, the first after a commit, and Kuzu's COPY."""
    tables = make_tables(persons)
    paths = write_parquet(tables, folder / "parquet")
    builds, refreshes, warm, copies = [], [], [], []
    for number in range(repeats):
        # What a load has left for the first query would make it another one.
        shutil.rmtree(folder / OWN / "_edges", ignore_errors=True)
        engine = OmniGraph(folder / OWN)
        builds.append(_timed(lambda found=engine: found.run("2-hop paths", {})))
        warm.append(_timed(lambda found=engine: found.run("2-hop paths", {})))
        added = tables["Follows"].slice(1000 * number, REFRESH_EDGES)
        engine.graph.load_table("Follows", added, mode="append")
        refreshes.append(_timed(lambda found=engine: found.run("2-hop paths", {})))
        engine.close()
        copies += _kuzu_copy(folder / f"copy-{number}", paths)
    build, refresh = statistics.median(builds), statistics.median(refreshes)
    report.figure("topology, cold build and first query", build * 1e3, " ms")
    report.figure("topology, first query after a commit", refresh * 1e3, " ms")
    share = (refresh - statistics.median(warm)) / build
    report.figure("refresh / cold build", share, "x", at_most=0.05)
    if copies:
        copy = statistics.median(copies)
        report.figure("kuzu: COPY of the same edges", copy * 1e3, " ms")
        report.figure("cold build / kuzu COPY", build / copy, "x", at_most=0.4)


def _kuzu_copy(place: Path, paths: Mapping[str, str]) -> list[float]:
    try:
        rival = Cypher("kuzu", place)
    except ImportError:
        return []
    rival.create_tables()
    rival.copy("Person", paths["Person"])
    found = _timed(lambda: rival.copy("Follows", paths["Follows"]))
    rival.close()
    return [found]


def _timed(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


# ---- scaling ------------------------------------------------------------------------------


def scaling(report: Report, folder: Path, *, persons: int, rounds: int) -> None:
    """Run the same queries on 1, 4 and 16 times the data."""
    factors = (1, 4, 16)
    found: dict[str, Worker] = {}
    for factor in factors:
        size = persons * factor
        paths = {"": ""}
        loader = Worker(OWN, folder / str(size), persons=size, paths=paths)
        loader.close()
        found[f"{factor}x"] = Worker(OWN, folder / str(size), persons=size)
    draw = draw_keys(persons)
    for name in (*NINE, *BY_KEY):
        timings = time_query(found, name, draw, rounds=rounds)
        report.time(f"scaling, {name}", timings)
        value, note = ratio_of(timings, "16x", "1x")
        flat = name in ("one row", "1-hop names")
        at_most = 1.5 if flat else 16 * 1.5 if name in NINE else None
        report.figure(f"{name}, 16x / 1x data", value, "x", at_most=at_most, note=note)
    for worker in found.values():
        worker.close()


# ---- the run ------------------------------------------------------------------------------


def draw_keys(persons: int) -> Draw:
    """Return what draws the parameters of a query: of those by key any of some keys."""
    random_key = random.Random(3)  # noqa: S311 - any spread of keys will do
    keys = [f"person-{random_key.randrange(persons)}" for _ in range(KEYS)]

    def draw(name: str) -> Mapping[str, object]:
        return {"key": random_key.choice(keys)} if name in BY_KEY else PARAMETERS.get(name, {})

    return draw


def main() -> None:
    """Run the parts asked for and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--persons", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="qts", help="q queries, t topology, s scaling")
    options = parser.parse_args()
    report = Report("social", vars(options))
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        folder = Path(name)
        report.section(f"loading {options.persons:,} persons")
        paths = write_parquet(make_tables(options.persons), folder / "parquet")
        kinds = (OWN, *PEERS) if "q" in options.only else (OWN,) if "t" in options.only else ()
        workers = start_workers(kinds, folder, options.persons, paths)
        if "q" in options.only:
            draw = draw_keys(options.persons)
            check_answers(workers, draw)
            report.section("queries")
            queries(report, workers, draw, rounds=options.rounds)
            memory(report, workers)
        for worker in workers.values():
            worker.close()
        if "q" in options.only and "kuzu" in workers:
            report.section("the first query of a process")
            first_queries(report, folder, rounds=5)
            report.section("loading and asking in one process")
            load_and_ask(report, folder, paths, rounds=5)
        if "t" in options.only:
            report.section("topology")
            topology(report, folder, persons=options.persons, repeats=3)
        if "s" in options.only:
            report.section("scaling")
            scaling(report, folder / "scaling", persons=options.persons // 8, rounds=15)
    report.write()


if __name__ == "__main__":
    main()
