"""Finds tables somebody moved past this engine, and publishes where they stand if told to."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.errors import BadRequestError, ConflictError, OmniGraphError
from omnigraph.ids import UlidSource
from omnigraph.manifest import Capture, GraphCommit, Identity, Lost, Pin, Publisher
from omnigraph.store import newest_version
from omnigraph.store.op_class import describe_version

REPAIR_ACTOR = "omnigraph:repair"


class Classification(StrEnum):
    """What lies above a table's published version."""

    NO_DRIFT = "no_drift"
    VERIFIED_MAINTENANCE = "verified_maintenance"
    SUSPICIOUS = "suspicious"
    UNVERIFIABLE = "unverifiable"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedTable:
    """One table: what was found above its published version, and what was done about it."""

    table_key: str
    published_version: int
    head_version: int
    classification: Classification
    action: str = "no_op"
    operations: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        return {
            "table_key": self.table_key,
            "manifest_version": self.published_version,
            "lance_head_version": self.head_version,
            "classification": str(self.classification),
            "action": self.action,
            "operations": list(self.operations),
        }


class Repair:
    """Looks at one branch; with `confirm` heals what provably changed no row, with `force` all."""

    def __init__(
        self, publisher: Publisher, ids: UlidSource, *, confirm: bool = False, force: bool = False
    ) -> None:
        if force and not confirm:
            raise BadRequestError(
                "force publishes changes nobody checked", hint="give confirm as well"
            )
        self._publisher = publisher
        self._ids = ids
        self._confirm = confirm
        self._force = force

    def run(self) -> tuple[GraphCommit | None, list[RepairedTable]]:
        """Classify every table and publish what may be."""
        capture = self._publisher.coordinator.capture()
        if self._publisher.slots.exists(capture.slot):
            raise ConflictError(
                "a write is under way or waits for recovery", hint="run recover, then try again"
            )
        found: list[RepairedTable] = []
        pins: list[Pin] = []
        for pin in capture.pins.values():
            if not capture.branch.owns(pin.table_branch):
                continue
            table = self._classify(pin)
            action = self._action(table.classification)
            found.append(
                RepairedTable(
                    table_key=table.table_key,
                    published_version=table.published_version,
                    head_version=table.head_version,
                    classification=table.classification,
                    action=action,
                    operations=table.operations,
                )
            )
            if action in ("healed", "forced"):
                pins.append(self._pin_at_head(pin))
        return (self._publish(capture, pins) if pins else None), found

    def _classify(self, pin: Pin) -> RepairedTable:
        tables = self._publisher.tables
        head = newest_version(tables.files, tables.folder(pin.path))
        operations: list[str] = []
        verdict = Classification.NO_DRIFT
        for version in range(pin.version + 1, head + 1):
            try:
                name, maintenance = describe_version(tables, pin.path, version)
            except OmniGraphError:
                name, maintenance = "unreadable", None
            operations.append(name)
            if maintenance is None:
                verdict = Classification.UNVERIFIABLE
            elif not maintenance and verdict is not Classification.UNVERIFIABLE:
                verdict = Classification.SUSPICIOUS
            elif verdict is Classification.NO_DRIFT:
                verdict = Classification.VERIFIED_MAINTENANCE
        return RepairedTable(
            table_key=pin.table_key,
            published_version=pin.version,
            head_version=head,
            classification=verdict,
            operations=tuple(operations),
        )

    def _action(self, verdict: Classification) -> str:
        if verdict is Classification.NO_DRIFT:
            return "no_op"
        if not self._confirm:
            return "preview"
        if verdict is Classification.VERIFIED_MAINTENANCE:
            return "healed"
        return "forced" if self._force else "refused"

    def _pin_at_head(self, pin: Pin) -> Pin:
        table = self._publisher.tables.open_latest(pin.path)
        self._publisher.syncer.sync_tree(self._publisher.tables.folder(pin.path))
        return Pin(
            table_key=pin.table_key,
            incarnation=pin.incarnation,
            path=pin.path,
            version=table.version,
            row_count=table.count_rows(),
            transaction_uuid=table.transaction_uuid(),
            seq=0,
        )

    def _publish(self, capture: Capture, pins: list[Pin]) -> GraphCommit:
        identity = Identity(
            operation_id=self._ids.next(),
            commit_id=self._ids.next(),
            kind="repair",
            actor_id=f"{REPAIR_ACTOR}:force" if self._force else REPAIR_ACTOR,
            created_at_us=time.time_ns() // 1000,
            schema_hash=capture.head.schema_hash,
        )
        try:
            return self._publisher.publish_pins(capture, identity, self._ids.next(), pins)
        except Lost:
            raise ConflictError("somebody wrote meanwhile", hint="try again") from None
