"""A disk that is full, slow to name files, torn, or not ours to touch: told apart, and survived."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.commits import Publisher, publisher
from omnigraph.failpoints import Failpoint
from omnigraph.store import Durability, Journal, Syncer, locate, open_slots
from omnigraph.store.slots.locks import LockedSlots
from tests.faults.matrix import break_write
from tests.faults.rig import ADD, NAME, assert_sound, new_graph, recoveries_of, slots_of, state_of
from tests.faults.victim import ROOT

SMALL_DISK = 'mount -t tmpfs -o size=2m none "$1" && shift && exec "$@"'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "graph"
    new_graph(found)
    return found


@pytest.fixture
def graph(root: Path) -> Iterator[og.Graph]:
    with og.open(root, durability="none") as found:
        yield found


def program(name: str, folder: Path, *, before: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    arguments = [*before, sys.executable, "-m", "tests.faults.bad_disk", name, str(folder)]
    done = subprocess.run(  # noqa: S603 - our own program
        arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


# ---- a full disk --------------------------------------------------------------------------


@cache
def can_mount() -> bool:
    """Whether this process may have a small disk of its own."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run(  # noqa: S603 - our own command
            [unshare, "-rm", "sh", "-c", SMALL_DISK, "sh", folder, "true"],
            capture_output=True,
            check=False,
        )
    return tried.returncode == 0


def on_small_disk(name: str, folder: Path) -> list[dict[str, Any]]:
    unshare = shutil.which("unshare") or ""
    return program(name, folder, before=(unshare, "-rm", "sh", "-c", SMALL_DISK, "sh", str(folder)))


@pytest.mark.skipif(not can_mount(), reason="no small disk can be mounted here")
def test_a_full_disk_is_told_and_breaks_nothing(tmp_path: Path) -> None:
    tries = on_small_disk("full", tmp_path)
    for outcome in tries:
        assert outcome["typed"], outcome
        assert outcome["readable"], outcome
        assert outcome["kept"], outcome
        assert outcome["problems"] == [], outcome
        if outcome["error"] is not None:
            assert outcome["exit"] == 1, outcome
            assert "No space left" in outcome["said"] or "no space left" in outcome["said"], outcome
        if outcome["error"] == "StorageError":
            assert outcome["made"] == 0, outcome
            assert outcome["hint"] == "free some space"
    assert {outcome["error"] for outcome in tries} >= {"StorageError", "OutcomeUnknownError"}
    assert all(outcome["made"] == 1 for outcome in tries if outcome.get("last"))


@pytest.mark.skipif(not can_mount(), reason="no small disk can be mounted here")
def test_an_init_on_a_full_disk_can_be_repeated(tmp_path: Path) -> None:
    *tries, last = on_small_disk("full_init", tmp_path)
    errors = [outcome["error"] for outcome in tries]
    assert set(errors[:-1]) == {"StorageError"}
    assert errors[-1] in (None, "AlreadyInitializedError")
    assert last["problems"] == []


@pytest.mark.parametrize("point", [Failpoint.WRITE_POST_STAGE, Failpoint.PUBLISH_PRE_TABLE_COMMIT])
def test_no_space_under_a_write_leaves_it_repeatable(
    root: Path, graph: og.Graph, point: Failpoint
) -> None:
    """The same without a disk of its own: the handle goes on once there is room."""

    def no_space() -> None:
        raise og.StorageError("no space left on the disk", hint="free some space")

    with (
        failpoints.armed(point, no_space),
        pytest.raises(og.OmniGraphError, match="no space left") as failed,
    ):
        graph.mutate(ADD, {"s": "x"}, operation_id="one")
    assert type(failed.value) in (og.StorageError, og.OutcomeUnknownError)
    graph.mutate(ADD, {"s": "x"}, operation_id="one")
    assert len(assert_sound(root).by_operation("one")) == 1


