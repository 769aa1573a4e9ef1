"""Resolves the slot of a dead owner: finish its commit, or undo it, or forget it.

The verdict needs three things only: the lineage, each table's version right above the expected
one, and the slot itself. The right to act is the slot's lock, which only a dead owner gives up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Mapping

from msgspec import Struct

from omnigraph.commits.audit import RecoveryAudit, RecoveryKind, TableOutcome, new_record
from omnigraph.commits.branch_ids import BranchId, parse_branch_uid
from omnigraph.commits.identity import alone, finishing, undoing
from omnigraph.commits.intents import Intent, IntentTable, decode_intent, newer_format
from omnigraph.commits.manifest_reader import BranchState
from omnigraph.commits.publisher import HeadMoved, Publisher
from omnigraph.commits.records import (
    BRANCH_CREATE,
    RECOVERY,
    RECOVERY_ACTOR,
    SCHEMA_APPLY,
    GraphCommit,
)
from omnigraph.errors import FormatError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.limits import RECOVERY_ATTEMPTS_MAX
from omnigraph.store import (
    COLUMN_OPERATIONS,
    UNDOABLE,
    HeldSlot,
    Pin,
    Standing,
    Table,
    restore,
    set_aside_torn,
    side_by_side,
    standing,
)
from omnigraph.values.recoveries import PendingWrite as PendingWrite
from omnigraph.values.recoveries import Verdict as Verdict


class TableEvidence(Struct, frozen=True, kw_only=True):
    """What stands above a table's expected version."""

    table: IntentTable
    head_version: int
    next_is_ours: bool
    verdict: Standing = Standing.LEFTOVER

    @property
    def must_be_undone(self) -> bool:
        """Whether the table has moved, and going back loses no row of another program."""
        return self.head_version > self.table.expected_version and self.verdict in UNDOABLE


def judge(
    intent: Intent | None, lineage: Container[str], head: str, pins: Mapping[str, Pin]
) -> Verdict | None:
    """Decide what can be told without looking at tables; None when they must be looked at.

    `pins` are what the head published.
    """
    if intent is None or not intent.tables:
        return Verdict.NEVER_ARMED
    if intent.commit_id in lineage or intent.rollback_id in lineage:
        return Verdict.ALREADY_DECIDED
    if intent.head_commit_id != head or not all(_is_of(item, pins) for item in intent.tables):
        # The tables are those of later commits now: touching them would undo these.
        return Verdict.HEAD_MOVED
    return None


def _is_of(table: IntentTable, pins: Mapping[str, Pin]) -> bool:
    """Whether an owner was to move a table from the version that is published.

    The first write of a branch moves a table branch of its own, which is not published yet.
    """
    pin = pins.get(table.table_key)
    return pin is None or pin.path != table.path or pin.version == table.expected_version


def judge_tables(evidence: list[TableEvidence]) -> Verdict:
    """Decide from the tables: complete, partial or untouched."""
    if all(item.next_is_ours for item in evidence):
        return Verdict.ROLLED_FORWARD
    if any(item.must_be_undone for item in evidence):
        return Verdict.ROLLED_BACK
    if any(item.head_version > item.table.expected_version for item in evidence):
        return Verdict.NEEDS_REPAIR
    return Verdict.NOTHING_MOVED


