"""Processes that die where a test tells them to.

`Zygote` starts one process that imports everything and uses nothing; it forks a victim for each
job, before Lance has started any thread of its own, so a victim costs milliseconds instead of a
second. A victim kills itself with SIGKILL before or after a call that changes the disk, counted by
name, or at a named boundary of the engine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tests.faults.rig import ADD, ADD_FIRM, DROP, MEET, NAME, SCHEMA
from tests.places import AnyPath

if TYPE_CHECKING:
    from omnigraph import Session

ROOT = Path(__file__).resolve().parents[2]
OPERATION = "01JZZZZZZZZZZZZZZZZZZZZZZZ"
FOLD_AT = 31

LOADED: list[dict[str, Any]] = [
    {"type": "Person", "data": {"slug": "new"}},
    {"type": "Person", "data": {"slug": "p1", "name": "merged"}},
    {"type": "Firm", "data": {"slug": "new"}},
    {"edge": "Knows", "from": "new", "to": "p0", "data": {"id": "kn"}},
]
OVERWRITTEN: list[dict[str, Any]] = [
    {"edge": "Knows", "from": "p2", "to": "p3", "data": {"id": "only"}}
]

# Every kind of work a schema change can be: columns of two tables, a new table, a dropped one,
# a renamed one.
MIGRATED = """
node Person { slug: String @key  title: String @rename_from("name") @default("none")
    kind: String @default("new")  note: String? }
