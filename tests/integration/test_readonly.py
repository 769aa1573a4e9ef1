"""A read-only handle changes no byte and refuses every write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

import omnigraph as og
from tests.integration.helpers import edge, exported, files, load, node, rows, run


@pytest.fixture
def filled(graph: og.Graph) -> og.Graph:
    load(graph, [node("Person", name="a"), node("Person", name="b"), edge("Knows", "a", "b")])
    run(graph, 'delete Person where name = "b"')
    return graph


def tree(root: str) -> list[tuple[str, int, int]]:
    """Return every path with its size and its time of change, folders too."""
    found: list[tuple[str, int, int]] = []
    for parent, folders, names in os.walk(root):
        for name in (*folders, *names):
            status = os.stat(Path(parent, name))
            found.append((os.path.join(parent, name), status.st_size, status.st_mtime_ns))
    return sorted(found)


def test_reading_changes_no_byte(filled: og.Graph, tmp_path: Path) -> None:
    before, content = tree(filled.uri), files(filled.uri)
    with og.open(filled.uri, mode="ro") as reader:
        assert len(exported(reader)) == 1
        reader.export(tmp_path / "out.jsonl")
        assert len(reader.commits.list()) == 3
        reader.snapshot()
        reader.snapshot(version=2)
        reader.entity_at("node:Person", "b", version=2)
        reader.refresh()
        reader.refresh("main")
        assert reader.maintenance.recovered == []
    assert tree(filled.uri) == before
    assert files(filled.uri) == content


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_clean_open_writes_nothing(filled: og.Graph, mode: Literal["rw", "ro"]) -> None:
    before = tree(filled.uri)
    og.open(filled.uri, mode=mode).close()
    assert tree(filled.uri) == before


@pytest.mark.local
def test_a_pending_slot_is_left_alone_by_a_reader(filled: og.Graph) -> None:
    slot = Path(filled.uri, "__recovery", "main@nobody.json")
    slot.write_bytes(b'{"torn')
    before = tree(filled.uri)
    with og.open(filled.uri, mode="ro") as reader:
        assert set(rows(reader, "Person")) == {"a"}
    assert tree(filled.uri) == before
    with og.open(filled.uri, durability="none") as writer:
        assert [str(verdict) for verdict in writer.maintenance.recovered] == ["never_armed"]
    assert not slot.exists()


def test_every_write_is_refused(filled: og.Graph) -> None:
    before = tree(filled.uri)
    with og.open(filled.uri, mode="ro") as reader:
        for write in (
            lambda: run(reader, 'insert Person { name: "z" }'),
            lambda: load(reader, [node("Person", name="z")]),
            lambda: reader.load([], mode="merge", dry_run=True),
            lambda: reader.load_table("Person", None, mode="append"),
        ):
            with pytest.raises(og.BadRequestError, match="open read-only") as refused:
                write()
            assert refused.value.hint == "open it with mode='rw'"
    assert tree(filled.uri) == before


def test_an_unknown_mode_is_refused(filled: og.Graph) -> None:
    with pytest.raises(og.BadRequestError, match="mode must be 'rw' or 'ro'"):
        og.open(filled.uri, mode="r")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_opening_what_is_no_graph_creates_nothing(
    tmp_path: Path, mode: Literal["rw", "ro"]
) -> None:
    with pytest.raises(og.NotFoundError, match="no graph at"):
        og.open(tmp_path / "none", mode=mode)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("http://host/g", "names a server"),
        ("ftp://host/g", "not supported"),
        (" ", "location is empty"),
    ],
)
def test_a_place_that_is_no_folder_is_refused(place: str, message: str) -> None:
    with pytest.raises(og.BadRequestError, match=message):
        og.open(place)


@pytest.mark.local
def test_a_file_uri_and_a_link_name_the_same_graph(filled: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(filled.uri)
    for place in (f"file://{filled.uri}", tmp_path / "link"):
        with og.open(place, mode="ro") as reader:
            assert reader.uri == filled.uri


def test_closing_twice_is_fine(filled: og.Graph) -> None:
    filled.close()
    filled.close()
    with og.open(filled.uri, mode="ro") as reader:
        assert reader.commits.head().graph_commit_id


def test_an_unknown_durability_is_refused(filled: og.Graph) -> None:
    with pytest.raises(og.BadRequestError):
        og.open(filled.uri, durability="some")  # type: ignore[arg-type]