class Recovery:
    """Resolves slots of one graph."""

    def __init__(self, publisher: Publisher, audit: RecoveryAudit) -> None:
        self._publisher = publisher
        self._audit = audit

    def set_aside_torn(self) -> None:
        """Move version files of this branch's tables that a power loss tore out of the way."""
        self._audit.set_aside_torn()
        publisher = self._publisher
        for pin in self._own_pins(publisher.manifest.capture(fresh=False)):
            tables = publisher.tables
            set_aside_torn(tables.files, tables.folder(pin.path), above=pin.version)

    @staticmethod
    def _own_pins(state: BranchState) -> list[Pin]:
        """Return the tables only this branch moves; an inherited one goes on without it."""
        return [pin for pin in state.pins.values() if state.branch.owns(pin.table_branch)]

    def leftovers(self, state: BranchState) -> list[Pin]:
        """Return the branch's tables that stand above their published version for no reason.

        What another program made is not among them.
        """
        own = self._own_pins(state)
        tables = self._publisher.tables
        standings = side_by_side(
            lambda pin: standing(tables, pin.path, pin.version),
            own,
            at_once=tables.files.calls_at_once,
        )
        pairs = zip(own, standings, strict=True)
        return [pin for pin, item in pairs if item.verdict is Standing.LEFTOVER]

    def pending(self) -> list[PendingWrite]:
        """Return the writes that hold or left a slot, without touching anything."""
        writes: list[PendingWrite] = []
        names = self._publisher.slots.names()
        self._publisher.slots.wait_until_known(names)
        for name in names:
            seen = self._publisher.slots.peek(name)
            if seen is None:
                continue
            body, alive = seen
            intent = decode_intent(body)
            writes += _pending(name, intent, alive=alive)
        return writes

    def pending_merges(self) -> list[tuple[str, str | None]]:
        """Return the commits that writes with a slot take in, with the branches they are of."""
        merges: list[tuple[str, str | None]] = []
        for name in self._publisher.slots.names():
            seen = self._publisher.slots.peek(name)
            intent = None if seen is None else decode_intent(seen[0])
            if intent is not None and intent.merged_parent_commit_id is not None:
                merges.append((intent.merged_parent_commit_id, intent.merged_branch))
        return merges

    def branch_of(self, name: str) -> BranchId | None:
        """Return whose slot it is; None when it is gone or cannot be read."""
        seen = self._publisher.slots.peek(name)
        intent = None if seen is None else decode_intent(seen[0])
        return None if intent is None else parse_branch_uid(intent.branch)

    def discard(self, name: str) -> Verdict | None:
        """Remove the slot of a dead owner whose branch is gone; None when its owner lives."""
        slot = self._publisher.slots.seize(name)
        if slot is None:
            return None
        with slot:
            intent = decode_intent(slot.body)
            # Commits that a branch was about to take over were made elsewhere, and stay.
            lost = intent is not None and intent.tables and intent.kind != BRANCH_CREATE
            for item in intent.commits if intent is not None and lost else ():
                self._audit.add(
                    new_record(
                        commit_id=item.commit_id,
                        kind=RecoveryKind.ORPHANED_BRANCH_DISCARDED,
                        actor_id=item.actor_id,
                        operation_id=item.operation_id,
                        writer_kind=item.kind,
                        tables=(),
                    )
                )
            slot.remove()
        return Verdict.BRANCH_GONE

    def resolve(self, name: str, *, forward_only: bool = False) -> Verdict | None:
        """Resolve one slot; None when it is gone or its owner lives.

        With `forward_only` what would have to be undone is left for a write or an open.
        """
        if forward_only and self._is_to_undo(name):
            return None
        slots = self._publisher.slots
        for _attempt in range(1 if forward_only else RECOVERY_ATTEMPTS_MAX):
            slot = slots.seize(name)
            if slot is None:
                return None
            try:
                with slot:
                    return self._resolve(slot, forward_only=forward_only)
            except HeadMoved:
                # The lease lapsed on the way. Another process may be at work on it by now.
                slots.wait_until_known([name])
        return None

    def _is_to_undo(self, name: str) -> bool:
        """Whether a slot asks for an undo, told without taking it: a writer would wait."""
        seen = self._publisher.slots.peek(name)
        intent = None if seen is None or seen[1] else decode_intent(seen[0])
        state = self._publisher.manifest.capture()
        head, lineage = state.head.graph_commit_id, self._publisher.manifest.history.commits
        if intent is None or judge(intent, lineage, head, state.pins) is not None:
            return False
        evidence = [self._evidence(table, intent.kind) for table in intent.tables]
        return judge_tables(evidence) is Verdict.ROLLED_BACK

    def undo(self, slot: HeldSlot) -> None:
        """Resolve the slot of an owner that lives and gives up half-way."""
        with contextlib.suppress(HeadMoved):
            self._resolve(slot, forward_only=False)

    def _resolve(self, slot: HeldSlot, *, forward_only: bool) -> Verdict | None:
        """Resolve a held slot. Raises `HeadMoved` when its lease lapses on the way."""
        number = newer_format(slot.body)
        if number is not None:
            raise FormatError(
                f"the interrupted write {slot.name} has format {number}, which is newer than "
                "this release",
                hint="resolve it with the release that wrote it, then go on",
            )
        intent = decode_intent(slot.body)
        state = self._publisher.manifest.capture()
        lineage = self._publisher.manifest.history.commits
        fire(Failpoint.RECOVERY_POST_SEIZE)
        verdict = judge(intent, lineage, state.head.graph_commit_id, state.pins)
        if verdict is not None or intent is None:
            if intent is not None and verdict is Verdict.ALREADY_DECIDED:
                commit = lineage.get(intent.commit_id) or lineage[intent.rollback_id]
                self.record(intent, commit)
            slot.remove()
            return verdict or Verdict.NEVER_ARMED
        evidence = [self._evidence(table, intent.kind) for table in intent.tables]
        verdict = judge_tables(evidence)
        if verdict is Verdict.ROLLED_BACK and forward_only:
            return None
        if verdict in (Verdict.NOTHING_MOVED, Verdict.NEEDS_REPAIR):
            slot.remove()
            return verdict
        try:
            if verdict is Verdict.ROLLED_FORWARD:
                commit = self._roll_forward(state, intent, slot)
            else:
                commit = self._roll_back(state, intent, evidence, slot)
        except HeadMoved as lost:
            if lost.may_land:
                # The owner of the slot can still finish it.
                raise
            slot.remove()
            return Verdict.HEAD_MOVED
        self.record(intent, commit)
        self._publisher.release(slot)
        return verdict

    def record(self, intent: Intent, commit: GraphCommit) -> None:
        """Record who was finished or undone. Repeating it adds nothing.

        A commit its own owner published, who then died, needed no recovery.
        """
        if commit.actor_id != RECOVERY_ACTOR:
            return
        fire(Failpoint.RECOVERY_POST_PUBLISH_PRE_AUDIT)
        forward = commit.graph_commit_id == intent.commit_id and intent.kind != RECOVERY
        published = self._publisher.manifest.history.pins_at(commit.manifest_version)
        outcomes: list[TableOutcome] = []
        for table in intent.tables:
            pin = published.get(table.table_key)
            if pin is None or pin.seq != commit.manifest_version:
                continue
            before, to = table.expected_version, pin.version
            if not forward:
                # The published number is the restoring commit's; what counts is what it restored.
                before, to = pin.version - 1, table.expected_version
            outcomes.append(
                TableOutcome(table_key=table.table_key, from_version=before, to_version=to)
            )
        # Commits that were finished keep their ids; of what was undone there is one commit.
        for item in intent.commits if forward else intent.commits[-1:]:
            self._audit.add(
                new_record(
                    commit_id=item.commit_id if forward else commit.graph_commit_id,
                    kind=RecoveryKind.ROLLED_FORWARD if forward else RecoveryKind.ROLLED_BACK,
                    actor_id=item.actor_id,
                    operation_id=item.operation_id,
                    writer_kind=item.kind,
                    tables=outcomes,
                )
            )
        fire(Failpoint.RECOVERY_POST_AUDIT)

    def _evidence(self, table: IntentTable, kind: str) -> TableEvidence:
        tables, expected = self._publisher.tables, table.expected_version
        ours = COLUMN_OPERATIONS if kind == SCHEMA_APPLY else ()
        status = standing(tables, table.path, expected, ours=ours)
        next_is_ours = (
            status.head > expected
            and tables.open(table.path, expected + 1).transaction_uuid() == table.transaction_uuid
        )
        return TableEvidence(
            table=table,
            head_version=status.head,
            next_is_ours=next_is_ours,
            verdict=status.verdict,
        )

    def _roll_forward(self, state: BranchState, intent: Intent, slot: HeldSlot) -> GraphCommit:
        pins = [
            self._pin(table, self._publisher.tables.open(table.path, table.expected_version + 1))
            for table in intent.tables
        ]
        fire(Failpoint.RECOVERY_PRE_PUBLISH)
        return self._publisher.append(state, finishing(intent), pins, slot)

    def _roll_back(
        self,
        state: BranchState,
        intent: Intent,
        evidence: list[TableEvidence],
        slot: HeldSlot,
    ) -> GraphCommit:
        pins: list[Pin] = []
        for item in evidence:
            if item.must_be_undone:
                path, version = item.table.path, item.table.expected_version
                restored = restore(self._publisher.tables, path, version)
                fire(Failpoint.RECOVERY_POST_RESTORE)
                pins.append(self._pin(item.table, restored))
        identity = undoing(intent, state.head.schema_hash)
        fire(Failpoint.RECOVERY_PRE_PUBLISH)
        return self._publisher.append(state, alone(identity), pins, slot)

    def _pin(self, table: IntentTable, at: Table) -> Pin:
        # The dead owner may not have come to it, and a manifest must never name unsynced files.
        self._publisher.syncer.sync_tree(self._publisher.tables.folder(table.path))
        return Pin(
            table_key=table.table_key,
            incarnation=table.incarnation,
            path=table.path,
            version=at.version,
            row_count=at.count_rows(),
            transaction_uuid=at.transaction_uuid(),
            seq=0,
        )


def _pending(slot: str, intent: Intent | None, *, alive: bool) -> list[PendingWrite]:
    """Return the writes that a slot stands for; one that cannot be read says nothing of itself."""
    if intent is None:
        unknown = dict.fromkeys(("operation_id", "writer_kind", "actor_id", "branch"))
        return [PendingWrite(slot=slot, alive=alive, tables=(), **unknown)]
    return [
        PendingWrite(
            slot=slot,
            alive=alive,
            operation_id=item.operation_id,
            writer_kind=item.kind,
            actor_id=item.actor_id,
            branch=intent.branch,
            tables=tuple(table.table_key for table in intent.tables),
        )
        for item in intent.commits
    ]
