"""Resolves what only a person may decide: tables another program changed, indexes that are lost.

What was done past this engine is published, or undone, as told; nothing is guessed.
"""

from __future__ import annotations

import msgspec

from omnigraph.commits import (
    Base,
    ChangeSet,
    GraphCommit,
    Persistence,
    PlainOperation,
    Reserve,
    TableStep,
    Writer,
)
from omnigraph.errors import BadRequestError, ConflictError
from omnigraph.store import Pin, Standing, standing
from omnigraph.store.tables.compaction import misplaced_indexes
from omnigraph.store.tables.steps import Adopt, DropLostIndexes, GoBack, UnstagedStep
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
_STEPS: dict[str, UnstagedStep] = {
    "healed": Adopt(),
    "forced": Adopt(),
    "discarded": GoBack(drop_foreign=True),
    "reindexed": DropLostIndexes(),
}


class Repair(PlainOperation):
    """Looks at one branch; with `confirm` it acts.

    It publishes what provably changed no row, with `force` also what did; with `discard` it goes
    back to the published versions instead.
    """

    kind = "repair"
    persistence = Persistence(
        attempts=1,
        reserve=Reserve.NEVER,
        waits=False,
        takes_turn=False,
        given_up="another writer was first",
    )

    def __init__(
        self,
        writer: Writer,
        *,
        confirm: bool = False,
        force: bool = False,
        discard: bool = False,
    ) -> None:
        if force and not confirm:
            raise BadRequestError("force publishes unchecked changes", hint="give confirm as well")
        if discard and not confirm:
            raise BadRequestError(
                "discard drops another program's changes", hint="give confirm as well"
            )
        if discard and force:
            raise BadRequestError("force keeps the changes, discard drops them: give one of them")
        self._writer = writer
        self._tables = writer.publisher.tables
        self._own: list[Pin] = []
        self._found: list[RepairedTable] = []
        self._confirm = confirm
        self._force = force
        self._discard = discard

    def run(self) -> tuple[GraphCommit | None, list[RepairedTable]]:
        """Classify every table and do what may be done."""
        publisher = self._writer.publisher
        if publisher.slots.exists(publisher.manifest.capture().slot):
            raise ConflictError(
                "a write is under way or waits for recovery", hint="run recover, then try again"
            )
        actor = f"{REPAIR_ACTOR}:force" if self._force else REPAIR_ACTOR
        commit, _changes = self._writer.maintain(self, actor_id=actor)
        for pin in self._own:
            self._tables.drifted.discard(pin.path)
        return commit, self._found

    def prepare(self, base: Base) -> ChangeSet:
        """Judge every table of the branch's own."""
        state = base.capture
        self._own = [p for p in state.pins.values() if state.branch.owns(p.table_branch)]
        self._found = [self._judged(pin) for pin in self._own]
        steps = [
            TableStep(table_key=item.table_key, step=_STEPS[item.action])
            for item in self._found
            if item.action in _STEPS
        ]
        return ChangeSet(steps=tuple(steps))

    def _judged(self, pin: Pin) -> RepairedTable:
        status = standing(self._tables, pin.path, pin.version)
        kind = _CLASSES[status.verdict]
        if kind is Classification.NO_DRIFT and self._lost_indexes(pin):
            kind = Classification.LOST_INDEX
        table = RepairedTable(
            table_key=pin.table_key,
            published_version=pin.version,
            head_version=status.head,
            classification=kind,
            operations=tuple(note.operation for note in status.notes),
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
