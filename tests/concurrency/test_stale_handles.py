"""A handle that has not looked for a while: strict writes refuse, others prepare again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commits import Publisher
from omnigraph.ops.compact_tail import TailCompaction
from tests.faults.rig import (
    ADD,
    ADD_FIRM,
    DROP,
    HIRE,
    MEET,
    NAME,
    assert_sound,
    new_graph,
    state_of,
)
from tests.places import AnyPath


@pytest.fixture
def root(place: AnyPath) -> AnyPath:
    found = place / "graph"
    new_graph(found)
    return found


@pytest.fixture
def stale(root: AnyPath) -> Iterator[og.Graph]:
    with og.open(root, durability="none") as found:
        yield found


@pytest.fixture
def other(root: AnyPath, stale: og.Graph) -> Iterator[og.Graph]:
    """A handle opened after the stale one."""
    with og.open(root, durability="none") as found:
        yield found


def write_until_folded(graph: og.Graph) -> None:
    """Make one-row commits until a fold commit is the head."""
    for number in range(80):
        graph.mutate(ADD, {"s": f"tail{number}"})
        if graph.commits.head().kind == "optimize":
            return
    pytest.fail("no fold happened")


@pytest.mark.full_only
def test_a_strict_write_passes_over_maintenance(root: AnyPath) -> None:
    """W-19: the only thing that happened to the table is a fold."""
    with og.open(root, durability="none") as writer:
        for number in range(30):
            writer.mutate(ADD, {"s": f"tail{number}"})
        folding = TailCompaction(writer._engine.lines.main.writer)
        before = writer.commits.head()
        with og.open(root, durability="none") as stale:
            person = writer.catalog.nodes["Person"]
            assert folding._compact(writer._engine.schema, person, overdue=False) == 1
            assert writer.commits.head().kind == "optimize"
            assert writer.commits.head().parent_commit_id == before.graph_commit_id
            stale.mutate(DROP, {"s": "tail3"})
            stale.mutate(NAME, {"s": "tail4", "n": "x"})
    assert_sound(root)


def test_a_strict_write_refuses_after_a_change_and_works_after_sync(
    root: AnyPath, stale: og.Graph, other: og.Graph
) -> None:
    """W-20: update and delete."""
    other.mutate(ADD, {"s": "foreign"})
    for query, params in ((NAME, {"s": "p1", "n": "x"}), (DROP, {"s": "p1"})):
        with pytest.raises(og.VersionConflictError):
            stale.mutate(query, params)
    assert_sound(root)
    stale.refresh("main")
    stale.mutate(NAME, {"s": "p1", "n": "x"})
    other.refresh("main")
    other.mutate(DROP, {"s": "p1"})
    found = assert_sound(root)
    assert "p1" not in found.ids["node:Person"]
    assert "foreign" in found.ids["node:Person"]


@pytest.mark.full_only
def test_a_fold_after_a_change_does_not_hide_the_change(
    root: AnyPath, stale: og.Graph, other: og.Graph
) -> None:
    write_until_folded(other)
    with pytest.raises(og.VersionConflictError):
        stale.mutate(NAME, {"s": "p1", "n": "x"})
    stale.refresh("main")
    stale.mutate(NAME, {"s": "p1", "n": "x"})
    assert_sound(root)


def test_a_snapshot_is_a_look(stale: og.Graph, other: og.Graph) -> None:
    other.mutate(ADD, {"s": "foreign"})
    stale.snapshot()
    assert stale.mutate(NAME, {"s": "p1", "n": "x"}).affected_nodes == 1


def test_looking_at_the_past_is_no_look(stale: og.Graph, other: og.Graph) -> None:
    other.mutate(ADD, {"s": "foreign"})
    stale.snapshot(version=2)
    with pytest.raises(og.VersionConflictError):
        stale.mutate(NAME, {"s": "p1", "n": "x"})


def test_a_change_of_another_table_does_not_disturb_a_strict_write(
    root: AnyPath, stale: og.Graph, other: og.Graph
) -> None:
    other.mutate(ADD_FIRM, {"s": "foreign"})
    stale.mutate(NAME, {"s": "p1", "n": "x"})
    assert_sound(root)


def test_a_strict_overwrite_refuses_after_a_change(stale: og.Graph, other: og.Graph) -> None:
    rows = [{"edge": "Knows", "from": "p1", "to": "p2", "data": {"id": "only"}}]
    other.mutate(MEET, {"i": "e", "a": "p1", "b": "p2"})
    with pytest.raises(og.VersionConflictError):
        stale.load(rows, mode="overwrite")
    stale.refresh("main")
    stale.load(rows, mode="overwrite")


def test_a_cascade_refuses_when_the_edges_it_would_take_have_changed(
    root: AnyPath, stale: og.Graph, other: og.Graph
) -> None:
    other.mutate(MEET, {"i": "e", "a": "p0", "b": "p5"})
    with pytest.raises(og.VersionConflictError):
        stale.mutate(DROP, {"s": "p0"})
    stale.refresh("main")
    stale.mutate(DROP, {"s": "p0"})
    assert_sound(root)


def test_a_stale_insert_prepares_again_and_both_rows_stay(
    root: AnyPath, stale: og.Graph, other: og.Graph
) -> None:
    """W-21."""
    first = other.mutate(ADD, {"s": "theirs"}).commit
    second = stale.mutate(ADD, {"s": "mine"}).commit
    assert first is not None
    assert second is not None
    assert second.parent_commit_id == first.graph_commit_id
    assert {"mine", "theirs"} <= set(assert_sound(root).ids["node:Person"])


def test_a_stale_handle_cannot_exceed_a_cardinality(
    root: AnyPath, stale: og.Graph, other: og.Graph
) -> None:
    """W-22: p0 works for f0; two firms are the limit."""
    other.mutate(HIRE, {"i": "e1", "p": "p0", "f": "f1"})
    with pytest.raises(og.DataError, match="@card"):
        stale.mutate(HIRE, {"i": "e2", "p": "p0", "f": "f2"})
    assert_sound(root)


def test_a_stale_handle_cannot_repeat_a_unique_pair(
    root: AnyPath, stale: og.Graph, other: og.Graph
) -> None:
    other.mutate(HIRE, {"i": "e1", "p": "p4", "f": "f1"})
    with pytest.raises(og.DataError, match="@unique"):
        stale.mutate(HIRE, {"i": "e2", "p": "p4", "f": "f1"})
    assert_sound(root)


# ---- a writer parked between its validation and its commit --------------------------------


def park_before_publish(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]
) -> None:
    """Let something happen after the next write of a handle was validated and staged."""
    inner = Publisher.publish
    waiting = [meanwhile]

    def publish(self: Publisher, *args: Any, **kwargs: Any) -> Any:
        if self is graph._engine.lines.main.publisher and waiting:
            waiting.pop()()
        return inner(self, *args, **kwargs)

    monkeypatch.setattr(Publisher, "publish", publish)


def test_a_parked_edge_writer_does_not_outlive_its_endpoint(
    root: AnyPath, stale: og.Graph, other: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    park_before_publish(stale, monkeypatch, lambda: other.mutate(DROP, {"s": "p5"}))
    with pytest.raises(og.DataError, match="p5"):
        stale.mutate(MEET, {"i": "e", "a": "p4", "b": "p5"})
    assert_sound(root)


def test_a_parked_edge_writer_does_not_outlive_an_overwritten_endpoint(
    root: AnyPath, stale: og.Graph, other: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-23."""
    rows = [{"type": "Firm", "data": {"slug": "f0"}}]
    park_before_publish(stale, monkeypatch, lambda: other.load(rows, mode="overwrite"))
    with pytest.raises(og.DataError, match="f2"):
        stale.mutate(HIRE, {"i": "e", "p": "p4", "f": "f2"})
    assert_sound(root)


