"""Tasks that fail, workers and drivers that die, loads that race: no row lost, none twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph as og
from omnigraph.failpoints import Failpoint, Pause, armed, error
from omnigraph.spark import Rows, load
from omnigraph.spark.engine import reason
from omnigraph.spark.progress import Stage
from tests.spark.worlds import NewGraph, full_only, jsonl


def _people(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"type": "Person", "data": {"name": f"p{n}"}} for n in range(start, stop)]


def _ids(graph: og.Graph) -> list[str]:
    found = graph.export(types=["Person"])
    assert not isinstance(found, int)
    return sorted(str(item["data"]["id"]) for item in found)  # type: ignore[index]


def test_tasks_are_repeated_and_rows_are_not(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    graph = new_graph()
    flag = str(tmp_path / "killed")

    def dies_once(batches: Any) -> Any:
        import os
        import signal

        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        yield from batches
        if task.partitionId() == 1 and task.attemptNumber() < 2:
            raise ValueError("first and second attempt")
        if task.partitionId() == 0 and not os.path.exists(flag):
            open(flag, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)

    frame = spark.range(0, 2000, 1, 3).selectExpr("concat('p', id) as name")
    shaky = frame.mapInArrow(dies_once, "name string")
    result = load(graph, {"Person": Rows(data=shaky)}, mode="append", session=spark)
    assert os.path.exists(flag)
    assert result.nodes == {"Person": 2000}
    assert _ids(graph) == sorted(f"p{n}" for n in range(2000))


@pytest.mark.parametrize("often", [1, pytest.param(9, marks=full_only)])
def test_a_worker_without_memory_is_repeated_or_ends_the_load(
    spark: Any, new_graph: NewGraph, tmp_path: Path, often: int
) -> None:
    graph = new_graph()
    tried = str(tmp_path / "tried")

    def grows(batches: Any) -> Any:
        import os
        import resource

        yield from batches
        with open(tried, "a") as out:
            out.write(".")
        if os.path.getsize(tried) <= often:
            # The kernel refuses memory from here on, as it does in a container that is full.
            with open("/proc/self/statm") as found:
                size = int(found.read().split()[0]) * resource.getpagesize()
            _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20), hard))
            try:
                bytearray(1 << 30)
            finally:
                # The worker serves other tasks after this one.
                resource.setrlimit(resource.RLIMIT_AS, (hard, hard))

    frame = spark.range(0, 500, 1, 2).selectExpr("concat('p', id) as name")
    hungry = {"Person": frame.mapInArrow(grows, "name string")}
    if often == 1:
        assert load(graph, hungry, mode="append", session=spark).nodes == {"Person": 500}
    else:
        with pytest.raises(og.StorageError, match=r"a Spark job failed: .*MemoryError"):
            load(graph, hungry, mode="append", session=spark)
    assert len(_ids(graph)) == (500 if often == 1 else 0)
    assert not list((Path(graph.uri) / "_scratch").glob("*"))


def test_a_task_that_keeps_failing_is_one_plain_error(spark: Any, new_graph: NewGraph) -> None:
    graph = new_graph()

    def fails(batches: Any) -> Any:
        for _batch in batches:
            raise ValueError("no such luck")
        yield from ()

    frame = spark.range(0, 4, 1, 1).mapInArrow(fails, "name string")
    with pytest.raises(og.StorageError, match=r"a Spark job failed: .*no such luck") as caught:
        load(graph, {"Person": frame}, mode="append", session=spark)
    assert "\n" not in caught.value.message
    assert len(graph.commits.list()) == 1


def test_java_stacks_become_one_line() -> None:
    text = "An error occurred.\n\tat org.x(Y.java:1)\nCaused by: java.io.IOException: disk full\n"
    assert reason(text) == "java.io.IOException: disk full"
    text = (
        "An error occurred while calling o1.x.\n: x.SparkException: too large\n\tat x(Y.java:1)\n"
    )
    assert reason(text) == "x.SparkException: too large"
    text = 'Traceback (most recent call last):\n  File "x.py", line 3\n    grow()\nMemoryError\n'
    assert reason(text) == "MemoryError"


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(Failpoint.WRITE_POST_VALIDATE_PRE_STAGE, marks=full_only),
        Failpoint.PUBLISH_POST_SLOT_PRE_EFFECT,
    ],
)
def test_nothing_is_visible_after_a_failure(
    spark: Any, new_graph: NewGraph, tmp_path: Path, point: Failpoint
) -> None:
    graph = new_graph()
    path = jsonl(tmp_path / "a.jsonl", _people(0, 10))
    with armed(point, error), pytest.raises(og.OmniGraphError):
        load(graph, path, mode="append", session=spark)
    with og.open(graph.uri, durability="none") as other:
        assert _ids(other) == []
        load(other, path, mode="append", session=spark)
        assert len(_ids(other)) == 10


def test_an_interrupt_leaves_nothing(spark: Any, new_graph: NewGraph) -> None:
    graph = new_graph()

    def slow(batches: Any) -> Any:
        import time

        for batch in batches:
            time.sleep(20)
            yield batch

    frame = spark.range(0, 2, 1, 1).selectExpr("concat('p', id) as name")
    frame = frame.mapInArrow(slow, "name string")
    seen: list[Stage] = []

    def interrupt(stage: Stage) -> None:
        seen.append(stage)
        if stage.tasks and len(seen) > 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        graph.bulk({"Person": frame}, mode="append", session=spark, progress=interrupt)
    assert [stage.name for stage in seen if stage.finished] == ["start", "plan"]
    tracker, over = spark.sparkContext.statusTracker(), time.monotonic() + 30
    while tracker.getActiveJobsIds() and time.monotonic() < over:
        time.sleep(0.1)
    assert tracker.getActiveJobsIds() == []
    assert _ids(graph) == []
    assert not list((Path(graph.uri) / "_scratch").glob("*"))
    stages: list[str] = []
    people = spark.range(0, 3, 1, 1).selectExpr("concat('p', id) as name")

    def note(stage: Stage) -> None:
        if stage.finished:
            stages.append(f"{stage.name} {stage.rows}")

    graph.bulk({"Person": people}, mode="append", session=spark, progress=note)
    assert stages == ["start 0", "plan 0", *(f"{name} 3" for name in STAGES), "publish 3"]


_DRIVER = """
import os, pathlib, signal, sys, threading, time
import omnigraph as og
from omnigraph.failpoints import Failpoint, arm, crash
from omnigraph.spark import load, start_session

