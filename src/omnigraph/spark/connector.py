"""Graphs as a Spark data source: `spark.read.format("omnigraph")`, and the feed of changes.

`register` makes the formats known to a session. The classes are found by name in the workers, so
the package must be installed there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from omnigraph.errors import BadRequestError
from omnigraph.graph import open_graph
from omnigraph.spark.change_source import ChangeSource, change_reader, change_stream
from omnigraph.spark.feed import CHANGES
from omnigraph.spark.frames import Scan, scan
from omnigraph.spark.options import checked, listed, needed
from omnigraph.spark.sink import GraphStreamWriter, GraphWriter, Target

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT = "omnigraph"
OPTIONS = ("path", "type", "branch", "versionAsOf", "timestampAsOf", "tag", "columns", "where")


def register(session: SparkSession) -> None:
    """Make the formats known to a session."""
    session.dataSource.register(GraphSource)
    session.dataSource.register(ChangeSource)


class GraphSource(DataSource):
    """One type of one state of a graph.

    Options: `path` and `type`; `branch`; one of `versionAsOf` (a graph version or a commit id),
    `timestampAsOf` and `tag`; `columns`, separated by commas, because Spark does not tell a
    source which columns it needs; `where`, a condition that the tables evaluate. With `changes`
    it is the feed of changes instead, see `ChangeSource`. Written to, it takes the options of
    `omnigraph.spark.sink`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns."""
        return CHANGES if "changes" in self.options else self._scan().ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the state the options name, pinned from now on."""
        if "changes" in self.options:
            return change_reader(self.options)
        return GraphReader(self._scan())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what follows the feed of changes."""
        if "changes" not in self.options:
            raise BadRequestError(
                "a state of a graph cannot be read as a stream",
                hint="say from where: changes='A..'",
            )
        return change_stream(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what writes a frame as one commit."""
        return GraphWriter(Target.of(self.options, overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return what writes each batch of a stream as one commit."""
        return GraphStreamWriter(Target.of(self.options, overwrite=overwrite), schema)

    def _scan(self) -> Scan:
        options = checked(self.options, OPTIONS)
        version, commit = options.get("versionasof"), None
        if version is not None and not version.isdigit():
            version, commit = None, version
        columns = listed(options, "columns")
        with open_graph(needed(options, "path"), mode="ro") as graph:
            snapshot = graph.snapshot(
                options.get("branch"),
                commit=commit,
                version=None if version is None else int(version),
                tag=options.get("tag"),
                timestamp=options.get("timestampasof"),
            )
            return scan(
                graph, snapshot, needed(options, "type"), columns or None, options.get("where")
            )


class GraphReader(DataSourceReader):
    """Reads one scan, task by task.

    It takes no filters from Spark. Those of one use of a frame would stay for every other: Spark
    keeps what a source planned with the frame, so that counting it after a filter, or joining it
    with itself, gives wrong answers.
    """

    def __init__(self, plan: Scan) -> None:
        self._plan = plan

    def partitions(self) -> list[InputPartition]:
        """Return one task per group of fragments."""
        return [InputPartition(number) for number in range(len(self._plan.groups))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one task; Spark asks with None if there is none."""
        if partition.value is None:
            return iter(())
        return self._plan.read(partition.value)
