"""Streams that are killed at every point of a batch: each change arrives once, and nothing stays.

One graph's changes are read as a stream and written to another graph, so source and sink are both
in the batch that is interrupted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import omnigraph as og
from tests.places import AnyPath, S3Path, new_prefix
from tests.servers.seaweed import Seaweed
from tests.spark.dying_streams import (
    ROWS_PER_BATCH,
    SINK_POINTS,
    SOURCE_POINTS,
    dying_formats,
    run_stream,
)
from tests.spark.worlds import NewGraph, full_only

SCHEMA = "node Person {\n    name: String @key\n    age: I32?\n}\n"
POINTS = [*SOURCE_POINTS, *SINK_POINTS]
BATCHES = 3
PEOPLE = BATCHES * ROWS_PER_BATCH


def _filled(graph: og.Graph) -> None:
    for start in range(0, PEOPLE, ROWS_PER_BATCH):
        numbers = range(start, start + ROWS_PER_BATCH)
        people = [{"name": f"p{number:05}", "age": number % 90} for number in numbers]
        graph.bulk({"Person": people}, mode="append", engine="local")


def _check(target: og.Graph) -> None:
    """Every person is there once, and each batch made one commit."""
    target.refresh("main")
    assert target.snapshot().tables["node:Person"].row_count == PEOPLE
    names = target.export_table("Person")["name"].to_pylist()
    assert Counter(names) == Counter(f"p{number:05}" for number in range(PEOPLE))
    batches = Counter(
        commit.operation_id for commit in target.commits.list() if commit.kind == "load"
    )
    assert set(batches.values()) == {1}
    assert len(batches) == BATCHES


@full_only
@pytest.mark.parametrize("point", POINTS)
def test_a_batch_whose_processes_die_is_taken_once(
    spark: Any, new_graph: NewGraph, tmp_path: Path, point: str
) -> None:
    source, target = new_graph(SCHEMA, name="source"), new_graph(SCHEMA, name="target")
    _filled(source)
    # An earlier test may have left another session active, which would look the formats up.
    spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
    for made in dying_formats(point, str(tmp_path / "passed"), None):
        spark.dataSource.register(made)
    where = (source.uri, target.uri, str(tmp_path / "checkpoint"))
    # A task is repeated by Spark itself; what runs beside the tasks ends the query.
    error: Exception | None = None
    try:
        run_stream(spark, *where)
    except Exception as found:
        error = found
    assert (tmp_path / "passed").exists(), (point, str(error)[:2000])
    assert (error is None) == (point in ("source.read", "sink.write", "sink.written")), error
    run_stream(spark, *where)
    _check(target)


@full_only
@pytest.mark.timeout(900)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", ["disk", "s3"])
def test_a_stream_that_is_killed_goes_on_exactly(
    s3: Seaweed, tmp_path: Path, kind: str, point: str
) -> None:
    """The driver, Java and the workers are killed together, at any point of the second batch."""
    place: AnyPath = tmp_path if kind == "disk" else new_prefix(s3.bucket)
    for name in ("source", "target"):
        og.init(f"{place}/{name}", SCHEMA).close()
    with og.open(f"{place}/source") as source:
        _filled(source)
    arguments = [f"{place}/source", f"{place}/target", str(tmp_path / "checkpoint"), point]
    command = [sys.executable, "-m", "tests.spark.dying_streams", *arguments]
    command.append(str(tmp_path / "passed"))
    killed, done = (_run(command, tmp_path) for _ in range(2))
    assert (killed, done) == (-signal.SIGKILL, 0), (tmp_path / "log").read_text()[-3000:]
    with og.open(f"{place}/target") as target:
        _check(target)
        if not isinstance(place, S3Path):
            _reclaimed(target)


def _run(command: list[str], folder: Path) -> int:
    with open(folder / "log", "a") as log:
        child = subprocess.Popen(  # noqa: S603
            command,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=log,
            stderr=log,
        )
        try:
            return child.wait(300)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def _reclaimed(target: og.Graph) -> None:
    """What a killed batch left in scratch goes with the next cleanup, a day later."""
    past = os.stat(target.uri).st_mtime - 2 * 86_400
    for parent, folders, names in os.walk(target.uri):
        for name in [*folders, *names]:
            os.utime(os.path.join(parent, name), (past, past))
    target.cleanup(keep=1, dry_run=False, grace=0)
    assert not list(Path(target.uri, "_scratch").glob("*"))
    assert target.snapshot().tables["node:Person"].row_count == PEOPLE