boundary = sys.argv[3]
session = start_session(
    "local[1,2]",
    spark__sql__shuffle__partitions="1",
    spark__driver__memory="512m",
    spark__driver__extraJavaOptions="-XX:TieredStopAtLevel=1",
)

def at_end(stage):
    if stage.finished and stage.name == boundary:
        os.kill(os.getpid(), signal.SIGKILL)

def die_while_writing():
    # Wait for the first data file that a worker begins.
    before = data_files()
    while data_files() <= before:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)

def data_files():
    return {str(path) for path in pathlib.Path(sys.argv[1]).glob("*/*/data/*")}

if boundary == "during write":
    threading.Thread(target=die_while_writing, daemon=True).start()

if boundary in list(Failpoint):
    arm(Failpoint(boundary), crash)
with og.open(sys.argv[1], durability="none") as graph:
    load(graph, sys.argv[2], mode="append", session=session, progress=at_end)
"""
STAGES = ["parse", "duplicates", "check", "write"]
BOUNDARIES = [
    *STAGES[:3],
    "during write",
    STAGES[3],
    *(
        str(point)
        for point in (
            Failpoint.WRITE_POST_STAGE,
            Failpoint.PUBLISH_POST_SLOT_PRE_EFFECT,
            Failpoint.PUBLISH_POST_TABLE_COMMIT,
            Failpoint.PUBLISH_PRE_CAS,
            Failpoint.PUBLISH_POST_MANIFEST_COMMIT,
        )
    ),
    "publish",
]
# A write all of whose tables were committed is finished by whoever opens the graph next.
LANDED = {str(Failpoint.PUBLISH_PRE_CAS), str(Failpoint.PUBLISH_POST_MANIFEST_COMMIT), "publish"}
EITHER = str(Failpoint.PUBLISH_POST_TABLE_COMMIT)
"""One table is committed then, and perhaps the other."""
# A driver takes long to start: the gate kills one, at a boundary drawn anew in each run.
KILLED = BOUNDARIES if os.environ.get("OMNIGRAPH_FAULTS") == "full" else ["drawn"]


@full_only
@pytest.mark.parametrize("boundary", KILLED)
def test_a_killed_driver_leaves_all_or_nothing(
    spark: Any, new_graph: NewGraph, tmp_path: Path, boundary: str
) -> None:
    if boundary == "drawn":
        boundary = random.choice(BOUNDARIES)  # noqa: S311
    graph = new_graph()
    graph.close()
    rows: list[Any] = [*_people(0, 5), {"type": "Note", "data": {"id": "n", "text": "t"}}]
    path = jsonl(tmp_path / "a.jsonl", rows)
    command = [sys.executable, "-c", _DRIVER, graph.uri, str(path), boundary]
    # Java outlives its driver by a moment; nothing waits for what it would print.
    found = subprocess.run(  # noqa: S603
        command, timeout=200, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert found.returncode == -signal.SIGKILL, boundary
    with og.open(graph.uri, durability="none") as other:
        landed = bool(_ids(other))
        assert landed == (boundary in LANDED) or boundary == EITHER, boundary
        counts = {key: pin.row_count for key, pin in other.snapshot().tables.items()}
        wanted = (5, 1) if landed else (0, 0)
        assert (counts["node:Person"], counts["node:Note"]) == wanted, boundary
        mode = "merge" if landed else "append"
        assert load(other, path, mode=mode, session=spark).total_entities == 6
        assert len(_ids(other)) == 5
        # What workers had written when the driver died is no part of any table.
        assert _unreferenced(Path(graph.uri)) or boundary != "write"
        _age(Path(graph.uri))
        other.cleanup(keep=1, dry_run=False, grace=0)
        assert not list((Path(graph.uri) / "_scratch").glob("*")), boundary
        assert _unreferenced(Path(graph.uri)) == set(), boundary
        assert len(_ids(other)) == 5


def _unreferenced(folder: Path) -> set[str]:
    """Return data files of tables that no version of them names."""
    found: set[str] = set()
    for versions in folder.glob("**/_versions"):
        dataset = lance.dataset(versions.parent)
        named = {
            file.path
            for version in dataset.versions()
            for fragment in dataset.checkout_version(version["version"]).get_fragments()
            for file in fragment.data_files()
        }
        found |= {path.name for path in (versions.parent / "data").glob("*")} - named
    return found


def _age(folder: Path) -> None:
    # A version of the manifest that was never published goes after a week, other leftovers before.
    past = time.time() - 8 * 86_400
    for parent, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            os.utime(os.path.join(parent, name), (past, past))


_SMALL_WRITER = """
import sys, time
import omnigraph as og

