"""The manifest folded in memory: published versions, history and head, at any manifest version."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from omnigraph.commits.groups import Group
from omnigraph.commits.records import (
    MAINTENANCE_KINDS,
    RECOVERY,
    RECOVERY_ACTOR,
    GraphCommit,
    Record,
    TableRecord,
    Tombstone,
)
from omnigraph.store import Pin, Place


class History:
    """Everything the manifest says, grown as rows arrive. Folding a row twice changes nothing."""

    def __init__(self) -> None:
        self.commits: dict[str, GraphCommit] = {}
        self.by_operation: dict[str, GraphCommit] = {}
        self.origins = 0
        """Commits without a parent; a graph has one."""
        self._groups: dict[int, Group] = {}
        self._order: list[GraphCommit] = []
        self._tables: dict[tuple[str, int], TableRecord] = {}
        self._pins: dict[tuple[str, int], list[Pin | Tombstone]] = {}

    def fold(self, records: Iterable[Record]) -> None:
        """Take in records, in any order."""
        for item in records:
            match item:
                case GraphCommit():
                    self._fold_commit(item)
                case Pin() | Tombstone():
                    self._fold_pin(item)
                case TableRecord():
                    self._tables[(item.table_key, item.incarnation)] = item
                case Group():
                    self._groups[item.seq] = item

    def to(self, version: int) -> History:
        """Return a ledger of its own that ends at a manifest version."""
        found = History()
        found._order = self.commits_to(version)
        found.commits = {commit.graph_commit_id: commit for commit in found._order}
        found.origins = sum(commit.parent_commit_id is None for commit in found._order)
        found.by_operation = {commit.operation_id: commit for commit in found._order}
        for key, history in self._pins.items():
            kept = history[: bisect_right(history, version, key=lambda pin: pin.seq)]
            if kept:
                found._pins[key] = kept
                found._tables[key] = self._tables[key]
        found._groups = {seq: group for seq, group in self._groups.items() if seq <= version}
        return found

    def _fold_commit(self, item: GraphCommit) -> None:
        if item.graph_commit_id in self.commits:
            return
        self.commits[item.graph_commit_id] = item
        self.origins += item.parent_commit_id is None
        self.by_operation[item.operation_id] = item
        self._order.append(item)
        if len(self._order) > 1 and _position(self._order[-2]) > _position(item):
            self._order.sort(key=_position)

    def _fold_pin(self, item: Pin | Tombstone) -> None:
        history = self._pins.setdefault((item.table_key, item.incarnation), [])
        if not history or history[-1].seq < item.seq:
            history.append(item)
        elif not any(known.seq == item.seq for known in history):
            history.append(item)
            history.sort(key=lambda pin: pin.seq)

    def group_of(self, commit: GraphCommit) -> Group | None:
        """Return the commits that a commit was published with; None when it was published alone."""
        return self._groups.get(commit.manifest_version)

    def group_until(self, commit: GraphCommit) -> tuple[Group, list[GraphCommit]]:
        """Return the group of a commit, and its commits up to that one."""
        group = self._groups[commit.manifest_version]
        names = [member.commit_id for member in group.members]
        until = names.index(commit.graph_commit_id) + 1
        return group, [self.commits[name] for name in names[:until]]

    def is_group(self, version: int) -> bool:
        """Whether several commits were published as a manifest version."""
        return version in self._groups

    def is_last(self, commit: GraphCommit) -> bool:
        """Whether a commit made the state of its manifest version: no other one follows in it."""
        group = self.group_of(commit)
        return group is None or group.members[-1].commit_id == commit.graph_commit_id

    def author(self, version: int, table_key: str, entity_id: str) -> GraphCommit:
        """Return the commit of a manifest version that touched a row."""
        group = self._groups.get(version)
        found = None if group is None else group.author(table_key, entity_id)
        return self.head_at(version) if found is None else self.commits[found]

    def head_at(self, version: int) -> GraphCommit:
        """Return the newest commit of a manifest version."""
        index = bisect_right(self._order, version, key=lambda commit: commit.manifest_version)
        return self._order[index - 1]

    def pins_at(self, version: int) -> Mapping[str, Pin]:
        """Return the published version of every table at a manifest version, by table key."""
        found: dict[str, Pin] = {}
        for key in sorted(self._pins):
            history = self._pins[key]
            index = bisect_right(history, version, key=lambda pin: pin.seq)
            if index > 0:
                pin = history[index - 1]
                if isinstance(pin, Tombstone):
                    continue
                other = found.get(pin.table_key)
                if other is None or other.incarnation < pin.incarnation:
                    found[pin.table_key] = pin
        return found

    def pin_history(self, table_key: str, version: int) -> list[Pin]:
        """Return every published version of a table up to a manifest version, oldest first.

        A table is followed through its renames: under whatever key, it is the same table.
        """
        live = self.pins_at(version).get(table_key)
        found = [
            pin
            for (_key, incarnation), history in self._pins.items()
            if live is not None and incarnation == live.incarnation
            for pin in history
            if isinstance(pin, Pin) and pin.seq <= version
        ]
        return sorted(found, key=lambda pin: pin.seq)

    def only_maintenance(self, pin: Pin, *, since: Place) -> bool:
        """Whether a table's rows are still those of an earlier published version of it.

        The commits that published its versions tell: some kinds change no row. A rollback goes
        back to what was published before it.
        """
        history = self.pin_history(pin.table_key, pin.seq)
        known = [number for number, item in enumerate(history) if item.place == since]
        return bool(known) and all(
            self._left_rows_alone(item.seq) for item in history[known[-1] + 1 :]
        )

    def _left_rows_alone(self, version: int) -> bool:
        commit = self.head_at(version)
        return commit.manifest_version == version and (
            commit.kind in MAINTENANCE_KINDS
            or (commit.kind == RECOVERY and commit.actor_id == RECOVERY_ACTOR)
        )

    def paths(self) -> set[str]:
        """Return where every table that was ever registered lies."""
        return {item.path for item in self._tables.values()}

    def grew_from(self, pin: Pin | None, origin: Pin | None) -> bool:
        """Whether a table's state came out of another one, step by step, on this branch.

        Only then do version numbers along the way mean anything.
        """
        if pin is None or origin is None or origin.seq > pin.seq:
            return False
        history = self._pins.get((pin.table_key, pin.incarnation), [])
        index = bisect_right(history, origin.seq, key=lambda known: known.seq) - 1
        if index < 0:
            return False
        before = history[index]
        return isinstance(before, Pin) and (before.path, before.version) == (
            origin.path,
            origin.version,
        )

    def commits_to(self, version: int) -> list[GraphCommit]:
        """Return the commits up to a manifest version, oldest first."""
        index = bisect_right(self._order, version, key=lambda commit: commit.manifest_version)
        return self._order[:index]

    def heads_to(self, version: int) -> list[GraphCommit]:
        """Return the last commit of every manifest version up to one, oldest first."""
        return [commit for commit in self.commits_to(version) if self.is_last(commit)]


def _position(commit: GraphCommit) -> tuple[int, int]:
    return commit.manifest_version, commit.place
