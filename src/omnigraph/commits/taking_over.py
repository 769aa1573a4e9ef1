"""Starts a branch between commits that were published together.

No manifest version holds the state between them. So the branch is made from the version before,
and its first version takes over the commits up to the one that was asked for: under their own ids,
so that a later merge finds them on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph.commits.base import Base
from omnigraph.commits.changes import ChangeSet
from omnigraph.commits.groups import Group
from omnigraph.commits.identity import taken_over
from omnigraph.commits.inner_states import change_of, sum_of
from omnigraph.commits.operation import Persistence, PlainOperation, Reserve
from omnigraph.commits.records import BRANCH_CREATE, GraphCommit
from omnigraph.store import Pin


class TakeOver(PlainOperation):
    """Makes the rows of a group's first commits on a branch that was just made, and only there."""

    kind = BRANCH_CREATE
    # No other process can see the branch yet, so there is none to wait for.
    persistence = Persistence(attempts=1, reserve=Reserve.NEVER, takes_turn=False)

    def __init__(
        self, group: Group, commits: Sequence[GraphCommit], after: Mapping[str, Pin]
    ) -> None:
        self._group = group
        self._commits = commits
        self._after = after
        """The tables after the whole group."""

    def prepare(self, base: Base) -> ChangeSet:
        """Collect the rows that the commits wrote, and those they deleted."""
        changes = ChangeSet(chain=taken_over(self._commits, self._group), alone=True)
        touched = [self._group.touched_by(item.graph_commit_id) for item in self._commits]
        for key in sorted({key for part in touched for key in part}):
            pin = self._after[key]
            entity = base.schema.catalog.entity_of_table(key)
            rows = sum_of([part[key] for part in touched if key in part])
            after = base.tables.open(pin.path, pin.version)
            changes.tables[key] = change_of(after, entity, rows)
        return changes
