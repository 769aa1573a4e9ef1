"""Graphs as a Spark data source: `spark.read.format("omnigraph")`, and the feed of changes.

`register` makes the formats known to a session. The classes are found by name in the workers, so
the package must be installed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    SimpleDataSourceStreamReader,
    StringStartsWith,
)

from omnigraph.catalog import Entity, Scalar
from omnigraph.errors import BadRequestError
from omnigraph.graph import open_graph
from omnigraph.limits import FEED_CHANGES_MAX
from omnigraph.spark.columns import image_text
from omnigraph.spark.frames import Scan, scan
from omnigraph.store import quoted

FORMAT = "omnigraph"
CHANGES_FORMAT = "omnigraph_changes"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
CHANGES = (
    "commit string, authored_at long, actor string, op string, kind string, type string, "
    "id string, before string, after string"
)
_COMPARED = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_PLAIN = {Scalar.STRING, Scalar.BOOL, Scalar.I32, Scalar.I64, Scalar.U32, Scalar.F64}


def register(session: Any) -> None:
    """Make the formats known to a session, and let it hand filters down."""
    session.dataSource.register(GraphSource)
    session.dataSource.register(ChangeSource)
    session.conf.set(PUSHDOWN, "true")


def _checked(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return options without secrets: Spark shows them in plans and logs."""
    for name in options:
        if "secret" in name.lower() or name.lower().startswith(("aws_", "storage")):
            raise BadRequestError(
                f"'{name}' is no option of this format: plans and logs show options",
                hint="set AWS_* variables for Spark, or use omnigraph.spark.read",
            )
    return options


def _needed(options: Mapping[str, str], name: str) -> str:
    found = options.get(name)
    if not found:
        raise BadRequestError(f"the option '{name}' is missing")
    return found


class GraphSource(DataSource):
    """One type of one state of a graph.

    Options: `path` and `type`; `branch`; one of `versionAsOf` (a graph version or a commit id),
    `timestampAsOf` and `tag`; `columns`, separated by commas, because Spark does not tell a
    source which columns it needs.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns."""
        return self._scan().ddl

    def reader(self, schema: Any) -> DataSourceReader:
        """Return what reads the state the options name, pinned from now on."""
        return GraphReader(self._scan())

    def _scan(self) -> Scan:
        options = _checked(self.options)
        version, commit = options.get("versionAsOf"), None
        if version is not None and not version.isdigit():
            version, commit = None, version
        columns = options.get("columns")
        with open_graph(_needed(options, "path"), mode="ro") as graph:
            snapshot = graph.snapshot(
                options.get("branch"),
                commit=commit,
                version=None if version is None else int(version),
                tag=options.get("tag"),
                timestamp=options.get("timestampAsOf"),
            )
            wanted = None if columns is None else [item.strip() for item in columns.split(",")]
            return scan(graph, snapshot, _needed(options, "type"), wanted)


class GraphReader(DataSourceReader):
    """Reads one scan, task by task; filters that Lance understands are applied there."""

    def __init__(self, plan: Scan) -> None:
        self._plan = plan
        self._where: list[str] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take over filters; return those that are left to Spark."""
        for item in filters:
            found = _condition(self._plan.entity, item)
            if found is None:
                yield item
            else:
                self._where.append(found)

    def partitions(self) -> list[InputPartition]:
        """Return one task per group of fragments."""
        return [InputPartition(number) for number in range(len(self._plan.groups))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the batches of one task."""
        return self._plan.read(partition.value, " AND ".join(self._where) or None)


def _condition(entity: Entity, item: Filter) -> str | None:
    """Return a filter as Lance writes it, None if it is not surely the same there."""
    path: tuple[str, ...] = getattr(item, "attribute", ())
    if len(path) != 1:
        return None
    name = path[0]
    declared = entity.properties.get(name)
    if declared is not None and (declared.type.is_list or declared.type.scalar not in _PLAIN):
        return None
    column = f"`{name}`"
    if isinstance(item, IsNull):
        return f"{column} IS NULL"
    if isinstance(item, IsNotNull):
        return f"{column} IS NOT NULL"
    if isinstance(item, In):
        values = [_literal(value) for value in item.value]
        known = [value for value in values if value is not None]
        return f"{column} IN ({', '.join(known)})" if len(known) == len(values) else None
    if isinstance(item, StringStartsWith):
        return f"starts_with({column}, {quoted(item.value)})"
    sign = _COMPARED.get(type(item))
    value = _literal(getattr(item, "value", None))
    return None if sign is None or value is None else f"{column} {sign} {value}"


def _literal(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, int | float):
        return repr(value)
    return None


class ChangeSource(DataSource):
    """The feed of changes of one branch, as a stream: one row for each changed entity.

    Options: `path`; `branch`; `type`; `startingFrom` (`beginning`, which is the default, `now` or
    a commit id).
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return CHANGES_FORMAT

    def schema(self) -> str:
        """Return the columns."""
        return CHANGES

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        """Return what follows the feed."""
        _needed(_checked(self.options), "path")
        return ChangeReader({name: str(value) for name, value in self.options.items()})


class ChangeReader(SimpleDataSourceStreamReader):
    """Follows the feed; an offset is the last commit that was delivered whole."""

    def __init__(self, options: Mapping[str, str]) -> None:
        # Spark hands options on in lower case.
        self._options = {name.lower(): value for name, value in options.items()}
        self._branch = self._options.get("branch", "main")

    def initialOffset(self) -> dict[str, str]:
        """Return where a new query starts."""
        start = self._options.get("startingfrom", "beginning")
        if start == "now":
            with open_graph(self._options["path"], mode="ro") as graph:
                start = graph.snapshot(self._branch).commit.graph_commit_id
        return {"after": start}

    def read(self, start: dict[str, str]) -> tuple[Iterator[tuple[Any, ...]], dict[str, str]]:
        """Return what changed since an offset, and the next offset."""
        rows, after = self._between(start["after"], None)
        return iter(rows), {"after": after}

    def readBetweenOffsets(
        self, start: dict[str, str], end: dict[str, str]
    ) -> Iterator[tuple[Any, ...]]:
        """Return the same rows again, for a query that is repeated."""
        rows, _after = self._between(start["after"], end["after"])
        return iter(rows)

    def _between(self, after: str, end: str | None) -> tuple[list[tuple[Any, ...]], str]:
        rows: list[tuple[Any, ...]] = []
        if after == end:
            return rows, after
        first = after if after == "beginning" else f"after:{after}"
        types = [self._options["type"]] if "type" in self._options else []
        with open_graph(self._options["path"], mode="ro") as graph:
            page = None
            while True:
                page = graph.feed.poll(
                    first,
                    cursor=None if page is None else page.cursor,
                    page_token=None if page is None else page.next_page_token,
                    branch=self._branch,
                    limit=FEED_CHANGES_MAX,
                    types=types,
                )
                for block in page.blocks:
                    if end is not None and after == end:
                        return rows, after
                    rows += _rows(block)
                    after = block.commit.graph_commit_id
                if page.caught_up or (end is None and page.cursor is not None and rows):
                    return rows, after


def _rows(block: Any) -> list[tuple[Any, ...]]:
    commit = block.commit
    return [
        (
            commit.graph_commit_id,
            commit.created_at_us,
            commit.actor_id,
            item.op,
            item.kind,
            item.type_name,
            item.id,
            image_text(item.before),
            image_text(item.after),
        )
        for item in block.changes
    ]
