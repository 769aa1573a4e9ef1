"""One edge under two ids: added on both sides, or replaced, where `@unique` lets only one exist."""

from __future__ import annotations

from typing import Any

import pytest

import omnigraph as og
from tests.integration.helpers import NewGraph
from tests.integration.merging import listed

SCHEMA = """\
node Item {
    slug: String @key
    code: String? @unique
}

edge Link: Item -> Item {
    v: I32?
    w: I32?
    @unique(src, dst)
}

edge Dated: Item -> Item {
    day: I32?
    note: String?
    @unique(src, dst, day)
}

edge Loose: Item -> Item {
    v: I32?
}
"""


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    found = new_graph(SCHEMA)
    found.load([{"type": "Item", "data": {"slug": s}} for s in "abc"], mode="append")
    found.branches.create("dev")
    return found


def link(graph: og.Graph, branch: str, name: str, ends: str = "ab", **data: Any) -> None:
    kind = data.pop("kind", "Link")
    row = {"edge": kind, "from": ends[0], "to": ends[1], "data": {"id": name, **data}}
    graph.load([row], mode="merge", branch=branch)


def unlink(graph: og.Graph, branch: str, name: str) -> None:
    graph.mutate("query q($i: String) { delete Link where id = $i }", {"i": name}, branch=branch)


def links(graph: og.Graph, branch: str = "main", kind: str = "Link") -> dict[str, Any]:
    """Return what edges carry, by id."""
    rows = graph.export(branch=branch, types=[kind])
    assert not isinstance(rows, int)
    found: dict[str, Any] = {}
    for row in rows:
        data: Any = dict(row["data"])  # type: ignore[call-overload]
        name = data.pop("id")
        found[name] = (f"{row['from']}{row['to']}", *data.values())
    return found


def conflicts(graph: og.Graph, source: str = "dev", into: str = "main", **options: Any) -> Any:
    with pytest.raises(og.MergeConflictError) as error:
        graph.branches.merge(source, into, **options)
    plan = graph.branches.merge_plan(source, into, **options)
    assert listed(plan.conflicts) == listed(error.value.conflicts)
    return listed(error.value.conflicts)


# ---- added on both sides ------------------------------------------------------------------


def test_the_same_edge_added_on_both_sides_is_one_edge(graph: og.Graph) -> None:
    link(graph, "dev", "d", v=1)
    link(graph, "dev", "e", "bc", v=1)
    link(graph, "main", "m", v=1)
    added = graph.commits.head().graph_commit_id
    plan = graph.branches.merge_plan("dev")
    assert [(item["op"], item["id"]) for item in plan.changes] == [("insert", "e")]
    done = graph.branches.merge("dev")
    assert links(graph) == {"m": ("ab", 1, None), "e": ("bc", 1, None)}
    assert done.commit is not None
    changes = graph.commits.changes(done.commit.graph_commit_id).changes
    assert [(item.op, item.id) for item in changes] == [("insert", "e")]
    blamed = graph.commits.last_change("Link", "m")
    assert blamed is not None
    assert blamed.graph_commit_id == added
    assert links(graph, "dev").keys() == {"d", "e"}
    graph.branches.merge("main", "dev")
    assert links(graph, "dev") == links(graph)


@pytest.mark.parametrize(
    ("decision", "wanted"),
    [
        ("ours", (2, None)),
        ("theirs", (1, 5)),
        ({"Link/m": "theirs"}, (1, 5)),
        ({"Link/m": {"v": 7}}, (7, None)),
    ],
    ids=str,
)
def test_the_same_edge_with_other_values_is_a_conflict_that_can_be_decided(
    graph: og.Graph, decision: Any, wanted: Any
) -> None:
    link(graph, "dev", "d", v=1, w=5)
    link(graph, "main", "m", v=2)
    assert conflicts(graph) == [("edge:Link", "m", "divergent_insert")]
    (conflict,) = graph.branches.merge_plan("dev").conflicts
    images: list[Any] = [conflict.base, conflict.ours, conflict.theirs]
    assert [image and image["data"]["v"] for image in images] == [None, 2, 1]
    graph.branches.merge("dev", resolve=decision)
    assert links(graph) == {"m": ("ab", *wanted)}


