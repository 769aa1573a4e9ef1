"""What a client gets of a served graph is what the embedded handle returns, field by field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import omnigraph as og
from tests.server.helpers import ADD, LINES, SCHEMA, Serve

AnyGraph = Any
WIDER = SCHEMA.replace("title: String @key", "title: String @key\n    year: I32?")


@pytest.fixture(scope="module")
def both(serve: Serve) -> Iterator[tuple[AnyGraph, AnyGraph]]:
    """The same graph, embedded and served, with a history that sets every field of a commit."""
    api = serve()
    with og.open(api.store, durability="none", actor="act-lena") as graph:
        graph.load(LINES.encode(), mode="append", operation_id="first")
        graph.branches.create("work")
        graph.mutate(ADD, {"n": "eve"}, branch="work", operation_id="on-work")
        graph.mutate(ADD, {"n": "zoe"})
        graph.tags.create("v1", branch="work")
        graph.branches.merge("work")
        with og.connect(api.url) as remote:
            yield graph, remote


def same(embedded: msgspec.Struct, remote: msgspec.Struct) -> None:
    """Check that two values are of one class and agree in every field."""
    assert type(remote) is type(embedded)
    assert msgspec.structs.asdict(remote) == msgspec.structs.asdict(embedded)


def test_commits_are_equal_field_by_field(both: tuple[AnyGraph, AnyGraph]) -> None:
    graph, remote = both
    commits = graph.commits.list()
    assert any(item.merged_branch for item in commits)
    assert any(item.operation_id == "first" for item in commits)
    assert all(item.schema_hash for item in commits)
    for mine, theirs in zip(commits, remote.commits.list(), strict=True):
        same(mine, theirs)
        same(mine, remote.commits.get(mine.graph_commit_id))
    same(graph.commits.head(), remote.commits.head())
    same(graph.commits.last_change("Person", "eve"), remote.commits.last_change("Person", "eve"))


def test_details_of_branches_are_equal_field_by_field(both: tuple[AnyGraph, AnyGraph]) -> None:
    graph, remote = both
    main, work = graph.branches.details()
    assert (main.name, work.name, work.parent) == ("main", "work", "main")
    assert work.forked_at > 0
    assert work.created_at is not None
    for mine, theirs in zip((main, work), remote.branches.details(), strict=True):
        same(mine, theirs)
        assert mine.id == theirs.id


def test_a_branch_that_was_made_is_told_of_in_full(both: tuple[AnyGraph, AnyGraph]) -> None:
    graph, remote = both
    made = remote.branches.create("more")
    same(next(item for item in graph.branches.details() if item.name == "more"), made)
    remote.branches.delete("more")


@pytest.mark.parametrize(
    "ask",
    [
        lambda graph: graph.tags.list()[0],
        lambda graph: graph.diff("main@2", "main"),
        lambda graph: graph.commits.changes(graph.commits.list()[-2].graph_commit_id),
        lambda graph: graph.feed.poll("beginning"),
        lambda graph: graph.branches.merge_plan("work"),
        lambda graph: graph.branches.merge("work"),
    ],
    ids=["tag", "diff", "changes", "feed", "plan", "merge"],
)
def test_other_values_are_equal_field_by_field(
    both: tuple[AnyGraph, AnyGraph], ask: Callable[[AnyGraph], Any]
) -> None:
    graph, remote = both
    alike(ask(graph), ask(remote))


def alike(mine: msgspec.Struct, theirs: msgspec.Struct) -> None:
    """Check that two values agree in all but what a call cost and whom the token stands for."""
    assert type(theirs) is type(mine)
    for name in msgspec.structs.asdict(mine).keys() - {"io", "actor_id"}:
        assert getattr(theirs, name) == getattr(mine, name), name


@pytest.mark.parametrize(
    "write",
    [
        lambda graph, key: graph.mutate(ADD, {"n": "uma"}, operation_id=key),
        lambda graph, key: graph.load(LINES.encode(), mode="merge", operation_id=key),
    ],
    ids=["mutation", "load"],
)
def test_repeated_writes_are_equal_field_by_field(
    serve: Serve, write: Callable[[AnyGraph, str], Any]
) -> None:
    api = serve()
    with og.connect(api.url) as remote, og.open(api.store, durability="none") as graph:
        made = write(remote, "of-a-client").commit
        again = write(remote, "of-a-client")
        assert again.repeated
        assert again.commit == made
        assert made.operation_id == "of-a-client"
        found = write(graph, graph.commits.get(made.graph_commit_id).operation_id)
        assert found.repeated
        alike(type(found).from_json(found.to_json()), again)


def test_a_snapshot_tells_of_the_same_tables(both: tuple[AnyGraph, AnyGraph]) -> None:
    graph, remote = both
    mine, theirs = graph.snapshot(), remote.snapshot()
    same(mine.commit, theirs.commit)
    assert theirs.to_json() == mine.to_json()
    for key, pin in mine.tables.items():
        found = theirs.tables[key]
        assert (found.path, found.version, found.row_count) == (
            pin.path,
            pin.version,
            pin.row_count,
        )
        assert found.table_branch == pin.table_branch


def test_a_planned_schema_change_says_the_same(both: tuple[AnyGraph, AnyGraph]) -> None:
    graph, remote = both
    mine, theirs = graph.schema.plan(WIDER), remote.schema.plan(WIDER)
    assert type(theirs) is type(mine)
    assert theirs.render() == mine.render()
    assert (theirs.rows, theirs.notes) == (mine.rows, mine.notes)
    assert theirs.to_json() | {"uri": ""} == mine.to_json() | {"uri": ""}
