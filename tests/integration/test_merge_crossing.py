"""Merging after merges that crossed: several best common ancestors, none above another."""

from __future__ import annotations

import json
from typing import Any

import pytest

import omnigraph as og
from tests.integration.helpers import NewGraph
from tests.integration.merging import listed

SCHEMA = """\
node Item {
    slug: String @key
    a: I32?
    b: I32?
}

edge Link: Item -> Item {
    v: I32?
}
"""

Row = tuple[int | None, int | None]


def put(graph: og.Graph, branch: str, **rows: Row) -> None:
    items = [{"type": "Item", "data": {"slug": s, "a": a, "b": b}} for s, (a, b) in rows.items()]
    graph.load(items, mode="merge", branch=branch)


def drop(graph: og.Graph, branch: str, slug: str) -> None:
    text = "query q($s: String) { delete Item where slug = $s }"
    graph.mutate(text, {"s": slug}, branch=branch)


def link(graph: og.Graph, branch: str, source: str, target: str, v: int) -> None:
    row = {"edge": "Link", "from": source, "to": target, "data": {"id": "e", "v": v}}
    graph.load([row], mode="merge", branch=branch)


def rows(graph: og.Graph, branch: str = "main") -> dict[str, Row]:
    found = graph.export(branch=branch, types=["Item"])
    assert not isinstance(found, int)
    data: list[Any] = [row["data"] for row in found]
    return {row["slug"]: (row["a"], row["b"]) for row in data}


def cross(graph: og.Graph, one: str, other: str, first: Any = None, second: Any = None) -> None:
    """Merge two branches into each other, each at the head it had before either merge.

    `first` and `second` decide the conflicts of the merges into `one` and into `other`.
    """
    graph.branches.create("old", from_=other)
    graph.branches.merge(one, other, **(second or {}))
    graph.branches.merge("old", one, delete_source=True, **(first or {}))


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    found = new_graph(SCHEMA)
    put(found, "main", r=(0, 0), s=(0, 0))
    found.branches.create("x")
    return found


def test_what_was_deleted_or_set_back_after_crossing_merges_stays_so(graph: og.Graph) -> None:
    put(graph, "x", r=(1, 0), x1=(1, 1))
    put(graph, "main", s=(1, 0), m1=(1, 1))
    cross(graph, "main", "x")
    assert rows(graph) == rows(graph, "x")
    drop(graph, "main", "x1")
    put(graph, "main", r=(0, 0))
    drop(graph, "x", "m1")
    put(graph, "x", s=(0, 0))
    graph.branches.merge("x")
    assert rows(graph) == {"r": (0, 0), "s": (0, 0)}
    graph.branches.merge("main", "x")
    assert rows(graph, "x") == rows(graph)


def test_a_plan_names_every_commit_it_starts_from(graph: og.Graph) -> None:
    put(graph, "x", r=(1, 0))
    put(graph, "main", s=(1, 0))
    heads = {graph.commits.head(name).graph_commit_id for name in ("main", "x")}
    cross(graph, "main", "x")
    plan = graph.branches.merge_plan("x")
    assert (set(plan.base_commit_ids), plan.base_commit_id) == (heads, None)
    assert plan.to_json()["base_commit_ids"] == list(plan.base_commit_ids)
    assert plan.is_clean
    assert plan.changes == ()
    graph.branches.merge("x")
    assert graph.branches.merge_plan("main", "x").base_commit_id is not None


def test_crossing_twice_looks_back_to_the_base_of_the_bases(graph: og.Graph) -> None:
    for number in range(4):
        put(graph, "x", r=(number + 1, 0), **{f"x{number}": (0, 0)})
        put(graph, "main", s=(0, number + 1), **{f"m{number}": (0, 0)})
        cross(graph, "main", "x")
    for number in range(4):
        drop(graph, "main", f"x{number}")
        drop(graph, "x", f"m{number}")
    put(graph, "main", r=(0, 0))
    put(graph, "x", s=(0, 0))
    graph.branches.merge("x")
    assert rows(graph) == {"r": (0, 0), "s": (0, 0)}