def test_more_columns_than_the_ends_tell_edges_apart(graph: og.Graph) -> None:
    link(graph, "dev", "d1", kind="Dated", day=1, note="x")
    link(graph, "dev", "d2", kind="Dated", day=2)
    link(graph, "dev", "d3", kind="Dated")
    link(graph, "main", "m1", kind="Dated", day=1, note="x")
    link(graph, "main", "m3", kind="Dated")
    graph.branches.merge("dev")
    assert links(graph, kind="Dated").keys() == {"m1", "d2", "d3", "m3"}


def test_edges_that_may_exist_twice_stay_two(graph: og.Graph) -> None:
    link(graph, "dev", "d", kind="Loose", v=1)
    link(graph, "main", "m", kind="Loose", v=1)
    graph.branches.merge("dev")
    assert links(graph, kind="Loose").keys() == {"m", "d"}


def test_an_edge_moved_to_where_another_was_added_stays_a_violation(graph: og.Graph) -> None:
    link(graph, "main", "e", "bc")
    graph.branches.merge("main", "dev")
    link(graph, "dev", "d", "ab")
    link(graph, "main", "e", "ab")
    assert [kind for _, _, kind in conflicts(graph)] == ["unique_violation"]


def test_a_node_of_another_id_is_another_node(graph: og.Graph) -> None:
    for branch, slug in (("dev", "x"), ("main", "y")):
        row = {"type": "Item", "data": {"slug": slug, "code": "same"}}
        graph.load([row], mode="append", branch=branch)
    (found,) = conflicts(graph, resolve="theirs")
    assert (found[0], found[2]) == ("node:Item", "unique_violation")


# ---- merging on after that ----------------------------------------------------------------


@pytest.fixture
def joined(graph: og.Graph) -> og.Graph:
    """The edge is `m` on main and `d` on dev, and main has merged dev."""
    link(graph, "dev", "d", v=1)
    link(graph, "main", "m", v=1)
    graph.branches.merge("dev")
    return graph


def test_a_later_change_reaches_the_edge_under_its_other_id(joined: og.Graph) -> None:
    link(joined, "dev", "d", v=9)
    joined.branches.merge("dev")
    assert links(joined) == {"m": ("ab", 9, None)}
    joined.branches.merge("main", "dev")
    assert links(joined, "dev") == links(joined)


def test_a_later_change_on_the_other_side_reaches_it_too(joined: og.Graph) -> None:
    link(joined, "main", "m", v=9)
    joined.branches.merge("main", "dev")
    assert links(joined, "dev") == {"m": ("ab", 9, None)}


def test_changes_on_both_sides_are_a_conflict_or_joined(joined: og.Graph) -> None:
    link(joined, "dev", "d", v=9)
    link(joined, "main", "m", v=1, w=3)
    assert conflicts(joined) == [("edge:Link", "m", "divergent_update")]
    joined.branches.merge("dev", property_merge=True)
    assert links(joined) == {"m": ("ab", 9, 3)}


def test_deleting_it_is_never_lost_without_a_word(joined: og.Graph) -> None:
    """One side dropped the edge; the other holds it under an id that side never saw."""
    unlink(joined, "dev", "d")
    assert conflicts(joined) == [("edge:Link", "m", "delete_vs_update")]
    assert conflicts(joined, "main", "dev") == [("edge:Link", "m", "delete_vs_update")]
    joined.branches.merge("main", "dev", resolve="ours")
    assert links(joined, "dev") == {}
    joined.branches.merge("dev", resolve="theirs")
    assert links(joined) == {}


def test_deleting_it_here_and_changing_it_there_is_a_conflict(joined: og.Graph) -> None:
    unlink(joined, "main", "m")
    link(joined, "dev", "d", v=2)
    assert conflicts(joined) == [("edge:Link", "d", "delete_vs_update")]
    joined.branches.merge("dev", resolve="theirs")
    assert links(joined) == {"d": ("ab", 2, None)}


