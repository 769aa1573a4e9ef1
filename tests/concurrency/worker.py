"""A process that writes to a graph when a test tells it to.

One line of JSON per job arrives on stdin. The worker opens what it needs, says that it is ready,
waits for the word, works, and answers with one line. The processes are started afresh and serve
many tests, because starting one costs a second.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.faults.model import Op, perform

ROOT = Path(__file__).resolve().parents[2]


def _attempt(graph: Any, op: Op, options: dict[str, Any]) -> dict[str, Any]:
    import omnigraph as og

    try:
        result = perform(graph, op, **options)
    except og.OmniGraphError as error:
        return {"error": type(error).__name__, "message": error.message}
    commit = None if result.commit is None else result.commit.graph_commit_id
    return {"error": None, "commit": commit}


def _listed(job: dict[str, Any], graph: Any) -> list[dict[str, Any]]:
    return [_attempt(graph, op, options) for op, options in job["ops"]]


def _random(job: dict[str, Any], graph: Any) -> list[dict[str, Any]]:
    """Write at random until the time is over, in one or more threads that share the handle."""
    log: list[dict[str, Any]] = []
    deadline = time.monotonic() + job["seconds"]

    def run(thread: int) -> None:
        name = f"{job['name']}t{thread}"
        source = random.Random(f"{job['seed']}/{name}")  # noqa: S311 - a test, not a secret
        number = 0
        while time.monotonic() < deadline:
            number += 1
            op = random_op(source, f"{name}n{number}")
            operation_id = f"{name}-{number}"
            outcome = _attempt(graph, op, {"operation_id": operation_id})
            log.append({"op": op, "operation_id": operation_id, **outcome})
            if outcome["error"] == "VersionConflictError":
                graph.refresh("main")

    threads = [threading.Thread(target=run, args=(i,)) for i in range(job["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return log


def random_op(source: random.Random, name: str) -> Op:
    """Make up a write; `name` makes its new ids unique."""
    slug, other = (f"p{source.randrange(12)}" for _ in range(2))
    firm, level = f"f{source.randrange(4)}", source.randrange(10)
    kinds: dict[str, tuple[int, Op]] = {
        "insert_person": (5, {"slug": slug, "name": name, "level": level}),
        "upsert_person": (2, {"slug": slug, "level": level}),
        "update_below": (1, {"below": level, "name": name}),
        "update_one": (2, {"slug": slug, "level": level}),
        "delete_person": (2, {"slug": slug}),
        "insert_firm": (1, {"slug": firm}),
        "delete_firm": (1, {"slug": firm}),
        "knows": (3, {"id": f"k{name}", "a": slug, "b": other}),
        "works": (3, {"id": f"w{name}", "a": slug, "b": firm}),
        "person_and_edge": (2, {"slug": slug, "id": f"k{name}", "b": other}),
        "delete_knows": (1, {"a": slug}),
        "load": (3, _random_load(source, name, slug, other)),
    }
    kind = source.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
    return {"op": kind, **kinds[kind][1]}


def _random_load(source: random.Random, name: str, slug: str, other: str) -> Op:
    mode = source.choice(["append", "merge", "merge", "overwrite"])
    edge = {"edge": "Knows", "from": slug, "to": other, "data": {"id": f"l{name}"}}
    if mode == "overwrite":
        return {"mode": mode, "rows": [edge]}
    people = [{"type": "Person", "data": {"slug": s, "name": name}} for s in {slug, f"q{name}"}]
    return {"mode": mode, "rows": [*people, edge]}


def _branching(job: dict[str, Any], graph: Any) -> list[dict[str, Any]]:
    """Make, delete and merge branches as listed: a method's name and its arguments."""
    import omnigraph as og

    found: list[dict[str, Any]] = []
    for method, arguments in job["calls"]:
        try:
            answer = getattr(graph.branches, method)(*arguments)
        except og.OmniGraphError as error:
            found.append({"error": type(error).__name__, "message": error.message})
        else:
            found.append({"error": None, "outcome": getattr(answer, "outcome", None)})
    return found


def _maintaining(job: dict[str, Any], graph: Any) -> list[dict[str, Any]]:
    """Optimize, index and clean up in turn until the time is over."""
    import omnigraph as og

    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + job["seconds"]
    while time.monotonic() < deadline:
        for method, call in (
            ("optimize", graph.optimize),
            ("ensure_indices", graph.maintenance.ensure_indices),
            # Everything stays readable, for the replay; what nobody names may go.
            ("cleanup", partial(graph.cleanup, keep=100_000, dry_run=False)),
        ):
            try:
                answer = call()
            except og.OmniGraphError as error:
                found.append({"error": type(error).__name__, "message": error.message})
            else:
                made = getattr(answer, "commit", None) is not None
                found.append({"error": None, "method": method, "made": made})
    return found


JOBS = {"listed": _listed, "random": _random, "branching": _branching, "maintaining": _maintaining}


def serve() -> None:
    """Work until stdin closes."""
    import omnigraph as og

    for line in sys.stdin:
        job = json.loads(line)
        os.environ.update(job["environment"])
        with og.open(job["root"], durability=job.get("durability", "none")) as graph:
            _say({"ready": True})
            sys.stdin.readline()
            answer = JOBS[job["do"]](job, graph)
        _say(answer)


def _say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


class Pool:
    """Worker processes, started when they are first needed."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.stdout.close()
        for process in self._processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, jobs: list[dict[str, Any]]) -> list[Any]:
        """Run one job per process, all let go at the same moment; return their answers."""
        while len(self._processes) < len(jobs):
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.concurrency.worker"],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        chosen = self._processes[: len(jobs)]
        # The server may have been started after the processes were.
        reach = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        for process, job in zip(chosen, jobs, strict=True):
            self._send(process, json.dumps({"environment": reach, **job}))
        for process in chosen:
            assert self._receive(process) == {"ready": True}
        for process in chosen:
            self._send(process, "go")
        return [self._receive(process) for process in chosen]

    @staticmethod
    def _send(process: subprocess.Popen[str], line: str) -> None:
        assert process.stdin is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()

    @staticmethod
    def _receive(process: subprocess.Popen[str]) -> Any:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "a worker died"
        return json.loads(line)


if __name__ == "__main__":
    serve()
