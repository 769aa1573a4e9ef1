"""Keeps one-row commits cheap: compacts the tail of small fragments a table gathers.

Runs after a write that made a tail long, as a commit of its own that changes no row. If another
process is writing, it is skipped, and the next write tries again; but not for ever.
"""

from __future__ import annotations

from omnigraph.catalog import AcceptedSchema, EdgeType, Entity
from omnigraph.commits import (
    Base,
    ChangeSet,
    Persistence,
    PlainOperation,
    Reserve,
    TableStep,
    Writer,
)
from omnigraph.errors import OmniGraphError
from omnigraph.limits import TAIL_FRAGMENTS, TAIL_ROWS
from omnigraph.store.tables.compaction import rewrite_small_fragments
from omnigraph.store.tables.steps import Compact

OVERDUE = 2.0
"""Times the length at which a tail is compacted, from which on others have to wait for it."""
_DUE = Persistence(attempts=1, reserve=Reserve.NEVER, waits=False, takes_turn=False, looks=False)
_OVERDUE = Persistence(attempts=4, reserve=Reserve.AT_ONCE, takes_turn=False)
"""Writers of other processes kept coming first: now they wait for this one."""


def indexed_columns(entity: Entity) -> tuple[str, ...]:
    """Return the columns every write asks: ids, endpoints and the first of each unique tuple."""
    implicit = ("id", "src", "dst") if isinstance(entity, EdgeType) else ("id",)
    uniques = tuple(sorted({item.columns[0] for item in entity.uniques} - set(implicit)))
    return implicit + uniques


class CompactTail(PlainOperation):
    """Compacts the tail of one table."""

    kind = "optimize"

    def __init__(self, entity: Entity, *, overdue: bool) -> None:
        self.persistence = _OVERDUE if overdue else _DUE
        self._entity = entity

    def prepare(self, base: Base) -> ChangeSet:
        """Write larger fragments."""
        rewrites = rewrite_small_fragments(base.table(self._entity))
        step = Compact(rewrites=tuple(rewrites), columns=indexed_columns(self._entity))
        return ChangeSet(steps=(TableStep(table_key=self._entity.table_key, step=step),))


class TailCompaction:
    """Compacts tails of one branch.

    It takes its turn among the writers of this process: beside them it would hardly ever come
    first, and each of them would try.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._publisher = writer.publisher

    def run_if_due(self, schema: AcceptedSchema) -> int:
        """Compact the tables the newest commit touched whose tail has grown long."""
        if not self._due(schema):
            return 0
        with self._writer.queue.turn():
            # The writer that had the turn before may have done it.
            due = self._due(schema)
            return sum(self._compact(schema, entity, overdue=overdue) for entity, overdue in due)

    def _due(self, schema: AcceptedSchema) -> list[tuple[Entity, bool]]:
        """Return the tables to compact, and of each whether that was put off for long."""
        state = self._publisher.manifest.capture(fresh=False)
        if state.head.schema_hash != schema.ir_hash():
            return []
        due: list[tuple[Entity, bool]] = []
        for entity in schema.catalog.entities():
            pin = state.pins.get(entity.table_key)
            if pin is None or pin.seq != state.version:
                continue
            try:
                table = self._publisher.tables.open(pin.path, pin.version)
                fragments, rows = self._writer.id_lookup.tail(table)
            except OmniGraphError:
                # The write before it stands: what could not be done now is done later.
                continue
            length = max(fragments / TAIL_FRAGMENTS, rows / TAIL_ROWS)
            if length >= 1:
                due.append((entity, length >= OVERDUE))
        return due

    def _compact(self, schema: AcceptedSchema, entity: Entity, *, overdue: bool) -> int:
        try:
            self._writer.maintain(CompactTail(entity, overdue=overdue), schema)
        except OmniGraphError:
            return 0
        return 1
