"""Tasks that fail, workers and drivers that die, loads that race: no row lost, none twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.failpoints import Failpoint, Pause, armed, error
from omnigraph.spark import Rows, load
from omnigraph.spark.engine import reason
from tests.spark.worlds import NewGraph, jsonl


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
        if task.partitionId() == 1 and task.attemptNumber() == 0:
            raise ValueError("first attempt")
        if task.partitionId() == 0 and not os.path.exists(flag):
            open(flag, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)

    frame = spark.range(0, 2000, 1, 3).selectExpr("concat('p', id) as name")
    shaky = frame.mapInArrow(dies_once, "name string")
    result = load(graph, {"Person": Rows(data=shaky)}, mode="append", session=spark)
    assert os.path.exists(flag)
    assert result.nodes == {"Person": 2000}
    assert _ids(graph) == sorted(f"p{n}" for n in range(2000))


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


@pytest.mark.parametrize(
    "point",
    [
        Failpoint.WRITE_POST_VALIDATE_PRE_STAGE,
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


_DRIVER = """
import sys
import omnigraph as og
from omnigraph.failpoints import Failpoint, arm, crash
from omnigraph.spark import load, start_session

session = start_session(
    "local[1,2]",
    spark__sql__shuffle__partitions="1",
    spark__driver__extraJavaOptions="-XX:TieredStopAtLevel=1",
)
arm(Failpoint.WRITE_POST_STAGE, crash)
with og.open(sys.argv[1], durability="none") as graph:
    load(graph, sys.argv[2], mode="append", session=session)
"""


def test_a_killed_driver_leaves_nothing_visible(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    graph = new_graph()
    graph.close()
    rows: list[Any] = [*_people(0, 5), {"type": "Note", "data": {"text": "t"}}]
    path = jsonl(tmp_path / "a.jsonl", rows)
    command = [sys.executable, "-c", _DRIVER, graph.uri, str(path)]
    # Java outlives its driver by a moment; nothing waits for what it would print.
    found = subprocess.run(  # noqa: S603
        command, timeout=200, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert found.returncode == -signal.SIGKILL
    with og.open(graph.uri, durability="none") as other:
        assert _ids(other) == []
        assert load(other, path, mode="append", session=spark).total_entities == 6
        assert len(_ids(other)) == 5


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