def test_the_last_bytes_of_a_disk_do_not_make_half_an_intent(
    root: Path, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = os.pwrite

    def short(descriptor: int, body: bytes, offset: int) -> int:
        return inner(descriptor, body[:10], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", short)
        with pytest.raises(og.StorageError, match="No space left") as full:
            graph.mutate(ADD, {"s": "x"})
    assert (full.value.hint, full.value.retryable) == ("free some space", True)
    assert os.listdir(root / "__recovery") == []
    graph.mutate(ADD, {"s": "x"})
    assert_sound(root)


# ---- rights -------------------------------------------------------------------------------


def test_missing_rights_are_told_and_break_nothing() -> None:
    # Not below pytest's folder, which nobody else may enter.
    with tempfile.TemporaryDirectory() as folder:
        tries = program("denied", Path(folder))
    for outcome in tries:
        assert outcome["error"] in ("StorageError", "OutcomeUnknownError"), outcome
        assert "ermission denied" in outcome["message"], outcome
        assert outcome["whole"], outcome
        assert outcome["problems"] == [], outcome
        if outcome["error"] == "StorageError":
            assert outcome["hint"] == "check the permissions", outcome
        # Reading needs no right to write, and recovery only if there is something to recover.
        assert outcome["shown"] == (1 if outcome["part"] == "hidden" else 0), outcome
        assert outcome["exit"] == (1 if outcome["part"] in ("hidden", "manifest") else 0), outcome
    assert {outcome["part"] for outcome in tries if outcome["error"] == "OutcomeUnknownError"} == {
        "manifest",
        "versions",
    }


# ---- locks that must not outlive a failure ------------------------------------------------


def test_a_slot_that_cannot_be_synced_is_given_up(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "SLOT_WAIT_S", 0.2)

    def fail(self: Syncer, folder: str) -> None:
        raise og.StorageError(f"cannot sync {folder}")

    with og.open(root) as graph:
        with monkeypatch.context() as patch:
            patch.setattr(Syncer, "sync_folder", fail)
            with pytest.raises(og.StorageError, match="cannot sync"):
                graph.mutate(ADD, {"s": "x"})
        assert slots_of(root) == []
        graph.mutate(ADD, {"s": "x"})
    assert_sound(root)


def test_a_reserved_slot_is_given_up_when_the_manifest_cannot_be_read(
    root: Path, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "SLOT_WAIT_S", 0.2)
    monkeypatch.setattr("omnigraph.commits.loop.RESERVE_AFTER_LOSSES", 0)

    def fail(self: Publisher, capture: object) -> bool:
        raise og.StorageError("looking at the manifest: input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "_moved", fail)
        with pytest.raises(og.StorageError, match="input/output"):
            graph.mutate(ADD, {"s": "x"})
    assert slots_of(root) == []
    graph.mutate(ADD, {"s": "x"})
    assert_sound(root)


def test_a_slot_that_cannot_be_locked_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = open_slots(locate(root), Syncer(Durability.NONE))

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    (root / "__recovery" / "main@x.json").write_bytes(b"")
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr("omnigraph.store.slots.locks.fcntl.flock", refuse)
    with pytest.raises(og.StorageError, match="No locks"):
        slots.seize("main@x.json")
    with pytest.raises(og.StorageError, match="No locks"):
        slots.peek("main@x.json")
    with pytest.raises(og.StorageError, match="No locks"):
        slots.take("main@y.json", b"body")
    with pytest.raises(og.StorageError, match="No locks"):
        slots.wait("main@x.json", timeout_s=1)
    assert len(os.listdir("/proc/self/fd")) == len(before), "a descriptor was left open"


def test_slots_that_cannot_be_listed_fail_an_open_and_no_reading(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-13: nobody may write who cannot see what is pending."""
    inner = os.listdir

    def listdir(path: str) -> list[str]:
        if str(path).endswith("__recovery"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return inner(path)

    monkeypatch.setattr(os, "listdir", listdir)
    with pytest.raises(og.StorageError, match="cannot list __recovery"):
        og.open(root, durability="none")
    with og.open(root, mode="ro") as reader:
        assert state_of(reader)


def test_a_slot_that_is_gone_when_it_is_looked_at_is_no_problem(
    root: Path, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-13: its owner removed it between the listing and the look."""
    monkeypatch.setattr(LockedSlots, "names", lambda self: ["main@gone.json"])
    assert graph.maintenance.pending_writes() == []
    assert graph.maintenance.recover() == []


# ---- the record of recoveries -------------------------------------------------------------


@pytest.mark.parametrize("left", ["folder", "torn"])
def test_a_record_that_was_never_completed_is_begun_again(root: Path, left: str) -> None:
    """Its creator died between the folder and the first version, or the power went."""
    versions = root / "_graph_commit_recoveries.lance" / "_versions"
    versions.mkdir(parents=True)
    if left == "torn":
        name = os.path.basename(Journal(locate("/"), "g").version_path(1))
        (versions / name).write_bytes(b"")
    with og.open(root, durability="none") as graph:
        assert graph.maintenance.recoveries() == []
        break_write(graph, "undo")
        graph.maintenance.recover()
        assert len(graph.maintenance.recoveries()) == 1
    assert len(recoveries_of(root)) == 1
    assert_sound(root)


def test_a_graph_whose_first_version_was_never_written_can_be_made(tmp_path: Path) -> None:
    """Init died between the manifest's folder and its first version."""
    root = tmp_path / "graph"
    with (
        failpoints.armed(Failpoint.INIT_AFTER_CONTRACT, failpoints.error),
        pytest.raises(og.StorageError),
    ):
        new_graph(root)
    (root / "__manifest" / "_versions").mkdir(parents=True)
    with pytest.raises(og.NotFoundError):
        og.open(root, mode="ro")
    new_graph(root)
    assert_sound(root)


# ---- files that are still being written ---------------------------------------------------


def test_syncing_a_table_passes_over_files_without_a_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer stages into the table that is being folded or finished."""
    inner = os.walk

    def walk(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
        for parent, folders, names in inner(folder):
            yield parent, folders, [*names, ".tmpGone", "00000.manifest#1"]

    with og.open(root, durability="none") as graph:
        break_write(graph, "finish")
    with monkeypatch.context() as patch:
        patch.setattr(os, "walk", walk)
        with og.open(root) as graph:
            assert ("Person", "new") in state_of(graph)
            graph.mutate(NAME, {"s": "new", "n": "n"})
    assert_sound(root)
