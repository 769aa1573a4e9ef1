"""What an acknowledged write survives: the sync calls of a child, watched, held and failed."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from tests.faults.fsync_watch import Call, Watched, supported
from tests.faults.matrix import drawn
from tests.faults.rig import ADD, State, assert_sound, new_graph, state_of
from tests.faults.syncing import BLOB_SCHEMA, BLOB_SIZES, blobs

LOSSES_DRAWN = 4

pytestmark = pytest.mark.skipif(
    not supported(), reason="this kernel does not let a process watch another's sync calls"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "graph"
    new_graph(found)
    return found


def state_at(root: Path) -> State:
    with og.open(root, durability="none") as graph:
        return state_of(graph)


def kind(call: Call) -> str:
    """Name the place of a sync call."""
    top = call.path.split("/", 1)[0]
    return {"__recovery": "slot", "__manifest": "manifest"}.get(top, "table")


# ---- order --------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["insert", "update", "delete", "load", "overwrite"])
def test_slot_then_tables_then_manifest_then_the_answer(root: Path, action: str) -> None:
    with Watched(root, action, "full") as child:
        before = child_versions(child)
        child.start()
        assert child.finish()["error"] is None
        calls = list(child.calls)
    tables, manifest = before
    assert {kind(call) for call in calls} == {"slot", "table", "manifest"}
    assert calls[-1].path.startswith("__manifest")
    assert any(call.path.startswith("__manifest/_versions/") for call in calls)
    for call in calls:
        assert not call.acknowledged, "synced after the answer"
        data = "/data/" in call.path or "/_deletions/" in call.path
        if kind(call) == "slot" or (kind(call) == "table" and data):
            assert call.table_versions == tables, "a table moved before intent and data were synced"
        if kind(call) != "manifest" or call.path.startswith("__manifest/data/"):
            assert call.manifest_versions == manifest, "published before tables and rows were"
    files = [call.path for call in calls if os.path.isfile(root / call.path)]
    assert len(set(files)) == len(files), "a file was synced twice"


def child_versions(child: Watched) -> tuple[int, int]:
    tables = list(child.root.glob("[ne]*/*/_versions/*.manifest"))
    return len(tables), len(list(child.root.glob("__manifest/_versions/*.manifest")))


@pytest.mark.parametrize("action", ["insert", "delete", "fold"])
def test_without_durability_nothing_is_synced(root: Path, action: str) -> None:
    with Watched(root, action, "none") as child:
        child.start()
        assert child.finish()["error"] is None
        assert child.calls == []


# ---- held and failed ----------------------------------------------------------------------


@pytest.mark.parametrize("place", ["slot", "table", "manifest"])
def test_no_answer_appears_while_a_sync_is_held(root: Path, place: str) -> None:
    release, reached = threading.Event(), threading.Event()

    def hold(call: Call) -> int | None:
        if kind(call) == place and not reached.is_set():
            reached.set()
            release.wait(30)
        return None

    with Watched(root, "insert", "full", hold) as child:
        child.start()
        assert reached.wait(30)
        assert not child.answers_within(0.3)
        release.set()
        assert child.finish()["error"] is None
    assert ("Person", "new") in state_at(root)
    assert_sound(root)


@pytest.mark.parametrize("action", ["insert", "delete"])
@pytest.mark.parametrize("place", ["slot", "table", "manifest"])
def test_a_failed_sync_is_reported_and_breaks_nothing(root: Path, place: str, action: str) -> None:
    before = state_at(root)
    with Watched(
        root, action, "full", lambda call: errno.EIO if kind(call) == place else None
    ) as child:
        child.start()
        answer = child.finish()
    assert answer["error"] in ("StorageError", "OutcomeUnknownError"), answer
    if place == "manifest":
        assert answer["error"] == "OutcomeUnknownError"
    after = state_at(root)
    changed = {"insert": ("Person", "new"), "delete": ("Person", "p0")}[action]
    done = (changed in after) == (action == "insert")
    assert done or after == before
    assert_sound(root)
    with og.open(root, durability="none") as graph:
        graph.mutate(ADD, {"s": "next"})
    assert_sound(root)


# ---- power loss ---------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["insert", "update", "delete", "load", "overwrite"])
def test_an_acknowledged_write_survives_a_power_loss(
    root: Path, tmp_path: Path, action: str
) -> None:
    left = tmp_path / "left"
    with Watched(root, action, "full") as child:
        child.start()
        assert child.finish()["error"] is None
        child.disk.survivors(left)
        wanted = state_at(root)
    assert state_at(left) == wanted
    assert_sound(left)


def power_losses(
    tmp_path: Path, child: Callable[[Callable[[Call], None]], Watched], *, torn: bool
) -> list[tuple[str, Path]]:
    """Lose power before every sync call of a write; return where, and what was left."""
    found: list[tuple[str, Path]] = []
    watched: list[Watched] = []

    def lose(call: Call) -> None:
        target = tmp_path / f"left{len(found)}"
        disk = watched[0].disk
        (disk.torn if torn else disk.survivors)(target)
        found.append((call.path, target))

    with child(lose) as running:
        watched.append(running)
        running.start()
        assert running.finish()["error"] is None
    assert found
    return found


@pytest.mark.parametrize("torn", [False, True], ids=["names lost", "content lost"])
@pytest.mark.parametrize("action", ["insert", "delete"])
def test_a_power_loss_before_any_sync_leaves_all_or_nothing(
    root: Path, tmp_path: Path, action: str, torn: bool
) -> None:
    before = state_at(root)

    def start(lose: Callable[[Call], None]) -> Watched:
        return Watched(root, action, "full", lose)

    losses = power_losses(tmp_path, start, torn=torn)
    after = state_at(root)
    assert after != before
    for place, left in drawn(losses, LOSSES_DRAWN):
        found = state_at(left)
        assert found in (before, after), place
        assert_sound(left)
        with og.open(left, durability="none") as graph:
            graph.mutate(ADD, {"s": "next"})
        assert_sound(left)


def test_acknowledged_blobs_survive_a_power_loss(tmp_path: Path) -> None:
    root, left = tmp_path / "graph", tmp_path / "left"
    og.init(root, BLOB_SCHEMA, durability="none").close()
    with Watched(root, "blobs", "full") as child:
        child.start()
        assert child.finish()["error"] is None
        child.disk.survivors(left)
    with og.open(left, durability="none") as graph:
        rows = graph.export()
        assert not isinstance(rows, int)
        found = sorted(str(row["data"]) for row in rows)
    assert len(found) == len(BLOB_SIZES)
    with og.open(root, durability="none") as graph:
        whole = graph.export()
        assert not isinstance(whole, int)
        assert found == sorted(str(row["data"]) for row in whole)
    assert len(blobs()) == len(found)


def test_a_new_graph_survives_a_power_loss(tmp_path: Path) -> None:
    """The folder the graph is made in exists and is synced by whoever made it."""
    place, left = tmp_path / "place", tmp_path / "left"
    (place / "graph").mkdir(parents=True)
    with Watched(place, "init", "full") as child:
        child.start()
        assert child.finish()["error"] is None
        child.disk.survivors(left)
    with og.open(left / "graph", durability="none") as graph:
        graph.mutate(ADD, {"s": "a"})
    assert_sound(left / "graph")


def test_acknowledged_writes_survive_a_fold_and_a_power_loss(root: Path, tmp_path: Path) -> None:
    left = tmp_path / "left"
    with Watched(root, "fold", "full") as child:
        child.start()
        assert child.finish()["error"] is None
        child.disk.survivors(left)
        wanted = state_at(root)
    assert "optimize" in {commit["kind"] for commit in assert_sound(root).commits}
    assert state_at(left) == wanted
    assert_sound(left)
    with og.open(left, durability="none") as graph:
        graph.mutate(ADD, {"s": "p1"})
        graph.mutate(ADD, {"s": "tail3"})
    assert_sound(left)


def test_a_write_whose_publish_was_recognised_survives_a_power_loss(
    root: Path, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    with Watched(root, "lost_answer", "full") as child:
        child.start()
        assert child.finish()["error"] is None
        child.disk.survivors(left)
    assert {("Person", "new"), ("Firm", "next")} <= set(state_at(left))
    assert_sound(left)


def test_what_recovery_finished_survives_a_power_loss(root: Path, tmp_path: Path) -> None:
    """The owner dies after its table commit and before its syncs; opening finishes it."""
    left = tmp_path / "left"

    def die(call: Call) -> int | None:
        return errno.EIO if kind(call) == "table" and "_versions" in call.path else None

    with Watched(root, "insert", "full", die) as owner:
        owner.start()
        assert owner.finish()["error"] == "OutcomeUnknownError"
        disk = owner.disk
    with Watched(root, "recover", "full") as child:
        child.disk.content, child.disk.entries = disk.content, disk.entries
        child.disk.folders = disk.folders
        child.start()
        assert child.finish()["error"] is None
        child.disk.survivors(left)
    wanted = state_at(root)
    assert ("Person", "new") in wanted
    assert state_at(left) == wanted
    assert_sound(left)


def test_a_write_on_top_of_an_unsynced_commit_survives_a_power_loss(
    root: Path, tmp_path: Path
) -> None:
    """One writer has published and is still syncing; the next one publishes and acknowledges."""
    left = tmp_path / "left"
    release, reached = threading.Event(), threading.Event()

    def hold(call: Call) -> int | None:
        if call.path.startswith("__manifest/_versions"):
            reached.set()
            release.wait(30)
            return errno.EIO
        return None

    try:
        with Watched(root, "overwrite", "full", hold) as slow:
            slow.start()
            assert reached.wait(30)
            with Watched(root, "cold_insert", "full") as child:
                child.disk.content, child.disk.entries = slow.disk.content, slow.disk.entries
                child.disk.folders = slow.disk.folders
                child.start()
                assert child.finish()["error"] is None
                child.disk.survivors(left)
            release.set()
    finally:
        release.set()
    assert ("Person", "new") in state_at(left)
    assert_sound(left)