def test_three_branches_that_merged_each_other_at_once(graph: og.Graph) -> None:
    graph.branches.create("y")
    names = ("main", "x", "y")
    for name in names:
        put(graph, name, **{f"of_{name}": (1, 1)})
        graph.branches.create(f"old_{name}", from_=name)
    for name in names:
        for other in names:
            if other != name:
                graph.branches.merge(f"old_{other}", name)
    for name in names:
        graph.branches.delete(f"old_{name}")
    drop(graph, "main", "of_x")
    drop(graph, "x", "of_y")
    drop(graph, "y", "of_main")
    assert len(graph.branches.merge_plan("x").base_commit_ids) == 3
    graph.branches.merge("x")
    graph.branches.merge("y")
    assert rows(graph) == {"r": (0, 0), "s": (0, 0)}


# ---- undefined values of the base ---------------------------------------------------------


def parted(graph: og.Graph, first: Any, second: Any) -> og.Graph:
    """Change one value on both sides, merge crosswise and decide it as told."""
    put(graph, "x", r=(1, 0))
    put(graph, "main", r=(2, 0))
    cross(graph, "main", "x", {"resolve": first}, {"resolve": second})
    return graph


def test_sides_that_decided_alike_agree(graph: og.Graph) -> None:
    parted(graph, "ours", "theirs")
    put(graph, "main", s=(5, 0))
    put(graph, "x", t=(5, 0))
    graph.branches.merge("x")
    assert rows(graph) == {"r": (2, 0), "s": (5, 0), "t": (5, 0)}


@pytest.mark.parametrize("property_merge", [False, True])
def test_sides_that_decided_differently_conflict(graph: og.Graph, property_merge: bool) -> None:
    parted(graph, "ours", "ours")
    with pytest.raises(og.MergeConflictError) as error:
        graph.branches.merge("x", property_merge=property_merge)
    assert listed(error.value.conflicts) == [("node:Item", "r", "divergent_update")]
    (conflict,) = graph.branches.merge_plan("x").conflicts
    assert conflict.base is not None
    assert conflict.base["data"] == {"id": "r", "slug": "r", "b": 0}
    json.dumps(conflict.to_review())


@pytest.mark.parametrize(
    ("decision", "wanted"), [("ours", (2, 0)), ("theirs", (1, 0)), ({"Item/r": {"a": 9}}, (9, 0))]
)
def test_a_conflict_over_an_undefined_value_can_be_decided(
    graph: og.Graph, decision: Any, wanted: Row
) -> None:
    parted(graph, "ours", "ours")
    graph.branches.merge("x", resolve=decision)
    assert rows(graph)["r"] == wanted
    graph.branches.merge("main", "x")
    assert rows(graph, "x")["r"] == wanted


def test_other_properties_are_joined_around_an_agreed_undefined_value(graph: og.Graph) -> None:
    parted(graph, "ours", "theirs")
    put(graph, "main", r=(2, 5))
    graph.branches.merge("x")
    assert rows(graph)["r"] == (2, 5)
    put(graph, "x", r=(7, 0))
    graph.branches.merge("x", property_merge=True)
    assert rows(graph)["r"] == (7, 5)


def test_a_row_kept_here_and_dropped_there_is_a_conflict(graph: og.Graph) -> None:
    drop(graph, "x", "r")
    put(graph, "main", r=(2, 0))
    cross(graph, "main", "x", {"resolve": "ours"}, {"resolve": "ours"})
    with pytest.raises(og.MergeConflictError) as error:
        graph.branches.merge("x")
    assert listed(error.value.conflicts) == [("node:Item", "r", "delete_vs_update")]
    (conflict,) = graph.branches.merge_plan("x").conflicts
    assert (conflict.base, conflict.theirs) == (None, None)
    with pytest.raises(og.MergeConflictError):
        graph.branches.merge("main", "x")
    graph.branches.merge("x", resolve="theirs")
    assert rows(graph) == {"s": (0, 0)}


def test_a_row_dropped_on_both_sides_by_decision_stays_dropped(graph: og.Graph) -> None:
    drop(graph, "x", "r")
    put(graph, "main", r=(2, 0))
    cross(graph, "main", "x", {"resolve": "theirs"}, {"resolve": "ours"})
    put(graph, "x", s=(1, 1))
    graph.branches.merge("x")
    assert rows(graph) == {"s": (1, 1)}


