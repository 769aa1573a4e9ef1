"""Named places where a test can make a write fail, die, wait or run something.

Nothing is armed outside tests: a boundary then costs one look at an empty dictionary. Nothing but
a call of `arm` changes that; no file or environment variable is read.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from enum import StrEnum

from msgspec import Struct

from omnigraph.errors import StorageError


class Failpoint(StrEnum):
    """Every boundary of every writer, in the order a write passes them."""

    INIT_AFTER_CLAIM = "init.after_claim"
    INIT_AFTER_TABLES = "init.after_tables"
    INIT_AFTER_CONTRACT = "init.after_contract"
    INIT_POST_MANIFEST_CREATE = "init.post_manifest_create"
    WRITE_POST_CAPTURE = "write.post_capture"
    WRITE_POST_VALIDATE_PRE_STAGE = "write.post_validate_pre_stage"
    WRITE_POST_STAGE = "write.post_stage"
    PUBLISH_POST_SLOT_PRE_EFFECT = "publish.post_slot_pre_effect"
    OPTIMIZE_BEFORE_COMPACT = "optimize.before_compact"
    OPTIMIZE_AFTER_COMPACT_PRE_INDEX = "optimize.after_compact_pre_index"
    PUBLISH_PRE_TABLE_COMMIT = "publish.pre_table_commit"
    PUBLISH_POST_TABLE_COMMIT = "publish.post_table_commit"
    PUBLISH_POST_EFFECTS = "publish.post_effects"
    PUBLISH_PRE_CAS = "publish.pre_cas"
    PUBLISH_CAS_ANSWER_LOST = "publish.cas_answer_lost"
    PUBLISH_POST_MANIFEST_COMMIT = "publish.post_manifest_commit"
    PUBLISH_PRE_SLOT_DELETE = "publish.pre_slot_delete"
    FORK_POST_CREATE = "fork.post_create"
    FORK_POST_TRIAL = "fork.post_trial"
    SCHEMA_POST_RESERVE = "schema.post_reserve"
    SCHEMA_POST_VALIDATE = "schema.post_validate"
    SCHEMA_POST_HISTORY = "schema.post_history"
    SCHEMA_POST_TABLE_STEP = "schema.post_table_step"
    SCHEMA_POST_TABLE_CREATE = "schema.post_table_create"
    SCHEMA_POST_MANIFEST_COMMIT = "schema.post_manifest_commit"
    SCHEMA_BETWEEN_FILES = "schema.between_files"
    SCHEMA_POST_FILES = "schema.post_files"
    BRANCH_CREATE_POST_NATIVE = "branch_create.post_native"
    BRANCH_DELETE_POST_FENCE = "branch_delete.post_fence"
    BRANCH_DELETE_POST_NATIVE = "branch_delete.post_native"
    BRANCH_PURGE_POST_NATIVE = "branch_purge.post_native"
    CLEANUP_POST_FLOOR = "cleanup.post_floor"
    CLEANUP_POST_PLAN = "cleanup.post_plan"
    CLEANUP_PRE_MANIFEST = "cleanup.pre_manifest"
    CLUSTER_POST_LOCK = "cluster.post_lock"
    CLUSTER_POST_EFFECT = "cluster.post_effect"
    CLUSTER_PRE_STATE = "cluster.pre_state"
    CLUSTER_POST_STATE = "cluster.post_state"
    CLUSTER_POST_REMOVE = "cluster.post_remove"
    RECOVERY_POST_SEIZE = "recovery.post_seize"
    RECOVERY_POST_RESTORE = "recovery.post_restore"
    RECOVERY_PRE_PUBLISH = "recovery.pre_publish"
    RECOVERY_POST_PUBLISH_PRE_AUDIT = "recovery.post_publish_pre_audit"
    RECOVERY_POST_AUDIT = "recovery.post_audit"


Action = Callable[[], object]


class _Armed(Struct):
    action: Action
    hit: int
    seen: int = 0


_armed: dict[Failpoint, _Armed] = {}
_recording: list[Failpoint] | None = None
_lock = threading.Lock()


def fire(point: Failpoint) -> None:
    """Run what a test armed here, if anything."""
    if _armed or _recording is not None:
        _fire(point)


def _fire(point: Failpoint) -> None:
    with _lock:
        if _recording is not None:
            _recording.append(point)
        entry = _armed.get(point)
        if entry is None:
            return
        entry.seen += 1
        due = entry.seen == entry.hit
    if due:
        entry.action()


def arm(point: Failpoint, action: Action, *, hit: int = 1) -> None:
    """Run an action the n-th time a boundary is passed, once."""
    with _lock:
        _armed[point] = _Armed(action, hit)


def disarm() -> None:
    """Forget everything armed."""
    with _lock:
        _armed.clear()


@contextlib.contextmanager
def armed(point: Failpoint, action: Action, *, hit: int = 1) -> Iterator[None]:
    """Arm a boundary for the length of a block."""
    arm(point, action, hit=hit)
    try:
        yield
    finally:
        with _lock:
            _armed.pop(point, None)


@contextlib.contextmanager
def recorded() -> Iterator[list[Failpoint]]:
    """Collect every boundary passed inside the block, in order."""
    global _recording
    points: list[Failpoint] = []
    _recording = points
    try:
        yield points
    finally:
        _recording = None


def error() -> None:
    """Fail as storage does."""
    raise StorageError("an injected fault")


def crash() -> None:
    """End the process at once, as a power switch does to it."""
    os.kill(os.getpid(), signal.SIGKILL)


class Pause:
    """An action that holds a passing write until it is released."""

    def __init__(self, timeout_s: float = 30.0) -> None:
        self._timeout_s = timeout_s
        self.reached = threading.Event()
        self.released = threading.Event()

    def __call__(self) -> None:
        """Wait for the release."""
        self.reached.set()
        if not self.released.wait(self._timeout_s):
            raise TimeoutError("the pause was not released in time")
