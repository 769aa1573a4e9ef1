"""Resolves what only a person may decide: tables another program changed, indexes that are lost.

What was done past this engine is published, or undone, as told; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec

from omnigraph.clock import now_us
from omnigraph.errors import BadRequestError, ConflictError
from omnigraph.ids import UlidSource
from omnigraph.manifest import (
    Capture,
    Effect,
    GraphCommit,
    Identity,
    Lost,
    Pin,
    Publisher,
    Recovery,
)
from omnigraph.store import Standing, Table, restore, standing
from omnigraph.store.maintenance import (
    drop_misplaced_indexes,
    misplaced_indexes,
    strip_auto_cleanup,
)
from omnigraph.values.reports import Classification, RepairedTable

REPAIR_ACTOR = "omnigraph:repair"


_CLASSES = {
    Standing.CURRENT: Classification.NO_DRIFT,
    Standing.LEFTOVER: Classification.LEFTOVER,
    Standing.MAINTENANCE: Classification.VERIFIED_MAINTENANCE,
    Standing.FOREIGN: Classification.SUSPICIOUS,
    Standing.UNREADABLE: Classification.UNVERIFIABLE,
    Standing.BEHIND: Classification.MISSING,
}
_UNDONE = ("discarded", "reindexed")


class Repair:
    """Looks at one branch; with `confirm` it acts.

    It publishes what provably changed no row, with `force` also what did; with `discard` it goes
    back to the published versions instead.
    """

    def __init__(
        self,
        publisher: Publisher,
        recovery: Recovery,
        ids: UlidSource,
        *,
        confirm: bool = False,
        force: bool = False,
        discard: bool = False,
    ) -> None:
        if force and not confirm:
            raise BadRequestError(
                "force publishes changes nobody checked", hint="give confirm as well"
            )
        if discard and not confirm:
            raise BadRequestError(
                "discard drops another program's changes", hint="give confirm as well"
            )
        if discard and force:
            raise BadRequestError("force keeps the changes, discard drops them: give one of them")
        self._publisher = publisher
        self._recovery = recovery
        self._tables = publisher.tables
        self._ids = ids
        self._confirm = confirm
        self._force = force
        self._discard = discard

    def run(self) -> tuple[GraphCommit | None, list[RepairedTable]]:
        """Classify every table and do what may be done."""
        capture = self._publisher.coordinator.capture()
        if self._publisher.slots.exists(capture.slot):
            raise ConflictError(
                "a write is under way or waits for recovery", hint="run recover, then try again"
            )
        own = [p for p in capture.pins.values() if capture.branch.owns(p.table_branch)]
        found = [self._judged(pin) for pin in own]
        adopted = [p for p, t in zip(own, found, strict=True) if t.action in ("healed", "forced")]
        effects = [
            Effect(pin=pin, apply=self._undoing(pin, table.action))
            for pin, table in zip(own, found, strict=True)
            if table.action in _UNDONE
        ]
        commit = None
        try:
            if effects:
                commit = self._recovery.publish_effects(
                    capture, self._identity(capture), self._ids.next(), effects
                )
                capture = self._publisher.coordinator.capture()
            if adopted:
                pins = [self._pin_at_head(pin) for pin in adopted]
                commit = self._publisher.publish_pins(
                    capture, self._identity(capture), self._ids.next(), pins
                )
        except Lost:
            raise ConflictError("another writer was first", hint="try again") from None
        for pin in own:
            self._tables.drifted.discard(pin.path)
        return commit, found

    def _judged(self, pin: Pin) -> RepairedTable:
        found = standing(self._tables, pin.path, pin.version)
        kind = _CLASSES[found.verdict]
        if kind is Classification.NO_DRIFT and self._lost_indexes(pin):
            kind = Classification.LOST_INDEX
        table = RepairedTable(
            table_key=pin.table_key,
            published_version=pin.version,
            head_version=found.head,
            classification=kind,
            operations=tuple(note.operation for note in found.notes),
        )
        return msgspec.structs.replace(table, action=self._action(kind))

    def _lost_indexes(self, pin: Pin) -> list[str]:
        table = self._tables.open(pin.path, pin.version)
        return misplaced_indexes(self._tables, table)

    def _action(self, kind: Classification) -> str:
        if kind is Classification.NO_DRIFT:
            return "no_op"
        if not self._confirm:
            return "preview"
        if kind is Classification.MISSING:
            return "refused"
        if kind is Classification.LOST_INDEX:
            return "reindexed"
        if self._discard or kind is Classification.LEFTOVER:
            return "discarded"
        if kind is Classification.VERIFIED_MAINTENANCE:
            return "healed"
        return "forced" if self._force else "refused"

    def _undoing(self, pin: Pin, action: str) -> Callable[[], Table]:
        if action == "discarded":
            return partial(restore, self._tables, pin.path, pin.version)
        return lambda: drop_misplaced_indexes(
            self._tables, self._tables.open(pin.path, pin.version)
        )

    def _pin_at_head(self, pin: Pin) -> Pin:
        # With these settings every later commit would make Lance delete history.
        table = strip_auto_cleanup(self._tables, self._tables.open_latest(pin.path))
        self._publisher.syncer.sync_tree(self._tables.folder(pin.path))
        return replace(
            pin,
            version=table.version,
            row_count=table.count_rows(),
            transaction_uuid=table.transaction_uuid(),
            seq=0,
        )

    def _identity(self, capture: Capture) -> Identity:
        return Identity(
            operation_id=self._ids.next(),
            commit_id=self._ids.next(),
            kind="repair",
            actor_id=f"{REPAIR_ACTOR}:force" if self._force else REPAIR_ACTOR,
            created_at_us=now_us(),
            schema_hash=capture.head.schema_hash,
        )
