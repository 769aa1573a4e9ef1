"""Merging again and again, both ways, across several branches."""

from __future__ import annotations

import json

import pytest

import omnigraph as og
from tests.integration.helpers import NewGraph
from tests.integration.merging import SCHEMA, drop, listed, put, state


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    found = new_graph(SCHEMA)
    put(found, "main", a=0, b=0)
    found.branches.create("dev")
    return found


def values(graph: og.Graph, branch: str = "main") -> dict[str, int]:
    rows = [json.loads(row) for row in state(graph, branch).values()]
    return {row["data"]["slug"]: row["data"]["v"] for row in rows}


def test_merging_both_ways_in_turn(graph: og.Graph) -> None:
    for number in range(4):
        put(graph, "dev", a=number + 1)
        graph.branches.merge("dev")
        put(graph, "main", b=number + 1)
        graph.branches.merge("main", "dev")
        assert values(graph) == values(graph, "dev") == {"a": number + 1, "b": number + 1}


def test_what_was_deleted_after_a_merge_stays_deleted(graph: og.Graph) -> None:
    put(graph, "dev", c=1)
    graph.branches.merge("dev")
    drop(graph, "main", "c")
    put(graph, "dev", d=1)
    graph.branches.merge("dev")
    assert values(graph) == {"a": 0, "b": 0, "d": 1}


def test_a_decided_conflict_does_not_come_back(graph: og.Graph) -> None:
    put(graph, "dev", a=1)
    put(graph, "main", a=2)
    graph.branches.merge("dev", resolve="ours")
    put(graph, "dev", b=1)
    graph.branches.merge("dev")
    assert values(graph) == {"a": 2, "b": 1}
    graph.branches.merge("main", "dev")
    assert values(graph, "dev") == {"a": 2, "b": 1}


def test_a_change_travels_through_a_third_branch(graph: og.Graph) -> None:
    put(graph, "dev", a=1)
    graph.branches.create("third", from_="dev")
    put(graph, "third", b=1)
    graph.branches.merge("third")
    assert values(graph) == {"a": 1, "b": 1}
    assert graph.branches.merge("dev").outcome == "already_up_to_date"
    put(graph, "dev", a=5)
    put(graph, "main", a=6)
    with pytest.raises(og.MergeConflictError) as error:
        graph.branches.merge("dev")
    assert listed(error.value.conflicts) == [("node:Item", "a", "divergent_update")]


def test_merging_into_a_branch_that_shares_its_tables(graph: og.Graph) -> None:
    graph.branches.create("lazy")
    put(graph, "dev", a=1)
    assert graph.branches.merge("dev", "lazy").outcome == "fast_forward"
    assert values(graph, "lazy") == {"a": 1, "b": 0}
    graph.branches.delete("dev")
    with og.open(graph.uri, mode="ro") as cold:
        assert values(cold, "lazy") == {"a": 1, "b": 0}


def test_sides_that_did_the_same_agree(graph: og.Graph) -> None:
    for branch in ("dev", "main"):
        put(graph, branch, a=3, c=4)
        drop(graph, branch, "b")
    plan = graph.branches.merge_plan("dev")
    assert plan.is_clean
    assert plan.changes == ()
    assert graph.branches.merge("dev").outcome == "merged"
    assert values(graph) == {"a": 3, "c": 4}


def test_the_history_shows_where_branches_joined(graph: og.Graph) -> None:
    put(graph, "dev", a=1)
    dev = graph.commits.head("dev")
    main = graph.commits.head()
    done = graph.branches.merge("dev")
    assert done.commit is not None
    with og.open(graph.uri, mode="ro") as cold:
        found = cold.commits.get(done.commit.graph_commit_id)
        assert found == done.commit
        assert found.parent_commit_id == main.graph_commit_id
        assert found.merged_parent_commit_id == dev.graph_commit_id
        assert cold.commits.get(dev.graph_commit_id).branch == "dev"


def test_deleting_a_merged_branch_does_not_bring_rows_back(graph: og.Graph) -> None:
    graph.branches.create("other")
    put(graph, "dev", c=1)
    graph.branches.merge("dev")
    graph.branches.merge("dev", "other", delete_source=True)
    drop(graph, "main", "c")
    graph.branches.merge("other")
    assert values(graph) == {"a": 0, "b": 0}


def test_cleanup_keeps_a_deleted_branch_that_two_branches_have_in_common(graph: og.Graph) -> None:
    graph.branches.create("other")
    put(graph, "dev", c=1)
    graph.branches.merge("dev")
    graph.branches.merge("dev", "other", delete_source=True)
    drop(graph, "main", "c")
    graph.cleanup(keep=1, grace=0, dry_run=False)
    graph.branches.merge("other")
    assert values(graph) == {"a": 0, "b": 0}
    graph.branches.delete("other")
    assert graph._engine.lines.directory.retired() != []
    graph.cleanup(keep=1, grace=0, dry_run=False)
    assert graph._engine.lines.directory.retired() == []
    assert values(graph) == {"a": 0, "b": 0}


def test_a_change_that_came_through_two_deleted_branches_stays_deleted(graph: og.Graph) -> None:
    graph.branches.create("other")
    graph.branches.create("bridge")
    put(graph, "dev", c=1)
    graph.branches.merge("dev", "bridge")
    graph.branches.merge("dev", "other", delete_source=True)
    graph.branches.merge("bridge", delete_source=True)
    drop(graph, "main", "c")
    graph.cleanup(keep=1, grace=0, dry_run=False)
    with og.open(graph.uri) as cold:
        cold.branches.merge("other")
        assert values(cold) == {"a": 0, "b": 0}


def test_a_branch_made_from_a_branch_carries_what_main_knows_of_it(graph: og.Graph) -> None:
    put(graph, "dev", c=1)
    graph.branches.create("grown", from_="dev")
    put(graph, "grown", d=1)
    graph.branches.merge("grown", delete_source=True)
    drop(graph, "main", "c")
    graph.cleanup(keep=1, grace=0, dry_run=False)
    put(graph, "dev", e=1)
    graph.branches.merge("dev")
    assert values(graph) == {"a": 0, "b": 0, "d": 1, "e": 1}
