"""Names a graph's folder may have: each works in full, or is refused before anything is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import omnigraph as og
from tests.integration.conftest import Cli
from tests.integration.helpers import edge, load, node
from tests.places import AnyPath

SCHEMA = "node P { k: String @key  t: String? @index  o: Blob? }\nedge E: P -> P"
NAMES = [
    "a b",
    " a ",
    "50%",
    "é",
    "日本",
    "a+b",
    "a&b=c",
    "[x]",
    "{x}",
    "~x",
    "a'b",
    "a:b",
]
ON_DISK = ["a#b", "a\\b", "a*b", 'a"b', "a|b", "<a>", "a;b", "%", "%2F", "-x", ".x", "s3:x", "a/"]


def works(place: str) -> None:
    """Use a graph in every way that names its folder."""
    with og.init(place, SCHEMA, durability="none") as graph:
        load(graph, [node("P", k="a", t="x", o=b"1"), node("P", k="b"), edge("E", "a", "b")])
        graph.branches.create("dev")
        graph.load([node("P", k="c")], mode="append", branch="dev")
        graph.tags.create("v1")
    with og.open(place, durability="none") as graph:
        assert (graph.branches.list(), [tag.name for tag in graph.tags.list()]) == (
            ["main", "dev"],
            ["v1"],
        )
        graph.branches.merge("dev")
        graph.optimize()
        graph.cleanup(keep=1, grace=0, dry_run=False)
        found = graph.export()
        assert not isinstance(found, int)
        assert len(list(found)) == 4


@pytest.mark.parametrize("name", NAMES)
def test_a_name_works_in_full(place: AnyPath, name: str) -> None:
    works(str(place / "around" / name))
    if isinstance(place, Path):
        # Nothing lies beside the graph.
        assert os.listdir(place / "around") == [name]


@pytest.mark.local
@pytest.mark.parametrize("name", ON_DISK)
def test_a_name_of_a_folder_works_in_full(tmp_path: Path, name: str) -> None:
    works(f"{tmp_path}/around/{name}")
    assert os.listdir(tmp_path / "around") == [name.rstrip("/")]


def test_the_folders_around_a_graph_may_have_any_name_too(tmp_path: Path) -> None:
    works(f"{tmp_path}/josé/50%/graph")
    assert os.listdir(tmp_path) == ["josé"]


def test_a_folder_with_the_other_spelling_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "%C3%A9" / "keep").mkdir(parents=True)
    works(f"{tmp_path}/é")
    assert sorted(os.listdir(tmp_path)) == ["%C3%A9", "é"]
    assert os.listdir(tmp_path / "%C3%A9") == ["keep"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my?graph", "holds a question mark"),
        ("a?b/graph", "holds a question mark"),
        ("a\nb", "holds a control character"),
        ("a\x00b", "holds a control character"),
        ("a\x7fb", "holds a control character"),
        ("a\ud800", "is not valid Unicode"),
    ],
)
def test_a_name_that_cannot_work_is_refused_before_anything_is_made(
    tmp_path: Path, cli: Cli, name: str, message: str
) -> None:
    place = f"{tmp_path}/{name}"
    with pytest.raises(og.BadRequestError, match=message):
        og.init(place, SCHEMA)
    with pytest.raises(og.BadRequestError, match=message):
        og.open(place)
    if name.isprintable():
        (tmp_path / "s.pg").write_text(SCHEMA, encoding="utf-8")
        shown = cli("init", place, "--schema", "s.pg")
        assert (shown.code, message in shown.err) == (1, True)
    assert [found for found in os.listdir(tmp_path) if found != "s.pg"] == []


def test_a_link_to_such_a_name_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "a?b").mkdir()
    (tmp_path / "plain").symlink_to(tmp_path / "a?b")
    with pytest.raises(og.BadRequestError, match="holds a question mark"):
        og.init(tmp_path / "plain", SCHEMA)
    assert os.listdir(tmp_path / "a?b") == []


def test_a_restore_refuses_it_as_well(tmp_path: Path) -> None:
    works(str(tmp_path / "g"))
    with og.open(tmp_path / "g") as graph:
        graph.maintenance.dump(tmp_path / "g.tar")
    with pytest.raises(og.BadRequestError, match="holds a question mark"):
        og.restore(tmp_path / "g.tar", tmp_path / "b?")