node Company @rename_from("Firm") { slug: String @key  label: String? @rename_from("name") }
node City { name: String }
edge Works: Person -> Company @card(0..2) { role: String?  @unique(src, dst) }
edge Lives: Person -> City
"""
DESCRIBED = SCHEMA.replace("node Firm", 'node Firm @description("where people work")')


class Steps:
    """Counts calls that change the disk, by name, and dies at one of them.

    Calls of one name run one after the other, so that it is known how many were made.
    """

    def __init__(self, name: str | None, number: int, side: str) -> None:
        self._kill = (name, number)
        self._side = side
        self._locks: dict[str, threading.Lock] = {}
        self.counts: Counter[str] = Counter()

    def wrap(self, owner: Any, attribute: str, name: str) -> None:
        """Count the calls of a function or a static method."""
        inner: Callable[..., Any] = getattr(owner, attribute)
        lock = self._locks.setdefault(name, threading.Lock())

        def counted(*args: Any, **kwargs: Any) -> Any:
            with lock:
                here = (name, self.counts[name]) == self._kill
                self.counts[name] += 1
                if here and self._side == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                found = inner(*args, **kwargs)
                if here and self._side == "after":
                    os.kill(os.getpid(), signal.SIGKILL)
                return found

        static = isinstance(owner, type) and isinstance(vars(owner)[attribute], staticmethod)
        setattr(owner, attribute, staticmethod(counted) if static else counted)


def watch(steps: Steps) -> None:
    """Wrap everything that changes the disk."""
    from lance import LanceDataset
    from lance.optimize import Compaction

    from omnigraph.commits import branches as directory
    from omnigraph.ops import cleanup
    from omnigraph.store.files.object_files import ObjectFiles
    from omnigraph.store.tables import branches, journal, staging, upsert

    steps.wrap(branches, "make_branch", "fork")
    steps.wrap(branches, "delete_branch", "fork_delete")
    steps.wrap(directory, "make_branch", "branch")
    steps.wrap(directory, "delete_branch", "line_delete")
    steps.wrap(directory, "retire_branch", "branch_delete")
    steps.wrap(directory, "forget_retired", "forget_retired")
    for name in ("remove_versions", "remove_forks", "remove_tree", "erase_table"):
        steps.wrap(cleanup, name, name)
    steps.wrap(os, "link", "link")
    steps.wrap(os, "unlink", "unlink")
    steps.wrap(os, "fsync", "fsync")
    steps.wrap(ObjectFiles, "put_new", "slot_put")
    steps.wrap(ObjectFiles, "delete", "slot_delete")
    steps.wrap(staging, "write_fragments", "stage")
    steps.wrap(upsert, "write_fragments", "stage")
    steps.wrap(journal, "write_fragments", "stage_manifest")
    steps.wrap(Compaction, "commit", "compact")
    inner = LanceDataset.commit

    def named(*args: Any, **kwargs: Any) -> Any:
        target = args[0] if isinstance(args[0], str) else str(args[0].uri)
        name = "publish" if "__manifest" in target else "commit"
        return committers[name](*args, **kwargs)

    class Committers:
        publish = staticmethod(inner)
        commit = staticmethod(inner)

    steps.wrap(Committers, "publish", "publish")
    steps.wrap(Committers, "commit", "commit")
    committers = {"publish": Committers.publish, "commit": Committers.commit}
    LanceDataset.commit = staticmethod(named)  # type: ignore[method-assign]


def write(graph: Session, action: str) -> None:
    """Run one write under the id `OPERATION`."""
    match action:
        case "insert" | "fold":
            graph.mutate(ADD, {"s": "new"}, operation_id=OPERATION)
        case "group":
            write_group(graph)
        case "update":
            graph.mutate(NAME, {"s": "p3", "n": "changed"}, operation_id=OPERATION)
        case "delete":
            graph.mutate(DROP, {"s": "p0"}, operation_id=OPERATION)
        case "load":
            graph.load(LOADED, mode="merge", operation_id=OPERATION)
        case "overwrite":
            graph.load(OVERWRITTEN, mode="overwrite", operation_id=OPERATION)
        case "schema":
            graph.schema.apply(MIGRATED, operation_id=OPERATION)
        case "metadata":
            graph.schema.apply(DESCRIBED, operation_id=OPERATION)
        case "index":
            graph.maintenance.ensure_indices()
        case "optimize":
            graph.optimize()
        case "cleanup":
            graph.cleanup(keep=2, grace=0, dry_run=False)
        case "branch_insert":
            graph.mutate(ADD, {"s": "new"}, branch="dev", operation_id=OPERATION)
        case "branch_drop":
            graph.mutate(DROP, {"s": "p0"}, branch="dev", operation_id=OPERATION)
        case "merge":
            graph.branches.merge("dev", operation_id=OPERATION)
        case "merge_checked":
            check = 'query q() { match { $p: Person { slug: "nobody" } } return { $p.slug } }'
            graph.branches.merge("dev", checks=[check], operation_id=OPERATION)
        case "merge_back":
            graph.branches.merge("main", "lazy", operation_id=OPERATION)
        case "branch_create":
            graph.branches.create("new", from_="dev")
        case "branch_delete":
            graph.branches.delete("dev")
        case "lazy_delete":
            graph.branches.delete("lazy")
        case _:
            raise ValueError(action)


def group_jobs(graph: Session) -> list[Callable[[], Any]]:
    """Return writes to three tables that touch different rows; the last is `OPERATION`."""
    written: list[tuple[str, dict[str, Any]]] = [
        (ADD, {"s": "first"}),
        (NAME, {"s": "p3", "n": "changed"}),
        (DROP, {"s": "p4"}),
        (MEET, {"i": "kg", "a": "p1", "b": "first"}),
        (ADD_FIRM, {"s": "fg"}),
        (ADD, {"s": "new"}),
    ]
    ids = [f"{OPERATION}-{number}" for number in range(len(written) - 1)] + [OPERATION]
    return [
        partial(graph.mutate, text, params, operation_id=name, actor=f"actor {number}")
        for number, ((text, params), name) in enumerate(zip(written, ids, strict=True))
    ]


def write_group(graph: Session) -> None:
    """Run writes that are published together."""
    from tests.together import run_together

    for answer in run_together(graph, group_jobs(graph)):
        if isinstance(answer, BaseException):
            raise answer


def act(action: str, root: str, durability: Any, *, arm: Callable[[], None]) -> None:
    """Run one write; `arm` is called when everything before it is done."""
    import omnigraph as og

    if action in ("init", "reopen", "cluster"):
        arm()
    if action == "cluster":
        from omnigraph import cluster

        cluster.apply(root, actor="victim").check()
        return
    if action == "init":
        og.init(root, SCHEMA, durability=durability).close()
        return
    with og.open(root, durability=durability, actor="victim") as graph:
        if action != "reopen":
            arm()
            write(graph, action)


def _victim(job: dict[str, Any], channel: int) -> None:
    from omnigraph import failpoints
    from omnigraph.store.slots import leases

    for name, value in job["leases"].items():
        setattr(leases, name, value)
    steps = Steps(job["call"], job["number"], job["side"])

    def arm() -> None:
        if job["point"] is None:
            watch(steps)
        else:
            point = failpoints.Failpoint(job["point"])
            failpoints.arm(point, failpoints.crash, hit=job["number"])

    try:
        act(job["action"], job["root"], job["durability"], arm=arm)
        answer: dict[str, Any] = {"steps": dict(steps.counts), "error": None}
    except Exception as error:
        answer = {"steps": dict(steps.counts), "error": f"{type(error).__name__}: {error}"}
    os.write(channel, json.dumps(answer).encode())
    os._exit(0)


def serve() -> None:
    """Fork one victim per line of input and say what became of it."""
    warnings.simplefilter("ignore")
    import lance.optimize  # noqa: F401 - imported before any victim is forked

    import omnigraph.graph  # noqa: F401 - the same

    for line in sys.stdin:
        job = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _victim(job, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as handle:
            answer = handle.read()
        _pid, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        result = {"killed": killed, "answer": json.loads(answer) if answer else None}
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


class Zygote:
    """The forking process, seen from a test."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.victim"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=30)

    def run(
        self,
        action: str,
        root: AnyPath,
        *,
        call: str | None = None,
        point: str | None = None,
        number: int = 0,
        side: str = "before",
        durability: str = "none",
    ) -> dict[str, Any]:
        """Run one victim; it dies at the call of a name and number, or the n-th time at a point."""
        from omnigraph.store.slots import leases

        job = {
            "leases": {name: getattr(leases, name) for name in ("LEASE_S", "LEASE_MARGIN_S")},
            "action": action,
            "root": str(root),
            "call": call,
            "point": point,
            "number": number,
            "side": side,
            "durability": durability,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


if __name__ == "__main__":
    serve()
