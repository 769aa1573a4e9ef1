"""Keeps one-row commits cheap: folds the tail of small fragments a table gathers.

Runs after a write that made a tail long, as a commit of its own that changes no row. If another
process is writing, it is skipped, and the next write tries again; but not for ever.
"""

from __future__ import annotations

from omnigraph.catalog import AcceptedSchema, EdgeType, NodeType
from omnigraph.clock import now_us
from omnigraph.errors import OmniGraphError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.ids import UlidSource
from omnigraph.limits import FOLD_FRAGMENTS, FOLD_ROWS
from omnigraph.manifest import Capture, Effect, Identity, Lost, Publisher, Recovery
from omnigraph.store import HeldSlot, KeyProbe, Table
from omnigraph.store.maintenance import (
    commit_rewrite,
    index_tail,
    require_current,
    rewrite_small_fragments,
)
from omnigraph.write.turn import Turn

OVERDUE = 2.0
"""Times the length at which a tail is folded, from which on others have to wait for it."""
RESERVE_ATTEMPTS = 4


def indexed_columns(entity: NodeType | EdgeType) -> tuple[str, ...]:
    """Return the columns every write probes: ids, endpoints and the first of each unique tuple."""
    implicit = ("id", "src", "dst") if isinstance(entity, EdgeType) else ("id",)
    uniques = tuple(sorted({item.columns[0] for item in entity.uniques} - set(implicit)))
    return implicit + uniques


class Folding:
    """Folds tails of one branch.

    It takes its turn among the writers of this process: beside them it would hardly ever come
    first, and each of them would try.
    """

    def __init__(
        self,
        publisher: Publisher,
        recovery: Recovery,
        probe: KeyProbe,
        ids: UlidSource,
        turn: Turn,
    ) -> None:
        self._publisher = publisher
        self._recovery = recovery
        self._probe = probe
        self._ids = ids
        self._turn = turn

    def run_if_due(self, schema: AcceptedSchema) -> int:
        """Fold the tables the newest commit touched whose tail has grown long."""
        if not self._due(schema):
            return 0
        with self._turn:
            # Whoever had the turn before may have folded them.
            due = self._due(schema)
            return sum(self._fold(schema, entity, overdue=overdue) for entity, overdue in due)

    def _due(self, schema: AcceptedSchema) -> list[tuple[NodeType | EdgeType, bool]]:
        """Return the tables to fold, and of each whether that was put off for long."""
        capture = self._publisher.coordinator.capture(fresh=False)
        if capture.head.schema_hash != schema.ir_hash():
            return []
        found: list[tuple[NodeType | EdgeType, bool]] = []
        for entity in schema.catalog.entities():
            pin = capture.pins.get(entity.table_key)
            if pin is None or pin.seq != capture.version:
                continue
            try:
                table = self._publisher.tables.open(pin.path, pin.version)
                fragments, rows = self._probe.tail(table)
            except OmniGraphError:
                # The write before it stands: what could not be folded now is folded later.
                continue
            length = max(fragments / FOLD_FRAGMENTS, rows / FOLD_ROWS)
            if length >= 1:
                found.append((entity, length >= OVERDUE))
        return found

    def _fold(self, schema: AcceptedSchema, entity: NodeType | EdgeType, *, overdue: bool) -> int:
        slot: HeldSlot | None = None
        try:
            capture = self._publisher.coordinator.capture(fresh=False)
            identity = self._identity(schema)
            if overdue:
                # Writers of other processes kept coming first: now they wait for this one.
                capture, slot = self._reserve(identity)
                if slot is None:
                    return 0
            self._fold_at(capture, entity, identity, slot)
        except (Lost, OmniGraphError):
            return 0
        return 1

    def _reserve(self, identity: Identity) -> tuple[Capture, HeldSlot | None]:
        capture, slot = self._publisher.coordinator.capture(), None
        for _attempt in range(RESERVE_ATTEMPTS):
            if capture.head.schema_hash == identity.schema_hash:
                slot = self._publisher.reserve(capture, identity, self._ids.next())
            if slot is not None:
                break
            capture = self._publisher.coordinator.capture()
        return capture, slot

    def _fold_at(
        self,
        capture: Capture,
        entity: NodeType | EdgeType,
        identity: Identity,
        slot: HeldSlot | None,
    ) -> None:
        pin = capture.pins[entity.table_key]
        try:
            table = self._publisher.tables.open(pin.path, pin.version)
            results = rewrite_small_fragments(table)
        except BaseException:
            if slot is not None:
                slot.remove()
            raise

        def apply() -> Table:
            fire(Failpoint.OPTIMIZE_BEFORE_COMPACT)
            require_current(self._publisher.tables, table)
            moved = commit_rewrite(self._publisher.tables, table, results) if results else table
            fire(Failpoint.OPTIMIZE_AFTER_COMPACT_PRE_INDEX)
            return index_tail(self._publisher.tables, moved, indexed_columns(entity))

        self._recovery.publish_effects(
            capture,
            identity,
            self._ids.next(),
            [Effect(pin=pin, apply=apply)],
            reserved=slot,
        )

    def _identity(self, schema: AcceptedSchema) -> Identity:
        return Identity(
            operation_id=self._ids.next(),
            commit_id=self._ids.next(),
            kind="optimize",
            actor_id=None,
            created_at_us=now_us(),
            schema_hash=schema.ir_hash(),
        )
