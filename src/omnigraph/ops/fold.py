"""Keeps one-row commits cheap: folds the tail of small fragments a table gathers.

Runs after a write that made a tail long, as a commit of its own that changes no row. If somebody
else is writing, it is skipped: the next write tries again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from omnigraph.catalog import AcceptedSchema, EdgeType, NodeType
from omnigraph.errors import OmniGraphError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.ids import UlidSource
from omnigraph.limits import FOLD_FRAGMENTS, FOLD_ROWS
from omnigraph.manifest import Capture, Effect, Identity, Lost, Pin, Publisher
from omnigraph.store import KeyProbe, Table
from omnigraph.store.maintenance import commit_rewrite, index_tail, rewrite_small_fragments


def indexed_columns(entity: NodeType | EdgeType) -> tuple[str, ...]:
    """Return the columns every write probes: ids, endpoints and the first of each unique tuple."""
    implicit = ("id", "src", "dst") if isinstance(entity, EdgeType) else ("id",)
    uniques = tuple(sorted({item.columns[0] for item in entity.uniques} - set(implicit)))
    return implicit + uniques


class Folding:
    """Folds tails of one graph."""

    def __init__(self, publisher: Publisher, probe: KeyProbe, ids: UlidSource) -> None:
        self._publisher = publisher
        self._probe = probe
        self._ids = ids

    def run_if_due(self, schema: AcceptedSchema) -> int:
        """Fold the tables the newest commit touched whose tail has grown long."""
        capture = self._publisher.coordinator.capture(fresh=False)
        if capture.head.schema_hash != schema.ir_hash():
            return 0
        touched = [
            entity
            for entity in schema.catalog.entities()
            if (pin := capture.pins.get(entity.table_key)) and pin.seq == capture.version
        ]
        folded = 0
        for entity in touched:
            pin = capture.pins[entity.table_key]
            try:
                table = self._publisher.tables.open(pin.path, pin.version)
                fragments, rows = self._probe.tail(table)
                if fragments >= FOLD_FRAGMENTS or rows >= FOLD_ROWS:
                    folded += self._fold(capture, pin, table, indexed_columns(entity), schema)
                    capture = self._publisher.coordinator.capture(fresh=False)
            except OmniGraphError:
                # The write before it stands: what could not be folded now is folded later.
                continue
        return folded

    def _fold(
        self,
        capture: Capture,
        pin: Pin,
        table: Table,
        columns: Sequence[str],
        schema: AcceptedSchema,
    ) -> int:
        results = rewrite_small_fragments(table)

        def apply() -> Table:
            fire(Failpoint.OPTIMIZE_BEFORE_COMPACT)
            moved = commit_rewrite(self._publisher.tables, table, results) if results else table
            fire(Failpoint.OPTIMIZE_AFTER_COMPACT_PRE_INDEX)
            return index_tail(self._publisher.tables, moved, columns)

        identity = Identity(
            operation_id=self._ids.next(),
            commit_id=self._ids.next(),
            kind="optimize",
            actor_id=None,
            created_at_us=time.time_ns() // 1000,
            schema_hash=capture.head.schema_hash,
        )
        try:
            self._publisher.publish_effects(
                capture, identity, self._ids.next(), [Effect(pin=pin, apply=apply)]
            )
        except Lost:
            return 0
        return 1
