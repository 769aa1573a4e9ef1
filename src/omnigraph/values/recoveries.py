"""What became of interrupted writes, and writes that are under way."""

from __future__ import annotations

import datetime
from enum import StrEnum

from omnigraph.values.commits import moment
from omnigraph.values.value import Value


class RecoveryKind(StrEnum):
    """How an interrupted write ended."""

    ROLLED_FORWARD = "RolledForward"
    ROLLED_BACK = "RolledBack"
    ORPHANED_BRANCH_DISCARDED = "OrphanedBranchDiscarded"


class Verdict(StrEnum):
    """What became of an interrupted write."""

    NEVER_ARMED = "never_armed"
    BRANCH_GONE = "branch_gone"
    ALREADY_DECIDED = "already_decided"
    HEAD_MOVED = "head_moved"
    NOTHING_MOVED = "nothing_moved"
    ROLLED_FORWARD = "rolled_forward"
    ROLLED_BACK = "rolled_back"
    NEEDS_REPAIR = "needs_repair"
    """Its tables hold rows of another program, which only `repair` may keep or drop."""


class TableOutcome(Value, frozen=True, kw_only=True):
    """One table of a recovery: where it stood, and the version it was taken to."""

    table_key: str
    from_version: int
    to_version: int


class RecoveryRecord(
    Value,
    frozen=True,
    kw_only=True,
    rename={
        "writer_kind": "sidecar_writer_kind",
        "tables": "per_table_outcomes",
        "created_at_us": "created_at",
    },
):
    """One recovery. A retried operation may have several; each made its own commit."""

    graph_commit_id: str
    recovery_kind: RecoveryKind
    recovery_for_actor: str | None
    operation_id: str
    writer_kind: str
    tables: tuple[TableOutcome, ...]
    created_at_us: int

    @property
    def created_at(self) -> datetime.datetime:
        """When the recovery was recorded, UTC."""
        return moment(self.created_at_us)


class PendingWrite(Value, frozen=True, kw_only=True, rename={"alive": "owner_alive"}):
    """A write that is under way, or was interrupted and not resolved yet."""

    slot: str
    alive: bool
    operation_id: str | None
    writer_kind: str | None
    actor_id: str | None
    branch: str | None
    tables: tuple[str, ...]