with og.open(sys.argv[1], durability="none") as graph:
    number = 0
    print("ready", flush=True)
    while not sys.stdin.closed and number < 500:
        graph.load([{"type": "Person", "data": {"name": f"small{number}"}}], mode="append")
        number += 1
        print(number, flush=True)
        time.sleep(0.2)
"""


def test_a_load_beside_a_process_that_keeps_writing(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    graph = new_graph()
    path = jsonl(tmp_path / "a.jsonl", _people(0, 20_000))
    command = [sys.executable, "-c", _SMALL_WRITER, graph.uri]
    with subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            result = load(graph, path, mode="append", session=spark)
            assert result.nodes == {"Person": 20_000}
            # The small writer is not starved either: it goes on after the load.
            for _ in range(3):
                assert writer.stdout.readline()
        finally:
            writer.kill()
    found = _ids(graph)
    small = [name for name in found if name.startswith("small")]
    assert len(small) >= 3
    assert len(found) == 20_000 + len(small)


def _race(spark: Any, graph: og.Graph, mine: Path, theirs: Path) -> og.OmniGraphError | None:
    """Load one file; the other is committed by another handle before the first is published."""
    pause = Pause()
    caught: list[og.OmniGraphError] = []

    def run() -> None:
        try:
            load(graph, mine, mode="append", session=spark)
        except og.OmniGraphError as found:
            caught.append(found)

    with armed(Failpoint.WRITE_POST_STAGE, pause):
        thread = threading.Thread(target=run)
        thread.start()
        assert pause.reached.wait(60)
        with og.open(graph.uri, durability="none") as other:
            load(other, theirs, mode="append", session=spark)
        pause.released.set()
        thread.join(60)
    assert not thread.is_alive()
    return caught[0] if caught else None


def test_racing_loads_of_different_keys_both_commit(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    graph = new_graph()
    first = jsonl(tmp_path / "a.jsonl", _people(0, 30))
    second = jsonl(tmp_path / "b.jsonl", _people(30, 50))
    assert _race(spark, graph, first, second) is None
    assert _ids(graph) == sorted(f"p{n}" for n in range(50))


def test_racing_loads_of_the_same_key_commit_once(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    graph = new_graph()
    first = jsonl(tmp_path / "a.jsonl", _people(0, 30))
    second = jsonl(tmp_path / "b.jsonl", _people(29, 40))
    found = _race(spark, graph, first, second)
    assert isinstance(found, og.KeyConflictError)
    assert found.message == "line 30: Person 'p29' already exists; nothing was written"
    assert _ids(graph) == sorted(f"p{n}" for n in range(29, 40))
