"""A graph may be moved or copied with its branches."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.store.relocate import relocated

SCHEMA = "node P { k: String @key }"
ADD = "query add($k: String) { insert P { k: $k } }"
ALL = "query all() { match { $p: P } return { $p.k as k } }"


def keys(graph: og.Graph, branch: str) -> set[str]:
    return {row["k"] for row in graph.query(ALL, branch=branch)}


@pytest.fixture
def branched(tmp_path: Path) -> Path:
    place = tmp_path / "first"
    with og.init(place, SCHEMA, durability="none") as graph:
        graph.mutate(ADD, {"k": "m"})
        graph.branches.create("dev")
        graph.mutate(ADD, {"k": "d"}, branch="dev")
        graph.branches.create("sub", "dev")
        graph.mutate(ADD, {"k": "s"}, branch="sub")
        graph.branches.create("lazy")
    return place


EXPECTED = {"main": {"m"}, "dev": {"m", "d"}, "sub": {"m", "d", "s"}, "lazy": {"m"}}


def test_a_moved_graph_keeps_its_branches(branched: Path, tmp_path: Path) -> None:
    place = tmp_path / "a longer name than before"
    branched.rename(place)
    with og.open(place, durability="none") as graph:
        assert {name: keys(graph, name) for name in graph.branches.list()} == EXPECTED
        graph.mutate(ADD, {"k": "new"}, branch="sub")
        assert keys(graph, "sub") == {"m", "d", "s", "new"}
        assert graph.branches.merge("sub").outcome == "fast_forward"
    with og.open(place, mode="ro") as graph:
        assert keys(graph, "main") == {"m", "d", "s", "new"}


def test_a_copy_does_not_read_the_original(branched: Path, tmp_path: Path) -> None:
    place = tmp_path / "copy"
    shutil.copytree(branched, place)
    with og.open(place, durability="none") as graph:
        assert keys(graph, "sub") == {"m", "d", "s"}
    shutil.rmtree(branched)
    with og.open(place, durability="none") as graph:
        assert {name: keys(graph, name) for name in graph.branches.list()} == EXPECTED


def test_a_moved_graph_open_for_reading_says_what_to_do(branched: Path, tmp_path: Path) -> None:
    place = tmp_path / "moved"
    branched.rename(place)
    with og.open(place, mode="ro") as graph:
        assert keys(graph, "main") == {"m"}
        with pytest.raises(og.StorageError, match="was moved") as caught:
            keys(graph, "dev")
    assert "read-write once" in str(caught.value.hint)


def test_files_that_lie_right_are_left_alone(branched: Path) -> None:
    before = {path: path.read_bytes() for path in branched.rglob("*.manifest")}
    with og.open(branched, durability="none") as graph:
        assert keys(graph, "dev") == {"m", "d"}
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("data", [b"", b"LANC", b"x" * 40])
def test_what_is_no_version_file_is_left_alone(data: bytes) -> None:
    assert relocated(data, "/somewhere") is None
