"""What a merge may come to, told from who changed what: no history graph, no three-way merge.

Every change of a value has an identity and replaces the changes of that value that were known
where it was made. A branch knows a set of changes. Two branches have in common the changes both
know; of these the ones that no other common one replaces are what both started from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

Row = dict[str, int]
Rows = dict[str, Row]
EXISTS = "*"
PROPERTIES = ("a", "b")


@dataclass(frozen=True, slots=True)
class Change:
    """One value given to one property of a row, or the row added (1) or deleted (0)."""

    number: int
    slug: str
    name: str
    value: int
    replaces: frozenset[int]


@dataclass(slots=True)
class OpenBranch:
    """A branch: its rows, and the changes it knows."""

    rows: Rows = field(default_factory=dict)
    known: frozenset[int] = frozenset()

    def copy(self) -> OpenBranch:
        return OpenBranch({slug: dict(row) for slug, row in self.rows.items()}, self.known)


class WrongMergeError(AssertionError):
    """A merge that was called clean undid something."""


class Changes:
    """All changes ever made."""

    def __init__(self) -> None:
        self._all: dict[int, Change] = {}
        self._numbers = count()

    # ---- making changes -------------------------------------------------------------------

    def edit(self, line: OpenBranch, rows: Rows) -> None:
        """Take in that somebody changed a branch so that it has these rows."""
        for slug in sorted(line.rows.keys() | rows.keys()):
            before, after = line.rows.get(slug), rows.get(slug)
            if after is None:
                self._add(line, slug, EXISTS, 0)
                continue
            if before is None:
                self._add(line, slug, EXISTS, 1)
            for name in PROPERTIES:
                if before is None or before[name] != after[name]:
                    self._add(line, slug, name, after[name])
        line.rows = {slug: dict(row) for slug, row in rows.items()}

    def _add(self, line: OpenBranch, slug: str, name: str, value: int) -> None:
        whole = name == EXISTS and value == 0
        replaced = {
            number
            for number in line.known
            if self._all[number].slug == slug and (whole or self._all[number].name == name)
        }
        made = Change(next(self._numbers), slug, name, value, frozenset(replaced))
        self._all[made.number] = made
        line.known |= {made.number}

    # ---- asking ---------------------------------------------------------------------------

    def _standing(self, known: frozenset[int], slug: str) -> list[Change]:
        """Return the changes of a row that no other known one replaces."""
        found = [self._all[number] for number in known if self._all[number].slug == slug]
        gone = frozenset[int]().union(*(item.replaces for item in found))
        return [item for item in found if item.number not in gone]

    def _values(self, known: frozenset[int], slug: str) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {EXISTS: set()}
        for item in self._standing(known, slug):
            found.setdefault(item.name, set()).add(item.value)
        return found

    def start(self, one: OpenBranch, other: OpenBranch, slug: str) -> tuple[bool, Row | None]:
        """Return whether it is certain what both branches started from, and that row."""
        values = self._values(one.known & other.known, slug)
        exists = values.pop(EXISTS)
        if not exists or exists == {0}:
            return not values, None
        certain = exists == {1} and all(len(found) == 1 for found in values.values())
        return certain, {name: min(found) for name, found in values.items()} if certain else None

    # ---- merging --------------------------------------------------------------------------

    def check_clean(
        self, source: OpenBranch, target: OpenBranch, rows: Rows, *, by_property: bool
    ) -> None:
        """Refuse rows that a merge without conflicts must not come to."""
        for slug in sorted(source.rows.keys() | target.rows.keys() | rows.keys()):
            theirs, ours, found = (r.get(slug) for r in (source.rows, target.rows, rows))
            certain, base = self.start(source, target, slug)
            if theirs == ours:
                allowed = found == ours
            elif not certain:
                allowed = self._stands(source.known | target.known, slug, found)
            elif theirs == base or ours == base:
                allowed = found == (ours if theirs == base else theirs)
            else:
                joined = _joined(base, theirs, ours) if by_property else None
                allowed = joined is not None and found == joined
            if not allowed:
                raise WrongMergeError(
                    f"{slug}: {base if certain else 'uncertain'} became {ours} here and {theirs} "
                    f"there, and the merge made it {found}"
                )

    def _stands(self, known: frozenset[int], slug: str, row: Row | None) -> bool:
        """Whether nothing in a row was replaced by anybody."""
        values = self._values(known, slug)
        if row is None:
            return 0 in values[EXISTS]
        return all(row[name] in values.get(name, ()) for name in PROPERTIES)

    def conflict_is_real(self, source: OpenBranch, target: OpenBranch, slug: str) -> bool:
        """Whether both sides changed a row, differently, as far as that is certain."""
        theirs, ours = source.rows.get(slug), target.rows.get(slug)
        certain, base = self.start(source, target, slug)
        return theirs != ours and (not certain or base not in (theirs, ours))

    def merge(self, source: OpenBranch, target: OpenBranch, rows: Rows, decided: set[str]) -> None:
        """Take in a merge that came to these rows; `decided` are those somebody decided on."""
        target.known |= source.known
        for slug in sorted(source.rows.keys() | target.rows.keys() | rows.keys()):
            row, values = rows.get(slug), self._values(target.known, slug)
            if row is None:
                if slug in decided or values != {EXISTS: {0}}:
                    self._add(target, slug, EXISTS, 0)
                continue
            for name, value in ((EXISTS, 1), *row.items()):
                if slug in decided or values.get(name) != {value}:
                    self._add(target, slug, name, value)
        target.rows = {slug: dict(row) for slug, row in rows.items()}


def _joined(base: Row | None, theirs: Row | None, ours: Row | None) -> Row | None:
    if base is None or theirs is None or ours is None:
        return None
    found = dict(ours)
    for name in PROPERTIES:
        if theirs[name] not in (base[name], ours[name]):
            if ours[name] != base[name]:
                return None
            found[name] = theirs[name]
    return found
