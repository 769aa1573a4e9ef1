"""A stream from the changes of one graph to another, whose processes die at a chosen point.

Run as a program, the driver, Java and all workers die at once; otherwise only the process that
passes the point.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from omnigraph.failpoints import Failpoint, arm
from omnigraph.spark.change_source import ChangeSource, ChangeStreamReader, feed_of
from omnigraph.spark.connector import GraphSource
from omnigraph.spark.options import checked
from omnigraph.spark.sink import GraphStreamWriter, Target

ROWS_PER_BATCH = 2_500
OPTIONS = ("path", "maxRowsPerTrigger")
SOURCE_POINTS = ["source.offset", "source.partitions", "source.read"]
SINK_POINTS = [
    "sink.write",
    "sink.written",
    "sink.commit",
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
    "sink.committed",
]
"""In the order a batch passes them; after the last one Spark notes that the batch is done."""


def dying_formats(point: str, passed: str, group: int | None) -> list[type]:
    """Return a source and a sink that die when they pass a point for the second time.

    `passed` is a file that counts, also over restarts. With `group`, that process group dies first.
    The classes are made here so that they travel by value: workers do not know this module.
    """

    def pass_by(name: str) -> None:
        if name != point:
            return
        with open(passed, "a") as out:
            out.write(".")
        if os.path.getsize(passed) == 2:
            if group is not None:
                os.killpg(group, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    class Reader(ChangeStreamReader):
        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
            found = super().latestOffset(start, limit)
            pass_by("source.offset")
            return found

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
            pass_by("source.partitions")
            return super().partitions(start, end)

        def read(self, partition: Any) -> Iterator[Any]:
            yield from super().read(partition)
            pass_by("source.read")

    class Source(ChangeSource):
        @classmethod
        def name(cls) -> str:
            return "dying_changes"

        def streamReader(self, schema: Any) -> Any:
            options = checked(self.options, OPTIONS)
            return Reader(feed_of(options), "beginning", ROWS_PER_BATCH)

    class Writer(GraphStreamWriter):
        def write(self, iterator: Iterator[Any]) -> Any:
            pass_by("sink.write")
            found = super().write(iterator)
            pass_by("sink.written")
            return found

        def commit(self, messages: Any, batchId: int) -> None:
            pass_by("sink.commit")
            if point in list(Failpoint):
                arm(Failpoint(point), lambda: pass_by(point))
            super().commit(messages, batchId)
            pass_by("sink.committed")

    class Sink(GraphSource):
        @classmethod
        def name(cls) -> str:
            return "dying"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return Writer(Target.of(self.options, overwrite=overwrite), schema)

    return [Source, Sink]


def run_stream(spark: Any, source: str, target: str, checkpoint: str) -> None:
    """Write each person that was inserted in one graph to the other, in batches; append refuses
    one that comes twice."""
    query = (
        spark.readStream.format("dying_changes")
        .load(source)
        .selectExpr("id as name")
        .writeStream.format("dying")
        .option("type", "Person")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(target)
    )
    query.awaitTermination(300)
    if query.exception() is not None:
        raise query.exception()


def main() -> None:
    """Run the stream in a session of its own."""
    from omnigraph.spark import start_session

    source, target, checkpoint, point, passed = sys.argv[1:]
    session = start_session(
        "local[1,2]",
        spark__driver__memory="512m",
        spark__driver__extraJavaOptions="-XX:TieredStopAtLevel=1",
        spark__sql__shuffle__partitions="1",
    )
    for made in dying_formats(point, passed, os.getpgid(0)):
        session.dataSource.register(made)
    run_stream(session, source, target, checkpoint)
    session.stop()


if __name__ == "__main__":
    main()
