"""A graph may be moved or copied with its branches."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.store.upkeep.relocate import relocated
from tests.places import AnyPath, copy_tree, files_below, remove_tree

SCHEMA = "node P { k: String @key }"
ADD = "query add($k: String) { insert P { k: $k } }"
ALL = "query all() { match { $p: P } return { $p.k as k } }"


def keys(graph: og.Graph, branch: str) -> set[str]:
    return {row["k"] for row in graph.query(ALL, branch=branch)}


@pytest.fixture
def branched(place: AnyPath) -> AnyPath:
    root = place / "first"
    with og.init(root, SCHEMA, durability="none") as graph:
        graph.mutate(ADD, {"k": "m"})
        graph.branches.create("dev")
        graph.mutate(ADD, {"k": "d"}, branch="dev")
        graph.branches.create("sub", "dev")
        graph.mutate(ADD, {"k": "s"}, branch="sub")
        graph.branches.create("lazy")
    return root


EXPECTED = {"main": {"m"}, "dev": {"m", "d"}, "sub": {"m", "d", "s"}, "lazy": {"m"}}


def move(source: AnyPath, target: AnyPath) -> None:
    copy_tree(source, target)
    remove_tree(source)


def versions(root: AnyPath) -> dict[str, bytes]:
    return {name: data for name, data in files_below(root) if name.endswith(".manifest")}


def test_a_moved_graph_keeps_its_branches(branched: AnyPath, place: AnyPath) -> None:
    root = place / "a longer name than before"
    move(branched, root)
    with og.open(root, durability="none") as graph:
        assert {name: keys(graph, name) for name in graph.branches.list()} == EXPECTED
        graph.mutate(ADD, {"k": "new"}, branch="sub")
        assert keys(graph, "sub") == {"m", "d", "s", "new"}
        assert graph.branches.merge("sub").outcome == "fast_forward"
    with og.open(root, mode="ro") as graph:
        assert keys(graph, "main") == {"m", "d", "s", "new"}


def test_a_copy_does_not_read_the_original(branched: AnyPath, place: AnyPath) -> None:
    root = place / "copy"
    copy_tree(branched, root)
    with og.open(root, durability="none") as graph:
        assert keys(graph, "sub") == {"m", "d", "s"}
    remove_tree(branched)
    with og.open(root, durability="none") as graph:
        assert {name: keys(graph, name) for name in graph.branches.list()} == EXPECTED


def test_a_moved_graph_open_for_reading_says_what_to_do(branched: AnyPath, place: AnyPath) -> None:
    root = place / "moved"
    move(branched, root)
    with og.open(root, mode="ro") as graph:
        assert keys(graph, "main") == {"m"}
        with pytest.raises(og.StorageError, match="was moved") as caught:
            keys(graph, "dev")
    assert "read-write once" in str(caught.value.hint)


def test_files_that_lie_right_are_left_alone(branched: AnyPath) -> None:
    before = versions(branched)
    assert before
    with og.open(branched, durability="none") as graph:
        assert keys(graph, "dev") == {"m", "d"}
    assert versions(branched) == before


@pytest.mark.parametrize("data", [b"", b"LANC", b"x" * 40])
def test_what_is_no_version_file_is_left_alone(data: bytes) -> None:
    assert relocated(data, "/somewhere") is None