def test_a_row_added_on_both_sides_and_decided_differently_is_a_conflict(graph: og.Graph) -> None:
    put(graph, "x", n=(1, 0))
    put(graph, "main", n=(2, 0))
    cross(graph, "main", "x", {"resolve": "ours"}, {"resolve": "ours"})
    with pytest.raises(og.MergeConflictError) as error:
        graph.branches.merge("x", property_merge=True)
    assert listed(error.value.conflicts) == [("node:Item", "n", "divergent_update")]


# ---- properties ---------------------------------------------------------------------------


def test_what_was_joined_on_both_sides_is_the_base(graph: og.Graph) -> None:
    put(graph, "x", r=(1, 0))
    put(graph, "main", r=(0, 1))
    cross(graph, "main", "x", {"property_merge": True}, {"property_merge": True})
    assert rows(graph)["r"] == rows(graph, "x")["r"] == (1, 1)
    put(graph, "x", r=(0, 1))
    graph.branches.merge("x")
    assert rows(graph)["r"] == (0, 1)


def test_two_rows_kept_whole_are_not_mixed_into_a_third(graph: og.Graph) -> None:
    """Each side kept its own row; neither wanted what property by property would come out."""
    put(graph, "x", r=(1, 0))
    put(graph, "main", r=(0, 1))
    cross(graph, "main", "x", {"resolve": "ours"}, {"resolve": "ours"})
    with pytest.raises(og.MergeConflictError) as error:
        graph.branches.merge("x", property_merge=True)
    assert listed(error.value.conflicts) == [("node:Item", "r", "divergent_update")]


def test_ends_of_edges_are_values_too(graph: og.Graph) -> None:
    link(graph, "main", "r", "s", 0)
    graph.branches.merge("main", "x")
    link(graph, "x", "s", "s", 0)
    link(graph, "main", "r", "r", 0)
    cross(graph, "main", "x", {"resolve": "ours"}, {"resolve": "ours"})
    (conflict,) = graph.branches.merge_plan("x", property_merge=True).conflicts
    assert (conflict.entity_id, conflict.kind) == ("e", "divergent_update")
    assert conflict.base is not None
    assert not {"from", "to"} & conflict.base.keys()
    graph.branches.merge("x", resolve="theirs")


# ---- histories that are partly gone -------------------------------------------------------


def test_a_crossing_through_deleted_branches_is_seen(graph: og.Graph) -> None:
    graph.branches.create("y")
    put(graph, "x", x1=(1, 1))
    put(graph, "main", m1=(1, 1))
    # The branches main and y get both changes through are gone before they meet.
    graph.branches.create("copy_x", from_="x")
    graph.branches.create("copy_main")
    graph.branches.merge("copy_main", "y", delete_source=True)
    graph.branches.merge("copy_x", "y", delete_source=True)
    graph.branches.merge("x", delete_source=True)
    drop(graph, "main", "x1")
    drop(graph, "y", "m1")
    with og.open(graph.uri) as cold:
        cold.branches.merge("y")
        assert rows(cold) == {"r": (0, 0), "s": (0, 0)}


def test_cleanup_keeps_every_state_that_a_merge_looks_back_to(graph: og.Graph) -> None:
    put(graph, "x", r=(1, 0), x1=(1, 1))
    put(graph, "main", s=(1, 0), m1=(1, 1))
    cross(graph, "main", "x")
    drop(graph, "main", "x1")
    drop(graph, "x", "m1")
    put(graph, "main", r=(0, 0))
    graph.cleanup(keep=1, grace=0, dry_run=False)
    with og.open(graph.uri) as cold:
        cold.branches.merge("x")
        assert rows(cold) == {"r": (0, 0), "s": (1, 0)}


def test_a_revert_and_a_pick_between_crossing_merges_count_as_changes(graph: og.Graph) -> None:
    put(graph, "x", r=(1, 0))
    done = graph.commits.head("x").graph_commit_id
    put(graph, "main", s=(1, 0))
    other = graph.commits.head().graph_commit_id
    cross(graph, "main", "x")
    graph.branches.revert(done)
    graph.branches.revert(other, "x")
    graph.tags.create("here", branch="x")
    graph.branches.merge("x")
    assert rows(graph) == {"r": (0, 0), "s": (0, 0)}
    graph.branches.cherry_pick(done, "x")
    graph.branches.merge("x")
    assert rows(graph)["s"] == (0, 0)