def test_an_edge_replaced_on_one_side_takes_the_change_of_the_other(graph: og.Graph) -> None:
    link(graph, "main", "e", v=1)
    graph.branches.merge("main", "dev")
    unlink(graph, "dev", "e")
    link(graph, "dev", "f", v=1)
    link(graph, "main", "e", v=1, w=4)
    graph.branches.create("copy")
    graph.branches.merge("dev", "copy")
    assert links(graph, "copy") == {"e": ("ab", 1, 4)}
    graph.branches.merge("main", "dev")
    assert links(graph, "dev") == {"f": ("ab", 1, 4)}


def test_an_edge_replaced_on_both_sides_is_one_edge(graph: og.Graph) -> None:
    link(graph, "main", "e", v=1)
    graph.branches.merge("main", "dev")
    for branch, name in (("dev", "f"), ("main", "g")):
        unlink(graph, branch, "e")
        link(graph, branch, name, v=2)
    graph.branches.merge("dev")
    assert links(graph) == {"g": ("ab", 2, None)}


def test_an_edge_replaced_while_the_other_side_slept_is_replaced_there(graph: og.Graph) -> None:
    link(graph, "main", "e", v=1)
    graph.branches.merge("main", "dev")
    unlink(graph, "dev", "e")
    link(graph, "dev", "f", v=2)
    graph.branches.merge("dev")
    assert links(graph) == {"f": ("ab", 2, None)}


# ---- after crossing merges ----------------------------------------------------------------


def crossed(graph: og.Graph, here: int = 1, there: int = 1) -> og.Graph:
    """Both branches took over the other's edge, so each kept its own id."""
    link(graph, "dev", "d", v=there)
    link(graph, "main", "m", v=here)
    graph.branches.create("old", from_="dev")
    graph.branches.merge("main", "dev", resolve="ours")
    graph.branches.merge("old", delete_source=True, resolve="ours")
    assert (list(links(graph)), list(links(graph, "dev"))) == (["m"], ["d"])
    return graph


def test_crossing_merges_do_not_lose_the_edge(graph: og.Graph) -> None:
    crossed(graph).branches.merge("dev")
    assert links(graph) == {"m": ("ab", 1, None)}
    graph.branches.merge("main", "dev")
    assert list(links(graph, "dev").values()) == [("ab", 1, None)]


@pytest.mark.parametrize("side", ["dev", "main"])
def test_a_change_after_crossing_merges_is_taken(graph: og.Graph, side: str) -> None:
    link(crossed(graph), side, "d" if side == "dev" else "m", v=3)
    graph.branches.merge("dev")
    assert links(graph) == {"m": ("ab", 3, None)}


@pytest.mark.parametrize("side", ["dev", "main"])
def test_a_deletion_after_crossing_merges_is_taken(graph: og.Graph, side: str) -> None:
    unlink(crossed(graph), side, "d" if side == "dev" else "m")
    graph.branches.merge("dev")
    assert links(graph) == {}


def test_changes_on_both_sides_after_crossing_merges_conflict(graph: og.Graph) -> None:
    link(crossed(graph), "dev", "d", v=3)
    link(graph, "main", "m", v=4)
    assert conflicts(graph) == [("edge:Link", "m", "divergent_update")]
    graph.branches.merge("dev", resolve="theirs")
    assert links(graph) == {"m": ("ab", 3, None)}


def test_an_edge_kept_with_other_values_on_each_side_stays_a_conflict(graph: og.Graph) -> None:
    crossed(graph, here=1, there=2)
    assert conflicts(graph) == [("edge:Link", "m", "divergent_update")]
    graph.branches.merge("dev", resolve="theirs")
    assert links(graph) == {"m": ("ab", 2, None)}


# ---- ids that both sides chose ------------------------------------------------------------


def test_an_id_given_to_two_edges_is_one_conflict_and_either_side_can_win(graph: og.Graph) -> None:
    link(graph, "dev", "x", "bc", v=1)
    link(graph, "dev", "y", "ab", v=2)
    link(graph, "main", "x", "ab", v=3)
    assert [item[1:3] for item in conflicts(graph)] == [("x", "divergent_insert")]
    graph.branches.merge("dev", resolve="theirs")
    assert links(graph) == links(graph, "dev")
