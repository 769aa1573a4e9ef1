"""Undoes what interrupted writes left above published versions, as a commit that changes no row."""

from __future__ import annotations

from omnigraph.commits.base import Base
from omnigraph.commits.changes import ChangeSet, TableStep
from omnigraph.commits.intents import Intent
from omnigraph.commits.operation import Persistence, PlainOperation, Reserve
from omnigraph.commits.records import RECOVERY, GraphCommit
from omnigraph.commits.recovery import Recovery
from omnigraph.store.tables.steps import GoBack


class ClearLeftovers(PlainOperation):
    """The operation. It yields to any living writer: what it is moving is its own business."""

    kind = RECOVERY
    persistence = Persistence(attempts=1, reserve=Reserve.NEVER, waits=False, takes_turn=False)

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery

    def prepare(self, base: Base) -> ChangeSet:
        """Find the tables that stand above their published version without a slot to explain it."""
        pins = self._recovery.leftovers(base.capture)
        return ChangeSet(
            steps=tuple(TableStep(table_key=pin.table_key, step=GoBack()) for pin in pins)
        )

    def finish(self, intent: Intent | None, commit: GraphCommit | None) -> None:
        """Record what was undone."""
        if intent is not None and commit is not None:
            self._recovery.record(intent, commit)
