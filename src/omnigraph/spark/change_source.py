"""The feed of changes as a Spark source: a stream, or what lies between two commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from omnigraph.errors import BadRequestError
from omnigraph.graph.commit_steps import BEGINNING
from omnigraph.limits import SPARK_FEED_ROWS
from omnigraph.ops.diff import ChangeFilter
from omnigraph.spark.feed import CHANGES, Feed, FeedPlace, between
from omnigraph.spark.options import checked, listed, needed, number

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

CHANGES_FORMAT = "omnigraph_changes"
OPTIONS = ("path", "branch", "type", "ops", "changes", "startingFrom", "maxRowsPerTrigger")


def feed_of(options: Mapping[str, str]) -> Feed:
    """Return the feed that checked options name."""
    return Feed(
        path=needed(options, "path"),
        branch=options.get("branch", "main"),
        wanted=ChangeFilter.of(types=listed(options, "type"), ops=listed(options, "ops")),
    )


class ChangeSource(DataSource):
    """The feed of changes of one branch: one row for each changed entity.

    Options: `path`; `branch`; `type` and `ops`, separated by commas. A stream knows `startingFrom`
    (`beginning`, which is the default, `now`, or a commit id, version, tag or moment) and
    `maxRowsPerTrigger`; a batch reads `changes`, which is `A..B`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return CHANGES_FORMAT

    def schema(self) -> str:
        """Return the columns."""
        return CHANGES

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the changes between two commits, pinned from now on."""
        return change_reader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what follows the feed."""
        return change_stream(self.options)


def change_reader(given: Mapping[str, str]) -> ChangeReader:
    """Return the reader of `changes=A..B`."""
    options = checked(given, [name for name in OPTIONS if name not in _OF_STREAMS])
    feed = feed_of(options)
    try:
        start, end = between(feed, options.get("changes", ".."))
    finally:
        feed.close()
    return ChangeReader(feed, start, end)


def change_stream(given: Mapping[str, str]) -> ChangeStreamReader:
    """Return the reader of a stream; `changes=A..` says where it starts, too."""
    options = checked(given, OPTIONS)
    start = options.get("startingfrom")
    if "changes" in options:
        first, _dots, last = options["changes"].partition("..")
        if last.strip() or start is not None:
            raise BadRequestError(
                "a stream has no end: give changes as 'A..'", hint="or give startingFrom alone"
            )
        start = first.strip() or BEGINNING
    rows_max = number(options, "maxRowsPerTrigger", SPARK_FEED_ROWS)
    return ChangeStreamReader(feed_of(options), start or BEGINNING, rows_max)


_OF_STREAMS = ("startingFrom", "maxRowsPerTrigger")


class ChangeReader(DataSourceReader):
    """Reads the changes between two places of the feed."""

    def __init__(self, feed: Feed, start: FeedPlace, end: FeedPlace) -> None:
        self._feed = feed
        self._start = start
        self._end = end

    def partitions(self) -> list[InputPartition]:
        """Return the tasks."""
        tasks = self._feed.tasks(self._start, self._end)
        self._feed.close()
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one task; Spark asks with None if there is none."""
        return iter(()) if partition.value is None else self._feed.read(partition.value)


class ChangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the feed; an offset is a place in it, and batches between two offsets are fixed."""

    def __init__(self, feed: Feed, start: str, rows_max: int) -> None:
        self._feed = feed
        self._from = start
        self._rows_max = rows_max
        self._until: FeedPlace | None = None

    def initialOffset(self) -> dict[str, object]:
        """Return where a new query starts."""
        return self._feed.named(self._from).offset()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how many rows one batch looks at."""
        return ReadMaxRows(self._rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the newest commit: this query ends there."""
        self._until = self._feed.head()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        """Return up to where the next batch reads."""
        rows_max = self._rows_max
        if isinstance(limit, ReadMaxRows):
            rows_max = limit.max_rows
        unlimited = isinstance(limit, ReadAllAvailable)
        place = self._feed.advance(
            FeedPlace.of(start), rows_max=None if unlimited else rows_max, until=self._until
        )
        return place.offset()

    def reportLatestOffset(self) -> dict[str, object]:
        """Return the newest place there is."""
        return self._feed.head().offset()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[InputPartition]:
        """Return the tasks of the batch between two offsets."""
        tasks = self._feed.tasks(FeedPlace.of(start), FeedPlace.of(end))
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one task."""
        return self._feed.read(partition.value)

    def stop(self) -> None:
        """Close the graph."""
        self._feed.close()
