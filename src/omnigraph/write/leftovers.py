"""Undoes what interrupted writes left above published versions, as a commit that changes no row."""

from __future__ import annotations

from omnigraph.manifest import RECOVERY, GraphCommit, Intent, Recovery
from omnigraph.store.steps import GoBack
from omnigraph.write.base import Base
from omnigraph.write.changes import ChangeSet, TableStep
from omnigraph.write.operation import Persistence, PlainOperation, Reserve


class ClearLeftovers(PlainOperation):
    """The operation. It yields to any living writer: what it is moving is its own business."""

    kind = RECOVERY
    persistence = Persistence(attempts=1, reserve=Reserve.NEVER, waits=False, takes_turn=False)

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery

    def prepare(self, base: Base) -> ChangeSet:
        """Find the tables that stand above their published version without a slot to explain it."""
        found = self._recovery.leftovers(base.capture)
        return ChangeSet(
            steps=tuple(TableStep(table_key=pin.table_key, step=GoBack()) for pin in found)
        )

    def finish(self, intent: Intent | None, commit: GraphCommit | None) -> None:
        """Record what was undone."""
        if intent is not None and commit is not None:
            self._recovery.record(intent, commit)
