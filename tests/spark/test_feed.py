"""The feed of changes as Spark reads it: exact between any two places, and again when repeated."""

from __future__ import annotations

import itertools
import json
import pickle
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

import omnigraph as og
from omnigraph.limits import SPARK_FEED_WHOLE_ROWS
from omnigraph.spark.change_source import ChangeSource, change_reader, change_stream
from omnigraph.spark.feed import Feed, FeedPlace, FeedTask
from tests.spark.worlds import NewGraph, world
from tests.together import run_together

SCHEMA = """\
node Person {
    name: String @key
    age: I32?
}

edge Knows: Person -> Person { since: Date? }
"""
Row = tuple[Any, ...]


def _people(count: int, *, start: int = 0, **data: Any) -> list[dict[str, Any]]:
    return [
        {"type": "Person", "data": {"name": f"p{n:07}", **data}}
        for n in range(start, start + count)
    ]


def _told(graph: og.Graph, branch: str = "main", **options: Any) -> list[Row]:
    """What the feed tells page by page, which is the oracle."""
    found: list[Row] = []
    token = cursor = None
    while True:
        page = graph.feed.poll(
            "beginning", cursor=cursor, page_token=token, branch=branch, limit=8_192, **options
        )
        found += [
            (
                block.commit.graph_commit_id,
                item.op,
                item.type_name,
                item.id,
                item.before,
                item.after,
            )
            for block in page.blocks
            for item in block.changes
        ]
        token, cursor = page.next_page_token, page.cursor or cursor
        if page.caught_up:
            return found


def _order(row: Row) -> tuple[str, ...]:
    return tuple(str(item) for item in row)


def _rows(batches: Iterator[Any]) -> list[Row]:
    found: list[Row] = []
    for batch in batches:
        for row in batch.to_pylist():
            images = [None if row[k] is None else json.loads(row[k]) for k in ("before", "after")]
            found.append((row["commit"], row["op"], row["type"], row["id"], *images))
    return found


