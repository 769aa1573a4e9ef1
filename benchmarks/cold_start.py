"""How long a command takes from nothing: locally, on a server, with a helper; and a server's start.

    python benchmarks/cold_start.py [--rounds 9]

Every step is a process of its own, so its processor time is all there is to it. The floors are what
Python needs to load a client of HTTP, and Lance with Arrow and NumPy.
"""

from __future__ import annotations

import argparse
import http.client
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from _harness import Report

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I64? }\nedge Knows: Person -> Person\n"
TEXT = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
QUERY = ("query", "-e", TEXT, "--params", '{"n": "p7"}')
PROGRAM = "from omnigraph.cli.main import main; main()"
# Lance without pandas, which Arrow loads where it is installed, and without an orderly end.
LANCE = """\
import os, sys
class No:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas": raise ModuleNotFoundError(name)
sys.meta_path.insert(0, No())
import lance
"""


def command(*arguments: str) -> list[str]:
    """Return how a command of this program is run."""
    return [sys.executable, "-c", PROGRAM, *arguments]


def run(arguments: Sequence[str], env: Mapping[str, str]) -> tuple[float, float]:
    """Run a process; return its processor time and how long it took, in seconds."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, env=env)  # noqa: S603 - ours
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def measured(
    steps: Mapping[str, Sequence[str]], env: Mapping[str, str], rounds: int
) -> dict[str, tuple[float, float]]:
    """Return the median processor time and time of each step, run turn by turn."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for _round in range(rounds):
        for name, arguments in steps.items():
            found[name].append(run(arguments, env))
    medians = {}
    for name, times in found.items():
        cpu, wall = (statistics.median(values) for values in zip(*times, strict=True))
        medians[name] = (cpu, wall)
        print(f"    {name:<24}{cpu * 1e3:8.0f} ms cpu{wall * 1e3:8.0f} ms", flush=True)
    return medians


def serve(store: str, env: Mapping[str, str]) -> tuple[subprocess.Popen[str], str, float]:
    """Start a server; return it, its address, and how long it took to listen."""
    begun = time.perf_counter()
    process = subprocess.Popen(  # noqa: S603 - ours
        command("serve", "--store", store, "--unauthenticated", "--bind", "127.0.0.1:0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=env,
    )
    line = process.stdout.readline() if process.stdout is not None else ""
    return process, line.strip().partition("=")[2], time.perf_counter() - begun


def first_query(address: str) -> float:
    """Return how long the first query of a server takes, in seconds."""
    connection = http.client.HTTPConnection(address)
    connection.connect()
    body = '{"query": "query q() { match { $p: Person } return { count($p) as n } }"}'
    begun = time.perf_counter()
    connection.request("POST", "/query", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    taken = time.perf_counter() - begun
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"the server answered {answer.status}")
    return taken


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    report = Report("cold_start", {"rounds": rounds})
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "XDG_RUNTIME_DIR": folder}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        store = str(Path(folder, "g"))
        rows = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(1000)]
        with og.init(store, SCHEMA) as graph:
            graph.load(rows, mode="append")
        report.section("commands")
        server, address, ready = serve(store, env)
        try:
            first = first_query(address)
            steps = {
                "http.client, json": [sys.executable, "-c", "import http.client, json"],
                "lance": [sys.executable, "-c", LANCE],
                "--help": command("--help"),
                "query": command(*QUERY, "--store", store),
                "query --server": command(*QUERY, "--server", f"http://{address}"),
            }
            run(steps["query"], env)
            found = measured(steps, env, rounds)
        finally:
            server.terminate()
            server.wait()
        run(command("warm", "start", store), env)
        try:
            warm = measured({"query, warm": command(*QUERY, "--store", store)}, env, rounds)
        finally:
            run(command("warm", "stop", store), env)
    report.section("figures")
    cpu = {name: times[0] for name, times in found.items()}
    report.figure("query, cpu", cpu["query"], "s", at_most=0.45)
    report.figure("query / lance", cpu["query"] / cpu["lance"], "x", at_most=1.5)
    report.figure("--help, cpu", cpu["--help"], "s", at_most=0.1)
    client = cpu["query --server"] / cpu["http.client, json"]
    report.figure("query --server / http.client", client, "x", at_most=3.0)
    report.figure("query, warm, wall", warm["query, warm"][1], "s", at_most=0.15)
    report.figure("serve ready", ready, "s", at_most=1.0)
    report.figure("first query of a server", first, "s", at_most=0.05)
    report.write()


if __name__ == "__main__":
    main()
