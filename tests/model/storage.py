"""The storage of the model: what a bucket holds, the requests to it, and what must always hold.

A manifest version is the whole history: one entry per version, each a commit id and the published
version of every table. So its number is its length. The content of a table version counts how
often each write was applied, two bits for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ABSENT, LIVE, DELETED = 0, 1, 2
PENDING, KEPT = 1, 2
NO_OWNER = -1
RESTORE = -1
UNSTAGED = -2
LEFTOVER = -3
GONE = -99
"""A content that no published version may have."""

Pins = tuple[int, ...]
View = tuple[tuple[int, Pins], ...]
TableVersion = tuple[int, int, int]
"""Number, transaction id, content."""


class Intent(NamedTuple):
    """What the owner of a slot is about to do; tables as (table, expected version, transaction)."""

    commit: int
    rollback: int
    tables: tuple[tuple[int, int, int], ...]


class Slot(NamedTuple):
    """A slot, by the head it is for. Without an owner it was left behind."""

    head: int
    owner: int
    intent: Intent


class Line(NamedTuple):
    """One life of a branch."""

    state: int
    files: tuple[View, ...]
    tables: tuple[tuple[TableVersion, ...], ...]
    slots: tuple[Slot, ...]
    floor: int
    removed: int
    """The highest manifest version that was ever removed."""
    life: int
    after: tuple[int, ...]
    """Commits made from what was captured in an earlier life."""


class Shared(NamedTuple):
    """Everything outside the processes. `lost` and `dead` are sets of processes, as bits."""

    lines: tuple[Line, ...]
    acks: tuple[int, ...]
    """Per write: 0, or 1 + the line it was acknowledged on."""
    lost: int
    dead: int
    tag: tuple[int, int]


def new_line(state: int, tables: int, *, leftover: bool = False) -> Line:
    """Return a line with one commit, and what a dead write left above the tables."""
    versions: tuple[TableVersion, ...] = ((1, 0, 0),)
    if leftover:
        versions = (*versions, (2, LEFTOVER, GONE))
    return Line(state, (((0, (1,) * tables),),), (versions,) * tables, (), 0, 0, 0, ())


def ids(view: View) -> list[int]:
    """Return the lineage of a manifest version."""
    return [commit for commit, _pins in view]


def with_line(shared: Shared, at: int, line: Line) -> Shared:
    """Return the state with another line in a place."""
    return shared._replace(lines=(*shared.lines[:at], line, *shared.lines[at + 1 :]))


def latest(line: Line) -> View:
    """List the manifest and read its newest version."""
    return line.files[-1]


def has_version(line: Line, number: int) -> bool:
    """Whether a manifest version's file is there."""
    return any(len(view) == number for view in line.files)


def create_version(line: Line, view: View, life: int | None = None) -> Line | None:
    """Create a manifest version's file; None when there is one of that number."""
    if has_version(line, len(view)):
        return None
    after = line.after if life in (None, line.life) else (*line.after, view[-1][0])
    return line._replace(files=tuple(sorted((*line.files, view), key=len)), after=after)


def head_of(line: Line, table: int) -> int:
    """Return a table's newest version."""
    return line.tables[table][-1][0]


def table_version(line: Line, table: int, number: int) -> TableVersion | None:
    """Return one version of a table, if it is there."""
    return next((item for item in line.tables[table] if item[0] == number), None)


def add_table_version(line: Line, table: int, version: TableVersion) -> Line:
    """Create a table version's file."""
    versions = tuple(sorted((*line.tables[table], version)))
    return line._replace(tables=(*line.tables[:table], versions, *line.tables[table + 1 :]))


def restored(line: Line, table: int, number: int) -> Line | None:
    """Make an older version of a table its newest again; None when it is gone."""
    old = table_version(line, table, number)
    if old is None:
        return None
    return add_table_version(line, table, (head_of(line, table) + 1, RESTORE, old[2]))


def slot_at(line: Line, head: int) -> Slot | None:
    """Return the slot for a head."""
    return next((slot for slot in line.slots if slot.head == head), None)


def put_slot(line: Line, slot: Slot) -> Line:
    """Create or replace a slot."""
    others = (item for item in line.slots if item.head != slot.head)
    return line._replace(slots=tuple(sorted((*others, slot))))


def delete_slot(line: Line, head: int) -> Line:
    """Delete a slot, whoever owns it by now."""
    return line._replace(slots=tuple(item for item in line.slots if item.head != head))


def pins_at(view: View, number: int) -> Pins:
    """Return what was published at a manifest version."""
    return view[number - 1][1]


def problem(shared: Shared, effects: Mapping[int, tuple[int, ...]]) -> str | None:
    """Return the property this state violates, and how; None when all hold."""
    for at, line in enumerate(shared.lines):
        for write, ack in enumerate(shared.acks):
            if ack == at + 1:
                if line.state == LIVE and write + 1 not in ids(latest(line)):
                    return f"P1: write {write + 1} was acknowledged and is not in the lineage"
                if write + 1 in line.after:
                    return f"P1: write {write + 1} was acknowledged in another life of its branch"
        if line.state == LIVE:
            found = _problem_of(line, shared.tag if at == 0 else (0, 0), effects)
            if found is not None:
                return found
    return None


def _problem_of(
    line: Line, tag: tuple[int, int], effects: Mapping[int, tuple[int, ...]]
) -> str | None:
    view = latest(line)
    lineage = ids(view)
    if len(set(lineage)) < len(lineage):
        return f"P1: a commit is twice in the lineage {lineage}"
    stored = {len(item): item for item in line.files}
    content = [0] * len(line.tables)
    for number, (commit, pins) in enumerate(view, start=1):
        change = effects.get(commit)
        if change is not None:
            content = [was + added for was, added in zip(content, change, strict=True)]
        if number < line.floor and tag != (number, KEPT):
            continue
        if stored.get(number) is None:
            return f"P2: version {number} may be read and is gone"
        if stored[number] != view[:number]:
            return f"P2: version {number} may be read and has changed"
        for table, pin in enumerate(pins):
            at = table_version(line, table, pin)
            if at is None:
                return f"P3: version {number} names version {pin} of table {table}, which is gone"
            if at[2] != content[table]:
                return f"P3: table {table} at version {number} is not what its commits made"
    return None
