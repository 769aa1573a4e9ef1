"""Places in the feed of changes, and what lies between two of them as tasks.

A place names the last commit that was delivered whole and how many rows of the next one were. All
that lies between two places follows from published commits, which never change: a batch that is
repeated gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from omnigraph.bounded import BoundedCache
from omnigraph.commits import GraphCommit
from omnigraph.errors import BadRequestError
from omnigraph.graph import Session, open_graph
from omnigraph.graph.commit_steps import BEGINNING, CommitSteps
from omnigraph.graph.seam import commit_steps
from omnigraph.limits import (
    SPARK_FEED_COMMITS,
    SPARK_FEED_TASK_ROWS,
    SPARK_FEED_WHOLE_ROWS,
)
from omnigraph.ops.diff import ChangeFilter, EntityChange
from omnigraph.spark.columns import image_text
from omnigraph.spark.spans import Span, ordered_parts, span_changes
from omnigraph.store import Table

CHANGES = (
    "commit string, authored_at long, actor string, op string, kind string, type string, "
    "id string, before string, after string"
)
_SCHEMA = pa.schema(
    [
        (name, pa.int64() if kind == "long" else pa.string())
        for name, _, kind in (item.strip().partition(" ") for item in CHANGES.split(","))
    ]
)


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """Where a reader of the feed stands: after a commit, and after some rows of the next one."""

    after: str = BEGINNING
    row: int = 0

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> FeedPlace:
        """Return the place an offset of Spark names."""
        return cls(str(offset["after"]), int(offset.get("row", 0)))

    def offset(self) -> dict[str, object]:
        """Return the place as an offset of Spark."""
        return {"after": self.after, "row": self.row}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The commit that made changes, as rows of the feed tell it."""

    commit: str
    authored_at: int
    actor: str | None

    @classmethod
    def of(cls, commit: GraphCommit) -> Cause:
        """Return what rows tell of a commit."""
        return cls(
            commit=commit.graph_commit_id,
            authored_at=commit.created_at_us,
            actor=commit.actor_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedTask:
    """What one task reads: some commits whole, or a part of a large one; plain data."""

    commits: tuple[str, ...] = ()
    cause: Cause | None = None
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class _Work:
    """How much a commit has to tell: its tables, each from place 0 to its number of rows."""

    cause: Cause
    tables: tuple[Span, ...]

    @property
    def rows(self) -> int:
        return sum(table.stop for table in self.tables)

    def spans(self, start: int, stop: int) -> Iterator[Span]:
        """Yield the tables, cut to some rows of the commit."""
        at = 0
        for table in self.tables:
            first, last = max(start - at, 0), min(stop - at, table.stop)
            at += table.stop
            if first < last:
                yield replace(table, start=first, stop=last)


@dataclass(slots=True, kw_only=True)
class Feed:
    """The feed of one branch, opened when it is asked something; picklable until then."""

    path: str
    branch: str = "main"
    wanted: ChangeFilter = field(default_factory=ChangeFilter)
    task_rows: int = SPARK_FEED_TASK_ROWS
    _graph: Session | None = None
    _works: BoundedCache[str, _Work] | None = None

    def close(self) -> None:
        """Close the graph."""
        if self._graph is not None:
            self._graph.close()
        self._graph = self._works = None

    def steps(self) -> CommitSteps:
        """Return the commits of the branch."""
        if self._graph is None:
            self._graph = open_graph(self.path, mode="ro")
        return commit_steps(self._graph, self.branch)

    def head(self) -> FeedPlace:
        """Return the place after the newest commit."""
        return FeedPlace(self.steps().head())

    def named(self, name: str) -> FeedPlace:
        """Return the place after the commit that is named."""
        return FeedPlace(self.steps().named(name))

    def advance(
        self, start: FeedPlace, *, rows_max: int | None = None, until: FeedPlace | None = None
    ) -> FeedPlace:
        """Return the place to read up to: the newest, or as far as so many rows reach.

        A commit that touches few rows is never cut, so a single one may be larger than asked for.
        """
        place, room = start, rows_max
        for number, commit in enumerate(self._commits(start, until)):
            if room is None:
                place = FeedPlace(commit.graph_commit_id)
                continue
            if room <= 0 or number >= SPARK_FEED_COMMITS:
                return place
            rows = self._work(commit).rows
            if rows - place.row <= room or (place == start and rows <= SPARK_FEED_WHOLE_ROWS):
                room -= rows - place.row
                place = FeedPlace(commit.graph_commit_id)
            elif rows <= SPARK_FEED_WHOLE_ROWS:
                return place
            else:
                return FeedPlace(place.after, place.row + room)
        return place

    def tasks(self, start: FeedPlace, end: FeedPlace) -> list[FeedTask]:
        """Return what lies between two places; the same rows whenever it is asked."""
        tasks: list[FeedTask] = []
        held: list[str] = []
        held_rows, first = 0, start.row
        for commit, stop in self._covered(start, end):
            work = self._work(commit)
            rows = work.rows if stop is None else min(stop, work.rows)
            whole = first == 0 and stop is None and rows <= SPARK_FEED_WHOLE_ROWS
            if whole and rows:
                held.append(commit.graph_commit_id)
                held_rows += rows
            if held and (not whole or held_rows >= SPARK_FEED_WHOLE_ROWS):
                tasks.append(FeedTask(commits=tuple(held)))
                held, held_rows = [], 0
            if not whole:
                for at in range(first, rows, self.task_rows):
                    spans = tuple(work.spans(at, min(at + self.task_rows, rows)))
                    tasks.append(FeedTask(cause=work.cause, spans=spans))
            first = 0
        return [*tasks, FeedTask(commits=tuple(held))] if held else tasks

    def _covered(
        self, start: FeedPlace, end: FeedPlace
    ) -> Iterator[tuple[GraphCommit, int | None]]:
        """Yield the commits between two places; the last one with how far it is covered."""
        if start.after == end.after:
            if end.row > start.row:
                yield self.steps().after(start.after)[0], end.row
            return
        for commit in self._commits(start, end):
            yield commit, None
        if end.row:
            yield self.steps().after(end.after)[0], end.row

    def _commits(self, start: FeedPlace, until: FeedPlace | None) -> list[GraphCommit]:
        """Return the commits after a place, the one it is inside of included."""
        commits = self.steps().after(start.after)
        if until is None or start.after == until.after:
            return commits if until is None else []
        ids = [commit.graph_commit_id for commit in commits]
        if until.after not in ids:
            raise BadRequestError(
                f"commit '{until.after}' does not come after '{start.after}' "
                f"on branch '{self.branch}'"
            )
        return commits[: ids.index(until.after) + 1]

    def _work(self, commit: GraphCommit) -> _Work:
        if self._works is None:
            self._works = BoundedCache(2 * SPARK_FEED_COMMITS)
        work = self._works.get(commit.graph_commit_id)
        if work is None:
            work = _Work(Cause.of(commit), tuple(self._tables(commit)))
            self._works.put(commit.graph_commit_id, work)
        return work

    def _tables(self, commit: GraphCommit) -> Iterator[Span]:
        for step in self.steps().steps(commit, self.wanted):
            rows = step.touched
            if rows is None:
                rows = sum(part.rows for part in ordered_parts(step.before, step.after))
            if rows:
                yield Span(
                    entity=step.entity,
                    type_id=step.type_id,
                    before=_where(step.before),
                    after=_where(step.after),
                    descends=step.descends,
                    start=0,
                    stop=rows,
                )

    def read(self, task: FeedTask) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one task as batches."""
        if task.cause is not None:
            for span in task.spans:
                for changes in span_changes(span, self.wanted):
                    yield from _batches(task.cause, changes)
            return
        with open_graph(self.path, mode="ro") as graph:
            steps = commit_steps(graph, self.branch)
            for commit_id in task.commits:
                block = steps.block(commit_id, self.wanted)
                yield from _batches(Cause.of(block.commit), block.changes)


def _where(table: Table | None) -> tuple[str, int] | None:
    return None if table is None else (str(table.dataset.uri), table.version)


def _batches(cause: Cause, changes: Iterable[EntityChange]) -> Iterator[pa.RecordBatch]:
    rows = [
        (
            cause.commit,
            cause.authored_at,
            cause.actor,
            item.op,
            item.kind,
            item.type_name,
            item.id,
            image_text(item.before),
            image_text(item.after),
        )
        for item in changes
    ]
    if rows:
        columns = zip(*rows, strict=True)
        arrays = [
            pa.array(column, kind) for column, kind in zip(columns, _SCHEMA.types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def between(feed: Feed, text: str) -> tuple[FeedPlace, FeedPlace]:
    """Return the places that `A..B` names; without A from the beginning, without B to the newest.

    What A names is not told again; what B names is.
    """
    first, dots, last = text.partition("..")
    if not dots:
        raise BadRequestError(
            f"changes: expected A..B, got '{text}'",
            hint="A and B are commit ids, versions, tags or moments; each may be left out",
        )
    start = feed.named(first.strip() or BEGINNING)
    end = feed.named(last.strip()) if last.strip() else feed.head()
    return start, end