def _sent(value: Any) -> Any:
    """Return what arrives in another process: readers and tasks are sent before they are used."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


def _stream(graph: og.Graph, **options: str) -> Any:
    return _sent(change_stream({"path": graph.uri, **options}))


def _batch(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
    tasks = [_sent(part) for part in reader.partitions(start, end)]
    return [row for task in tasks for row in _rows(reader.read(task))]


def _offsets(reader: Any, limit: Any) -> list[dict[str, Any]]:
    found = [reader.initialOffset()]
    while (following := reader.latestOffset(found[-1], limit)) != found[-1]:
        found.append(json.loads(json.dumps(following)))
    return found


def test_a_batch_of_a_large_commit_is_the_same_when_repeated(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.load(_people(20_000), mode="append")
    reader = _stream(graph)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    again = _stream(graph)
    assert len(_batch(again, start, end)) == 20_000
    assert sorted(_batch(reader, start, end), key=_order) == sorted(_told(graph), key=_order)


@pytest.mark.parametrize("limit", [ReadMaxRows(999), ReadMaxRows(7_000), ReadAllAvailable()])
def test_batches_tell_each_change_once_whatever_their_size(new_graph: NewGraph, limit: Any) -> None:
    graph = new_graph(SCHEMA)
    graph.load(_people(10), mode="append")
    graph.load(_people(20_000, age=1), mode="merge")
    graph.mutate('query q() { update Person set { age: 2 } where name = "p0000003" }')
    graph.optimize()
    graph.load(_people(9_000, start=5_000, age=3), mode="merge")
    graph.mutate("query q() { delete Person where age = 3 }")
    graph.load(_people(12_000, start=4_000), mode="overwrite")
    reader = _stream(graph)
    offsets = _offsets(reader, limit)
    told = _told(graph)
    if isinstance(limit, ReadMaxRows):
        # A cut in the middle of a commit is an ordinary place.
        assert any(offset["row"] for offset in offsets)
    found: list[Row] = []
    for start, end in itertools.pairwise(offsets):
        found += _batch(reader, start, end)
    assert sorted(found, key=_order) == sorted(told, key=_order)
    # A restarted query may read several batches as one.
    assert sorted(_batch(_stream(graph), offsets[0], offsets[-1]), key=_order) == sorted(
        told, key=_order
    )


def test_a_large_commit_is_read_in_many_tasks_each_at_the_cost_of_its_rows(
    new_graph: NewGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(SCHEMA)
    graph.load(_people(30_000), mode="append")
    feed = Feed(path=graph.uri, task_rows=5_000)
    tasks = feed.tasks(FeedPlace(), feed.head())
    assert len(tasks) == 6
    assert [task.spans[0].stop - task.spans[0].start for task in tasks] == [5_000] * 6
    assert [len(_rows(feed.read(task))) for task in tasks] == [5_000] * 6


def test_random_histories_are_told_as_the_feed_tells_them(new_graph: NewGraph) -> None:
    rng = random.Random(20)  # noqa: S311 - test data
    graph = new_graph()
    graph.load(world(rng, people=30), mode="append")
    for names in "qpqp":
        graph.load(world(rng, people=rng.randint(10, 40), names=names), mode="merge")
        graph.mutate(f'query q() {{ delete Person where name = "{names}{rng.randint(5, 9)}" }}')
    graph.load(world(rng, people=25), mode="overwrite")
    told = sorted(_told(graph), key=_order)
    feed = Feed(path=graph.uri, task_rows=7)
    steps = feed.steps()
    found: list[Row] = []
    for commit in steps.after("beginning"):
        work = feed._work(commit)
        # Small commits come whole; here they are cut all the same, to compare both ways.
        for at in range(0, work.rows, feed.task_rows):
            spans = tuple(work.spans(at, min(at + feed.task_rows, work.rows)))
            found += _rows(feed.read(FeedTask(cause=work.cause, spans=spans)))
    assert sorted(found, key=_order) == told
    whole = [row for task in feed.tasks(FeedPlace(), feed.head()) for row in _rows(feed.read(task))]
    assert sorted(whole, key=_order) == told


def test_changes_between_commits_tags_and_moments(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.load(_people(3), mode="append")
    first = graph.commits.head()
    graph.tags.create("one")
    graph.mutate('query q() { delete Person where name = "p0000001" }')
    second = graph.commits.head()
    graph.load(_people(1, start=9), mode="append")
    told = _told(graph)

    def read(changes: str, **options: str) -> list[Row]:
        reader = _sent(change_reader({"path": graph.uri, "changes": changes, **options}))
        return sorted(
            (row for part in reader.partitions() for row in _rows(reader.read(part))), key=_order
        )

    moment = second.created_at.isoformat()
    for name in (second.graph_commit_id, str(second.manifest_version), moment):
        assert read(f"one..{name}") == told[3:4], name
    assert read("..") == read("1999-01-01..now") == sorted(told, key=_order)
    assert read("..", ops="delete") == told[3:4]
    assert read("one..one") == []
    assert read(f"{first.graph_commit_id}..", type="Knows") == []
    with pytest.raises(og.BadRequestError, match=r"expected A\.\.B, got 'one'"):
        read("one")
    with pytest.raises(og.BadRequestError, match="does not come after"):
        read("now..one")
    with pytest.raises(og.NotFoundError, match="'tow' is not a branch, tag, commit id or version"):
        read("tow..")
    graph.branches.create("dev")
    graph.mutate('query q() { delete Person where name = "p0000002" }', branch="dev")
    elsewhere = graph.commits.head("dev").graph_commit_id
    with pytest.raises(og.BadRequestError, match="on branch 'main'"):
        read(f"..{elsewhere}")
    assert [row[1:4] for row in read("now..", branch="dev")] == []
    gone = [row[3] for row in read("one..", branch="dev", ops="delete")]
    assert sorted(gone) == ["p0000001", "p0000002"]


def test_a_stream_that_ends_reads_nothing_that_came_later(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.load(_people(3), mode="append")
    reader = _stream(graph, maxRowsPerTrigger="2")
    reader.prepareForTriggerAvailableNow()
    graph.load(_people(3, start=5), mode="append")
    offsets = _offsets(reader, reader.getDefaultReadLimit())
    found = [row[3] for pair in itertools.pairwise(offsets) for row in _batch(reader, *pair)]
    assert found == ["p0000000", "p0000001", "p0000002"]
    assert reader.reportLatestOffset() != offsets[-1]
    reader.stop()


def test_offsets_of_earlier_releases_still_name_a_place(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.load(_people(2), mode="append")
    after = graph.commits.head().graph_commit_id
    graph.load(_people(1, start=9), mode="append")
    reader = _stream(graph)
    end = reader.latestOffset({"after": after}, ReadAllAvailable())
    assert [row[3] for row in _batch(reader, {"after": after}, end)] == ["p0000009"]


def test_a_history_that_is_gone_is_said(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.load(_people(SPARK_FEED_WHOLE_ROWS + 1), mode="append")
    reader = _stream(graph)
    start = reader.initialOffset()
    for number in range(3):
        graph.load(_people(1, start=20_000 + number), mode="append")
    end = reader.latestOffset(start, ReadAllAvailable())
    graph.optimize()
    graph.cleanup(keep=1, older_than=0.0, grace=0.0, dry_run=False)
    with pytest.raises(og.ChangeFeedGapError):
        _stream(graph).partitions(start, end)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingForm": "now"}, "unknown option 'startingForm': did you mean 'startingFrom'?"),
        ({"size": "1"}, "unknown option 'size': there are branch, changes, maxRowsPerTrigger"),
        ({"maxRowsPerTrigger": "many"}, "maxRowsPerTrigger must be a number from 1 on"),
        ({"changes": "a..b"}, "a stream has no end"),
        ({"aws_secret_access_key": "x"}, "Spark shows options in plans and logs"),
    ],
)
def test_a_wrong_option_is_an_error(options: dict[str, str], message: str) -> None:
    with pytest.raises(og.BadRequestError, match=message.replace("?", r"\?")):
        ChangeSource({"path": "g", **options}).streamReader(StructType())


def test_commits_that_were_published_together_are_told_apart(tmp_path: Path) -> None:
    root = tmp_path / "together"
    with og.init(root, "node P { k: String @key }") as graph:
        add = "query add($k: String) { insert P { k: $k } }"
        jobs = [partial(graph.mutate, add, {"k": f"k{number}"}) for number in range(4)]
        answers = run_together(graph, jobs)
        assert len({item.commit.manifest_version for item in answers}) == 1
        wanted = [(item.commit.graph_commit_id, f"k{n}") for n, item in enumerate(answers)]
    feed = Feed(path=str(root))
    try:
        middle = FeedPlace(answers[1].commit.graph_commit_id)
        assert told(feed, FeedPlace(), feed.head()) == wanted
        assert told(feed, FeedPlace(), middle) == wanted[:2]
        assert told(feed, middle, feed.head()) == wanted[2:]
    finally:
        feed.close()


def told(feed: Feed, start: FeedPlace, end: FeedPlace) -> list[tuple[str, str]]:
    """Return the commit and the id of every change between two places."""
    rows = [
        row
        for task in feed.tasks(start, end)
        for batch in feed.read(task)
        for row in batch.to_pylist()
    ]
    return [(row["commit"], row["id"]) for row in rows]
