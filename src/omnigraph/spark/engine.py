"""Runs work on Spark: three primitives, and errors people can read. All that knows PySpark's API.

Only `range`, `mapInArrow`, `applyInArrow` and plain frames are used, so a classic session and a
Connect session both serve. How to reach an object store travels inside the tasks, which Spark
neither shows in plans nor logs.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.errors import OmniGraphError, StorageError
from omnigraph.limits import (
    SPARK_COMBINE_BYTES,
    SPARK_COMBINE_BYTES_MAX,
    SPARK_COMBINE_MEMORY_SHARE,
    SPARK_TASKS_EACH,
    SPARK_TASKS_TOGETHER,
    SPARK_TASKS_UNKNOWN,
)
from omnigraph.read.running import machine_bytes
from omnigraph.store import GivenOptions, reaching

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ANSWER = "task long, answer binary"
Work = Callable[[int], Iterable[pa.RecordBatch]]


class Engine:
    """Numbered tasks on a Spark session."""

    def __init__(self, session: SparkSession, given: GivenOptions | None = None) -> None:
        self.session = session
        self.given = given

    @property
    def is_local(self) -> bool:
        """Whether all workers run on this machine, as far as can be told."""
        try:
            return str(self.session.conf.get("spark.master", "")).startswith("local")
        except Exception:
            # A Connect server may keep to itself where it runs.
            return False

    @property
    def parallelism(self) -> int:
        """How many tasks run at once, as far as can be told."""
        try:
            return int(self.session.sparkContext.defaultParallelism)
        except Exception:
            # A Connect session does not know it.
            return SPARK_TASKS_UNKNOWN

    @property
    def combine_bytes(self) -> int:
        """What a task may hold of what it counts."""
        if not self.is_local:
            return SPARK_COMBINE_BYTES
        share = int(machine_bytes() * SPARK_COMBINE_MEMORY_SHARE / self.parallelism)
        return min(max(share, SPARK_COMBINE_BYTES), SPARK_COMBINE_BYTES_MAX)

    def run(self, tasks: int, work: Callable[[int], bytes]) -> list[bytes]:
        """Run every task and return its answer, in task order.

        A task may run several times. Only the answer of the attempt that Spark counts is here, so
        whatever another attempt wrote stays unmentioned.
        """
        if not tasks:
            return []

        def answers(task: int) -> Iterator[pa.RecordBatch]:
            answer = work(task)
            yield pa.RecordBatch.from_pydict(
                {"task": pa.array([task], pa.int64()), "answer": pa.array([answer], pa.binary())}
            )

        with failures():
            rows = self._frame(tasks, answers, ANSWER, self._partitions(tasks)).collect()
        by_task = {int(row["task"]): bytes(row["answer"]) for row in rows}
        if len(rows) != tasks or sorted(by_task) != list(range(tasks)):
            raise StorageError(f"Spark answered {len(rows)} of {tasks} tasks", hint="try again")
        return [by_task[task] for task in range(tasks)]

    def _partitions(self, tasks: int) -> int:
        """Return in how many partitions of Spark tasks run, several of many in each."""
        least = -(-tasks // SPARK_TASKS_TOGETHER)
        return max(min(tasks, SPARK_TASKS_EACH * self.parallelism), least)

    def frame(self, tasks: int, work: Work, ddl: str) -> DataFrame:
        """Return the batches that tasks yield as a frame; nothing runs until it is used."""
        if not tasks:
            return self.session.createDataFrame([], ddl)
        return self._frame(tasks, work, ddl, tasks)

    def _frame(self, tasks: int, work: Work, ddl: str, partitions: int) -> DataFrame:
        given = self.given

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with reaching(given):
                for batch in batches:
                    for task in batch.column(0).to_pylist():
                        yield from work(task)
            set_modules_aside()

        return self.session.range(0, tasks, 1, partitions).mapInArrow(run, ddl)

    def map_frame(
        self, frame: DataFrame, work: Callable[[int, Iterable[pa.RecordBatch]], Iterable[bytes]]
    ) -> list[bytes]:
        """Give every partition's batches to `work`; return all answers, in partition order."""
        given = self.given

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            context = TaskContext.get()
            task = 0 if context is None else context.partitionId()
            with reaching(given):
                for answer in work(task, batches):
                    yield pa.RecordBatch.from_pydict(
                        {"task": pa.array([task], pa.int64()), "answer": pa.array([answer])}
                    )
            set_modules_aside()

        with failures():
            rows = frame.mapInArrow(run, ANSWER).collect()
        ordered = sorted(rows, key=lambda row: int(row["task"]))
        return [bytes(row["answer"]) for row in ordered]


def joined(
    left: DataFrame, right: DataFrame, on: str | list[str] | Column, how: str = "inner"
) -> DataFrame:
    """Join two frames by sorting, which spills.

    Spark takes a frame that workers make for as small as the list of its tasks, and would hold all
    of its rows in the driver, and once more in every executor.
    """
    return left.join(right.hint("merge"), on, how)


_modules_aside = 0


def set_modules_aside() -> None:
    """Let Python's search for cycles pass over what is loaded, in a worker.

    Spark makes workers search after every task: 45 ms, for objects that stay as long as they do.
    """
    global _modules_aside
    if _modules_aside != len(sys.modules):
        _modules_aside = len(sys.modules)
        gc.collect()
        gc.freeze()


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Turn what Spark raises into an error of ours, in one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except OmniGraphError:
        raise
    except (PySparkException, Py4JError, OSError) as error:
        raise StorageError(
            f"a Spark job failed: {reason(str(error))}",
            hint="nothing was written; Spark's own log tells more",
        ) from error


def reason(text: str) -> str:
    """Return the line of a Spark error that tells what happened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    traced = [i for i, line in enumerate(lines) if "Traceback (most recent" in line]
    if traced:
        for line in lines[traced[-1] + 1 :]:
            kind, separator, message = line.partition(": ")
            plain = kind.replace(".", "").replace("_", "").isalnum()
            if separator and plain and not line.startswith("File "):
                return f"{kind.rpartition('.')[2]}: {message}"
            if plain and line.endswith("Error"):
                # One that says nothing more, such as that of a worker without memory.
                return line.rpartition(".")[2]
    for line in lines:
        if line.startswith("Caused by:"):
            return line.removeprefix("Caused by:").strip()
    for line in lines:
        if line.startswith(": "):
            # Py4J tells in the line before only which call it was.
            return line.removeprefix(": ")
    return next((line for line in lines if not line.startswith("at ")), "unknown")
