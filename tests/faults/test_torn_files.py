"""Files that a power loss tore, and that nobody was told of: they must block nobody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.store import locate, set_aside_torn
from tests.faults.rig import (
    ADD,
    ADD_FIRM,
    MEET,
    State,
    assert_sound,
    new_graph,
    no_answer,
    publishing,
    state_of,
)

BODIES = {"empty": b"", "zeroes": bytes(512), "garbage": b"\x7f" * 100}


def version_path(folder: Path, version: int) -> Path:
    return folder / "_versions" / f"{2**64 - 1 - version:020d}.manifest"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "graph"
    new_graph(found)
    return found


def person_folder(root: Path) -> tuple[Path, int, int]:
    """Return the folder of the Person table, its published version and the graph's version."""
    with og.open(root, mode="ro") as graph:
        now = graph.snapshot()
    pin = now.tables["node:Person"]
    return root / pin.path, pin.version, now.version


def state_at(root: Path) -> State:
    with og.open(root, mode="ro") as graph:
        return state_of(graph)


def check_usable(root: Path, before: State) -> None:
    """Open for writing, write to every kind of table, and find nothing else changed."""
    with og.open(root, durability="none") as graph:
        assert state_of(graph) == before
        graph.mutate(ADD, {"s": "next"})
        graph.mutate(ADD_FIRM, {"s": "next"})
        graph.mutate(MEET, {"i": "next", "a": "next", "b": "p1"})
        added = {("Person", "next"), ("Firm", "next"), ("Knows", "next")}
        assert set(state_of(graph)) - set(before) == added
    assert_sound(root)


@pytest.mark.parametrize("body", BODIES)
def test_a_torn_table_version_above_the_published_one_is_set_aside(root: Path, body: str) -> None:
    before = state_at(root)
    folder, version, _ = person_folder(root)
    version_path(folder, version + 1).write_bytes(BODIES[body])
    check_usable(root, before)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_torn_table_version_of_a_real_commit_is_set_aside(root: Path, share: float) -> None:
    """The version is one that a writer committed and never published."""
    before = state_at(root)
    folder, version, _ = person_folder(root)
    _commit_unpublished(root)
    path = version_path(folder, version + 1)
    os.truncate(path, int(path.stat().st_size * share))
    check_usable(root, before)


def _commit_unpublished(root: Path) -> None:
    """Leave a table commit and an armed slot behind, as a dying writer does."""
    with (
        og.open(root, durability="none") as graph,
        publishing(before=no_answer),
        pytest.raises(og.OutcomeUnknownError),
    ):
        graph.mutate(ADD, {"s": "dying"})


@pytest.mark.parametrize("body", BODIES)
def test_a_torn_manifest_version_is_set_aside(root: Path, body: str) -> None:
    before = state_at(root)
    _, _, version = person_folder(root)
    version_path(root / "__manifest", version + 1).write_bytes(BODIES[body])
    check_usable(root, before)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_torn_manifest_version_of_an_unacknowledged_commit_is_set_aside(
    root: Path, share: float
) -> None:
    before = state_at(root)
    with og.open(root, durability="none") as graph:
        graph.mutate(ADD, {"s": "dying"})
        version = graph.snapshot().version
    path = version_path(root / "__manifest", version)
    os.truncate(path, int(path.stat().st_size * share))
    check_usable(root, before)


@pytest.mark.parametrize("share", [None, 0.0, 0.5])
def test_rows_of_an_unpublished_commit_may_be_lost(root: Path, share: float | None) -> None:
    """The table's version file survived, its data did not, and the slot did not either."""
    before = state_at(root)
    _lose_rows_of_an_unpublished_commit(root, share)
    for slot in os.listdir(root / "__recovery"):
        os.unlink(root / "__recovery" / slot)
    check_usable(root, before)


def _lose_rows_of_an_unpublished_commit(root: Path, share: float | None) -> None:
    folder, _, _ = person_folder(root)
    known = set(os.listdir(folder / "data"))
    _commit_unpublished(root)
    (name,) = set(os.listdir(folder / "data")) - known
    path = folder / "data" / name
    if share is None:
        os.unlink(path)
    else:
        os.truncate(path, int(path.stat().st_size * share))


def test_a_read_only_open_does_not_deny_a_graph_with_a_torn_manifest(root: Path) -> None:
    _, _, version = person_folder(root)
    version_path(root / "__manifest", version + 1).write_bytes(b"")
    said = ""
    try:
        og.open(root, mode="ro").close()
    except og.OmniGraphError as error:
        said = error.message
    assert "no graph" not in said


def test_a_handle_that_stays_open_survives_a_torn_table_version(root: Path) -> None:
    """Not by itself, but after somebody opened the graph for writing."""
    before = state_at(root)
    with og.open(root, durability="none") as resident:
        folder, version, _ = person_folder(root)
        version_path(folder, version + 1).write_bytes(b"")
        og.open(root, durability="none").close()
        resident.mutate(ADD, {"s": "next"})
        assert set(state_of(resident)) - set(before) == {("Person", "next")}
    assert_sound(root)


def test_half_written_slots_are_invisible(root: Path) -> None:
    folder = root / "__recovery"
    folder.mkdir(exist_ok=True)
    (folder / ".0123456789abcdef").write_bytes(b"")
    check_usable(root, state_at(root))


def test_a_version_that_goes_while_it_is_looked_at_is_not_torn(tmp_path: Path) -> None:
    """A cleanup may remove a version file between its listing and its reading."""
    og.init(tmp_path / "g", "node P { k: String @key }", durability="none").close()
    location = locate(tmp_path / "g")
    listing = location.files.names(f"{location.root}/__manifest/_versions")
    with pytest.MonkeyPatch.context() as patch:
        names = [*listing, f"{2**64 - 1 - 7:020d}.manifest"]
        patch.setattr(type(location.files), "names", lambda *_a, **_k: names)
        assert set_aside_torn(location.files, f"{location.root}/__manifest", above=0) == []
