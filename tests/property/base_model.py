"""What a merge starts from, once more and row by row: several common ancestors merged into one.

Also which edges are one edge under two ids. Written on single rows, without Arrow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.faults.model import Row


@dataclass(frozen=True, slots=True)
class Start:
    """A row of a virtual base: absent, known, known in part, or not known at all."""

    row: Row | None = None
    unknown: bool = False
    undefined: frozenset[str] = frozenset()
    joined: frozenset[str] = frozenset()

    @property
    def whole(self) -> bool:
        return self.row is not None and not self.unknown and not self.undefined


ABSENT = Start()
UNKNOWN = Start(unknown=True)


def _equal(start: Start, row: Row | None) -> set[str]:
    """Return the columns in which a row is as at the start."""
    if start.row is None or row is None:
        return set()
    return {name for name in row if name not in start.undefined and start.row[name] == row[name]}


def settled(start: Start, one: Row, other: Row) -> Start:
    """Return a start as two rows see it: what they agree on is known, what is a guess is not."""
    agreed = {name for name in one if one[name] == other[name]}
    if start.unknown:
        row: Row = dict(one)
        return Start(row, undefined=frozenset(one.keys() - agreed))
    if start.row is None:
        return start
    known = {n: one[n] if n in start.undefined & agreed else start.row[n] for n in one}
    undefined = start.undefined - agreed
    moved = all(undefined or row != known for row in (one, other))
    if moved:
        undefined |= start.joined - agreed
    return Start(known, undefined=undefined)


def joined(left: Start, right: Start, base: Start) -> Start:
    """Merge two rows from what they have in common."""
    if left.unknown or right.unknown:
        return UNKNOWN
    if left.row is None or right.row is None:
        one = left if left.row is not None else right
        if one.row is None:
            return ABSENT
        if base.unknown:
            return UNKNOWN
        if base.row is None:
            return one
        same = not one.undefined and not base.undefined and one.row == base.row
        return ABSENT if same else UNKNOWN
    start = settled(base, left.row, right.row)
    lost = left.undefined | right.undefined
    found, undefined = dict(left.row), set(lost)
    here = _equal(start, left.row) - left.undefined
    there = _equal(start, right.row) - right.undefined
    both = len(here) < len(left.row) and len(there) < len(right.row)
    mixed = set(left.joined | right.joined)
    for name in left.row.keys() - lost:
        if left.row[name] == right.row[name]:
            continue
        if (name in here) == (name in there):
            undefined.add(name)
            continue
        if name in here:
            found[name] = right.row[name]
        if both:
            mixed.add(name)
    return Start(found, undefined=frozenset(undefined), joined=frozenset(mixed))


# ---- edges --------------------------------------------------------------------------------

Rows = dict[str, Row]
Starts = dict[str, Start]


@dataclass(slots=True)
class Edges:
    """The edges of one type on both sides and at the start, each under one id."""

    base: Starts
    theirs: Rows
    ours: Rows
    forced: set[str] = field(default_factory=set)
    """Deleted on one side, and on the other there under an id that side did not know."""


def one_id(edges: Edges) -> None:
    """Put edges with the same ends under the id the target has."""
    _crossed(edges)
    base, theirs, ours = edges.base, edges.theirs, edges.ours
    new_there, new_here = theirs.keys() - base.keys(), ours.keys() - base.keys()
    added = _matches(new_there, new_here, _ends(theirs), _ends(ours))
    added = {other: mine for other, mine in added.items() if mine == other or mine not in theirs}
    gone_here = {d for d in base.keys() - ours.keys() if base[d].row is not None}
    gone_there = {d for d in base.keys() - theirs.keys() if base[d].row is not None}
    here = _matches(gone_here, new_here, _starts(base), _ends(ours))
    there = _matches(gone_there, new_there, _starts(base), _ends(theirs))
    for other, mine in added.items():
        theirs[mine] = theirs.pop(other)
    for old, new in here.items():
        if old in there or new in added.values() or _untouched(base[old], theirs.get(old)):
            continue
        if new in theirs:
            continue
        start = base.pop(old)
        base[new] = start
        if old in theirs:
            theirs[new] = theirs.pop(old)
        else:
            edges.forced.add(new)
    for old, new in there.items():
        if old in here or new in added or _untouched(base[old], ours.get(old)):
            continue
        if new in ours:
            continue
        if old in ours:
            theirs[old] = theirs.pop(new)
        else:
            base[new] = base.pop(old)
            edges.forced.add(new)


def _crossed(edges: Edges) -> None:
    base, theirs, ours = edges.base, edges.theirs, edges.ours
    known = {name for name in base if base[name].row is not None}
    only_here, only_there = known & ours.keys() - theirs.keys(), known & theirs.keys() - ours.keys()
    for mine, other in _matches(only_here, only_there, _starts(base), _starts(base)).items():
        first, second = base[mine], base.pop(other)
        if not (first.whole and second.whole and first.row == second.row):
            base[mine] = UNKNOWN
        theirs[mine] = theirs.pop(other)


def _untouched(start: Start, row: Row | None) -> bool:
    return start.whole and row == start.row


Key = Callable[[str], tuple[str, str] | None]


def _ends(rows: Rows) -> Key:
    return lambda name: (rows[name]["src"], rows[name]["dst"])


def _starts(base: Starts) -> Key:
    def key(name: str) -> tuple[str, str] | None:
        start = base[name]
        if start.row is None or start.undefined & {"src", "dst"}:
            return None
        return start.row["src"], start.row["dst"]

    return key


def _matches(left: set[str], right: set[str], one: Key, other: Key) -> dict[str, str]:
    found = {other(name): name for name in sorted(right) if other(name) is not None}
    return {name: found[one(name)] for name in sorted(left) if one(name) in found}
