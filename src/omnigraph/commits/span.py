"""Some versions of the manifest held in memory, and what was published before them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

from omnigraph.commits.checkpoints import Checkpoint, Landmark
from omnigraph.commits.groups import Group
from omnigraph.commits.records import GraphCommit, Record, TableRecord, Tombstone
from omnigraph.store import Pin


class Span:
    """What the manifest says of the versions above `floor`, grown as rows arrive.

    Of the floor itself the newest commit is known, and which versions of tables were published.
    Folding a row twice changes nothing.
    """

    def __init__(self, start: Landmark | None = None) -> None:
        self.floor = 0
        self.commits: dict[str, GraphCommit] = {}
        self.by_operation: dict[str, GraphCommit] = {}
        self.origins = 0
        """Commits without a parent; a graph has one."""
        self.groups: dict[int, Group] = {}
        self.checkpoints: list[int] = []
        """Versions above the floor that a checkpoint tells the tables of."""
        self._order: list[GraphCommit] = []
        self._tables: dict[tuple[str, int], TableRecord] = {}
        self._pins: dict[tuple[str, int], list[Pin | Tombstone]] = {}
        if start is not None:
            self._begin(start.checkpoint.seq, start.head, start.group, start.checkpoint.pins)

    def _begin(
        self, floor: int, head: GraphCommit, group: Group | None, pins: Iterable[Pin]
    ) -> None:
        self.floor, self.origins = floor, 1
        self._order = [head]
        self.commits[head.graph_commit_id] = head
        self.by_operation[head.operation_id] = head
        if group is not None:
            self.groups[floor] = group
        for pin in pins:
            self._pins[(pin.table_key, pin.incarnation)] = [pin]

    # ---- growing --------------------------------------------------------------------------

    def take_in(self, records: Iterable[Record]) -> None:
        """Take in records, in any order."""
        for item in records:
            if self.floor and _seq(item) <= self.floor:
                continue
            match item:
                case GraphCommit():
                    self._take_commit(item)
                case Pin() | Tombstone():
                    self._take_pin(item)
                case TableRecord():
                    self._tables[(item.table_key, item.incarnation)] = item
                case Group():
                    self.groups[item.seq] = item
                case Checkpoint():
                    if item.seq not in self.checkpoints:
                        self.checkpoints.append(item.seq)
                        self.checkpoints.sort()

    def _take_commit(self, item: GraphCommit) -> None:
        if item.graph_commit_id in self.commits:
            return
        self.commits[item.graph_commit_id] = item
        self.origins += item.parent_commit_id is None
        self.by_operation[item.operation_id] = item
        self._order.append(item)
        if len(self._order) > 1 and _position(self._order[-2]) > _position(item):
            self._order.sort(key=_position)

    def _take_pin(self, item: Pin | Tombstone) -> None:
        history = self._pins.setdefault((item.table_key, item.incarnation), [])
        if not history or history[-1].seq < item.seq:
            history.append(item)
        elif not any(known.seq == item.seq for known in history):
            history.append(item)
            history.sort(key=lambda pin: pin.seq)

    def to(self, version: int) -> Span:
        """Return a span of its own that ends at a version, not below the floor."""
        return self._part(self.floor, version)

    def above(self, floor: int) -> Span:
        """Return a span of its own that begins at a later version."""
        return self._part(floor, None)

    def _part(self, floor: int, top: int | None) -> Span:
        part = Span()
        if floor:
            part._begin(
                floor, self.head_at(floor), self.groups.get(floor), self.pins_at(floor).values()
            )
        last = self.last if top is None else top
        part.take_in(commit for commit in self._order if floor < commit.manifest_version <= last)
        for history in self._pins.values():
            part.take_in(pin for pin in history if floor < pin.seq <= last)
        part.take_in(item for item in self._tables.values() if floor < item.seq <= last)
        part.groups |= {seq: item for seq, item in self.groups.items() if floor <= seq <= last}
        part.checkpoints = [seq for seq in self.checkpoints if floor < seq <= last]
        return part

    # ---- what it says ---------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The newest version known."""
        return self._order[-1].manifest_version if self._order else self.floor

    def head_at(self, version: int) -> GraphCommit:
        """Return the newest commit of a version, not below the floor."""
        index = bisect_right(self._order, version, key=lambda commit: commit.manifest_version)
        return self._order[index - 1]

    def pins_at(self, version: int) -> Mapping[str, Pin]:
        """Return the published version of every table at a version, by table key."""
        published: dict[str, Pin] = {}
        pins = self._pins.copy()
        for key in sorted(pins):
            pin = _published(pins[key], version)
            if isinstance(pin, Pin):
                other = published.get(pin.table_key)
                if other is None or other.incarnation < pin.incarnation:
                    published[pin.table_key] = pin
        return published

    def pin_at(self, table_key: str, incarnation: int, version: int) -> Pin | None:
        """Return what was published of a table under a key at a version, not below the floor."""
        pin = _published(self._pins.get((table_key, incarnation), []), version)
        return None if isinstance(pin, Tombstone) else pin

    def pins_of(self, incarnation: int, version: int) -> list[Pin]:
        """Return what was published of a table above the floor up to a version, oldest first.

        A table is followed through its renames: under whatever key, it is the same table.
        """
        pins = [
            pin
            # A copy: a writer may add a table meanwhile.
            for (_key, number), history in self._pins.copy().items()
            if number == incarnation
            for pin in history
            if isinstance(pin, Pin) and self.floor < pin.seq <= version
        ]
        return sorted(pins, key=lambda pin: pin.seq)

    def pins_between(self, after: int, to: int) -> Iterator[Pin]:
        """Yield what was published above the floor after a version up to another one."""
        low = max(after, self.floor)
        for history in self._pins.copy().values():
            start = bisect_right(history, low, key=lambda pin: pin.seq)
            end = bisect_right(history, to, key=lambda pin: pin.seq)
            yield from (pin for pin in history[start:end] if isinstance(pin, Pin))

    def pin_below(self, incarnation: int) -> Pin | None:
        """Return what was published of a table at the floor."""
        pins = self.pins_at(self.floor).values() if self.floor else ()
        return next((pin for pin in pins if pin.incarnation == incarnation), None)

    def commits_between(self, after: int, to: int) -> list[GraphCommit]:
        """Return the commits above the floor that came after a version, oldest first."""
        start = bisect_right(self._order, max(after, self.floor), key=_version)
        return self._order[start : bisect_right(self._order, to, key=_version)]

    def paths(self) -> Iterator[str]:
        """Yield where tables that were registered above the floor lie."""
        return (item.path for item in self._tables.copy().values())


def _published(history: list[Pin | Tombstone], version: int) -> Pin | Tombstone | None:
    """Return what was last said about a table up to a version, None if nothing was."""
    # Every write asks for the newest state of all tables, seldom for an older one. A slice, since
    # another thread may be adding the first.
    for newest in history[-1:]:
        if newest.seq <= version:
            return newest
    index = bisect_right(history, version, key=lambda pin: pin.seq)
    return history[index - 1] if index > 0 else None


def _seq(item: Record) -> int:
    return item.manifest_version if isinstance(item, GraphCommit) else item.seq


def _version(commit: GraphCommit) -> int:
    return commit.manifest_version


def _position(commit: GraphCommit) -> tuple[int, int]:
    return commit.manifest_version, commit.place
