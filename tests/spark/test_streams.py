"""Streams of changes on a real session: bounded batches, killed queries, repeated batches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.spark.worlds import NewGraph, full_only

SCHEMA = "node Person {\n    name: String @key\n    age: I32?\n}\n"


def _people(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [
        {"type": "Person", "data": {"name": f"p{n:07}", "age": n % 90}}
        for n in range(start, start + count)
    ]


def _run(spark: Any, graph: og.Graph, folder: Path, **options: str) -> list[int]:
    """Read all there is, each batch to a folder of its own; return the numbers of the batches."""
    seen: list[int] = []

    def keep(frame: Any, number: int) -> None:
        seen.append(number)
        frame.write.mode("overwrite").parquet(str(folder / "out" / f"batch={number}"))

    query = (
        spark.readStream.format("omnigraph_changes")
        .options(**options)
        .load(graph.uri)
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(300)
    if query.exception() is not None:
        raise query.exception()
    return seen


def _ids(spark: Any, folder: Path) -> list[str]:
    rows = spark.read.parquet(str(folder / "out")).select("id").collect()
    return sorted(row["id"] for row in rows)


def test_a_batch_that_a_query_repeats_is_the_same(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    graph = new_graph(SCHEMA)
    graph.load(_people(20_000), mode="append")
    wanted = [f"p{n:07}" for n in range(20_000)]
    assert _run(spark, graph, tmp_path, maxRowsPerTrigger="9000") == [0, 1, 2]
    assert _ids(spark, tmp_path) == wanted
    # As if the query was killed after the second batch was written and before that was noted.
    for name in ("commits/1", "commits/.1.crc", "commits/2", "commits/.2.crc", "offsets/2"):
        (tmp_path / "checkpoint" / name).unlink()
    (tmp_path / "checkpoint" / "offsets" / ".2.crc").unlink()
    graph.load(_people(5, 20_000), mode="append")
    assert _run(spark, graph, tmp_path)[0] == 1
    assert _ids(spark, tmp_path) == [*wanted, *(f"p{n:07}" for n in range(20_000, 20_005))]


def test_changes_between_two_commits_are_a_frame(spark: Any, new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.load(_people(10_000), mode="append")
    graph.tags.create("loaded")
    graph.mutate('query q() { delete Person where name = "p0000007" }')

    def read(**options: str) -> Any:
        return spark.read.format("omnigraph").options(**options).load(graph.uri)

    found = read(changes="..loaded")
    assert found.count() == 10_000
    assert found.where("op = 'insert' and id < 'p0000003'").count() == 3
    assert [(row["op"], row["id"]) for row in read(changes="loaded..").collect()] == [
        ("delete", "p0000007")
    ]
    assert read(changes="now..").count() == 0
    with pytest.raises(
        Exception, match="unknown option 'versionasoff': did you mean 'versionAsOf'"
    ):
        read(type="Person", versionAsOff="1").count()


_PROGRAM = """
import sys
from omnigraph.spark import start_session

uri, folder = sys.argv[1:]
spark = start_session(
    "local[1,2]",
    spark__driver__memory="512m",
    spark__driver__extraJavaOptions="-XX:TieredStopAtLevel=1",
)
query = (
    spark.readStream.format("omnigraph_changes")
    .option("maxRowsPerTrigger", "2500")
    .load(uri)
    .writeStream.format("parquet")
    .option("checkpointLocation", folder + "/checkpoint")
    .option("path", folder + "/out")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
spark.stop()
"""


@full_only
@pytest.mark.timeout(900)
def test_a_killed_query_goes_on_and_loses_nothing(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    graph = new_graph(SCHEMA)
    graph.load(_people(10_000), mode="append")
    command = [sys.executable, "-c", _PROGRAM, graph.uri, str(tmp_path)]
    noted = tmp_path / "checkpoint" / "commits"
    child = subprocess.Popen(command, start_new_session=True)  # noqa: S603
    try:
        while len(list(noted.glob("[0-9]*"))) < 2:
            assert child.poll() is None
            time.sleep(0.05)
    finally:
        # The Java process and the workers with it, all of them ours.
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    done = subprocess.run(command, check=False)  # noqa: S603
    assert done.returncode == 0
    rows = spark.read.parquet(str(tmp_path / "out")).select("id").collect()
    found = Counter(row["id"] for row in rows)
    assert len(found) == 10_000
    assert set(found.values()) == {1}