def test_a_parked_delete_does_not_leave_a_new_edge_behind(
    root: AnyPath, stale: og.Graph, other: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    park_before_publish(
        stale, monkeypatch, lambda: other.mutate(MEET, {"i": "e", "a": "p5", "b": "p4"})
    )
    # The node's own table did not change: the delete may be prepared again, or refuse.
    try:
        stale.mutate(DROP, {"s": "p5"})
    except og.VersionConflictError:
        assert "p5" in assert_sound(root).ids["node:Person"]
    assert_sound(root)


def test_a_parked_append_meets_the_key_that_came_first(
    root: AnyPath, stale: og.Graph, other: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    park_before_publish(stale, monkeypatch, lambda: other.mutate(ADD, {"s": "same"}))
    with pytest.raises(og.KeyConflictError):
        stale.load([{"type": "Person", "data": {"slug": "same"}}], mode="append")
    assert assert_sound(root).ids["node:Person"].count("same") == 1


def test_a_parked_strict_write_refuses(
    root: AnyPath, stale: og.Graph, other: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    park_before_publish(stale, monkeypatch, lambda: other.mutate(NAME, {"s": "p1", "n": "theirs"}))
    with pytest.raises(og.VersionConflictError):
        stale.mutate(NAME, {"s": "p1", "n": "mine"})
    assert "theirs" in state_of(other)[("Person", "p1")]
    assert_sound(root)


def test_an_expected_head_that_moves_while_the_write_is_parked_refuses(
    root: AnyPath, stale: og.Graph, other: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-24, also for a write that would change nothing."""
    head = stale.commits.head().graph_commit_id
    park_before_publish(stale, monkeypatch, lambda: other.mutate(ADD_FIRM, {"s": "f9"}))
    with pytest.raises(og.PreconditionFailedError) as refused:
        stale.mutate(ADD, {"s": "mine"}, expected_head=head)
    assert refused.value.expected == head
    assert refused.value.actual == other.commits.head().graph_commit_id
    with pytest.raises(og.PreconditionFailedError):
        stale.mutate(DROP, {"s": "nobody"}, expected_head=head)
    current = other.commits.head().graph_commit_id
    assert stale.mutate(DROP, {"s": "nobody"}, expected_head=current).commit is None
    assert stale.mutate(ADD, {"s": "mine"}, expected_head=current).commit is not None
    assert_sound(root)


@pytest.mark.full_only
def test_a_chain_of_expected_heads_is_not_broken_by_a_fold(root: AnyPath) -> None:
    with og.open(root, durability="none") as graph:
        head = graph.commits.head().graph_commit_id
        for number in range(40):
            made = graph.mutate(ADD, {"s": f"tail{number}"}, expected_head=head).commit
            assert made is not None
            head = made.graph_commit_id
