"""The three-way merge once more, row by row, straight from its truth table.

Where two histories parted, how several such commits are merged into one start, and what becomes of
the rows of one type. Shared by all models of a graph with branches; nothing here asks the engine.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from omnigraph.limits import MERGE_BASE_STATES_MAX
from tests.faults.model import Row
from tests.property.base_model import ABSENT, UNKNOWN, Edges, Start, joined, one_id, settled

UNIQUE = ("Works",)
"""Edges of which only one joins two nodes."""


# ---- histories ----------------------------------------------------------------------------


class Commit(Protocol):
    """What has to be known of a commit."""

    @property
    def id(self) -> str: ...
    @property
    def parents(self) -> tuple[str, ...]: ...
    @property
    def version(self) -> int: ...
    @property
    def schema_hash(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Join:
    """Commits merged into one start; `base` is what they have in common, None if not known."""

    left: Tree
    right: str
    base: Tree | None


Tree = str | Join
"""A commit, or commits merged into one start."""


def commits_of(tree: Tree | None) -> Iterator[str]:
    """Yield the commits a start is made of; some may come twice."""
    if isinstance(tree, str):
        yield tree
    elif tree is not None:
        for part in (tree.left, tree.right, tree.base):
            yield from commits_of(part)


@dataclass(slots=True)
class Ancestry:
    """All commits, entered parents first, and which grew from which."""

    commits: dict[str, Commit] = field(default_factory=dict)
    _order: list[str] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)
    _older: dict[str, int] = field(default_factory=dict)
    """Per commit the places of its ancestors and its own, as bits."""

    def enter(self, commit: Commit) -> None:
        """Take in a commit; parents that were not entered end a path."""
        self._places[commit.id] = len(self._order)
        self._order.append(commit.id)
        self.commits[commit.id] = commit
        own = 1 << self._places[commit.id]
        self._older[commit.id] = own | self._all_older(self._parents(commit.id))

    def _parents(self, name: str) -> list[str]:
        return [parent for parent in self.commits[name].parents if parent in self._places]

    def _all_older(self, names: Iterable[str]) -> int:
        found = 0
        for name in names:
            found |= self._older[name]
        return found

    def bases(self, one: Sequence[str], other: Sequence[str]) -> list[str]:
        """Return the common ancestors that no other one grew from.

        The nearest comes first, of equally near ones the newest.
        """
        common = self._all_older(one) & self._all_older(other)
        best: list[str] = []
        while common:
            # Nothing that is left was entered after it, so nothing that is left grew from it.
            best.append(self._order[common.bit_length() - 1])
            common &= ~self._older[best[-1]]
        if len(best) > 1:
            ways = [self._distances(heads, best) for heads in (one, other)]
            best.sort(key=lambda c: (ways[0][c] + ways[1][c], -self.commits[c].version, c))
        return best

    def _distances(self, heads: Sequence[str], wanted: Sequence[str]) -> dict[str, int]:
        found = dict.fromkeys(heads, 0)
        edge, steps = list(found), 0
        while edge and not all(name in found for name in wanted):
            steps += 1
            edge = [parent for name in edge for parent in self._parents(name)]
            edge = [name for name in dict.fromkeys(edge) if name not in found]
            found |= dict.fromkeys(edge, steps)
        return found

    def tree(self, bases: Sequence[str]) -> Tree:
        """Return how commits are merged into the start of a merge; there is at least one."""
        return self._tree(bases, [])

    def trees(self, bases: Sequence[str]) -> Iterator[Tree]:
        """Yield all starts of a merge: with everything known, then with older states removed.

        Only the states right before the merge are sure to be kept by a cleanup.
        """
        whole = self.tree(bases)
        yield whole
        inner = sorted({name for name in commits_of(whole) if name not in bases})
        if inner:
            yield self._tree(bases, [], frozenset(inner))
        for count in range(1, len(inner)):
            for gone in itertools.combinations(inner, count):
                yield self._tree(bases, [], frozenset(gone))

    def _tree(
        self, names: Sequence[str], looked_at: list[str], gone: frozenset[str] = frozenset()
    ) -> Tree:
        """Merge commits one after the other, each from what it has in common with those before."""
        looked_at += [name for name in names if name not in looked_at]
        found: Tree = names[0]
        for place in range(1, len(names)):
            older = self.bases(names[:place], [names[place]])
            schemas = {self.commits[name].schema_hash for name in older}
            near = len(looked_at) + len(older) <= MERGE_BASE_STATES_MAX
            known = near and schemas == {self.commits[names[0]].schema_hash}
            known = known and gone.isdisjoint(older)
            base = self._tree(older, looked_at, gone) if known else None
            found = Join(found, names[place], base)
        return found


# ---- rows ---------------------------------------------------------------------------------

Rows = Mapping[str, Row]
"""The rows of one type by id."""


def starts(tree: Tree, states: Mapping[str, Rows]) -> dict[str, Start]:
    """Return what is known of the rows of one type at the start of a merge, by id.

    `states` are the rows of that type after each of the commits in the tree.
    """
    keys = {key for commit in commits_of(tree) for key in states[commit]}
    found = {key: _start(tree, key, states) for key in sorted(keys)}
    return {key: start for key, start in found.items() if start != ABSENT}


def _start(tree: Tree | None, key: str, states: Mapping[str, Rows]) -> Start:
    if tree is None:
        return UNKNOWN
    if isinstance(tree, str):
        return Start(states[tree].get(key))
    left, right = _start(tree.left, key, states), _start(tree.right, key, states)
    return joined(left, right, _start(tree.base, key, states))


def merge_type(
    name: str,
    base: Mapping[str, Start],
    theirs: Rows,
    ours: Rows,
    *,
    resolve: str | None,
    by_property: bool,
) -> tuple[dict[str, Row], dict[str, str]]:
    """Merge the rows of one type; return them, and the kinds of what nothing decides, by id.

    Rules that span rows are not looked at.
    """
    edges = Edges(dict(base), dict(theirs), dict(ours))
    if name in UNIQUE:
        one_id(edges)
    found, conflicts = dict(ours), dict[str, str]()
    for key in sorted(edges.base.keys() | edges.theirs.keys() | edges.ours.keys()):
        start, s, t = edges.base.get(key, ABSENT), edges.theirs.get(key), edges.ours.get(key)
        if s is not None and t is not None:
            start = settled(start, s, t)
        kind = "delete_vs_update" if key in edges.forced else verdict_from(start, s, t)
        mixed = _mixed(start, s, t) if by_property else None
        if kind in ("take", "keep"):
            result = s if kind == "take" else t
        elif mixed is not None:
            result = mixed
        elif resolve is None:
            conflicts[key] = kind
            continue
        else:
            result = t if resolve == "ours" else s
        if result is None:
            found.pop(key, None)
        else:
            found[key] = dict(result)
    return found, conflicts


def verdict_from(start: Start, s: Row | None, t: Row | None) -> str:
    """Return the verdict on a row whose start may not be known, or not in every column."""
    if start.whole or start == ABSENT:
        return verdict(start.row, s, t)
    if s == t:
        return "keep"
    return "divergent_update" if s is not None and t is not None else "delete_vs_update"


def verdict(b: Row | None, s: Row | None, t: Row | None) -> str:
    """Return `take`, `keep` or the kind of the conflict: the fifteen rows of the truth table."""
    match (b is not None, s is not None, t is not None):
        case (False, False, False):
            return "keep"
        case (False, True, False):
            return "take"
        case (False, False, True):
            return "keep"
        case (False, True, True):
            return "keep" if s == t else "divergent_insert"
        case (True, True, True):
            if s == b:
                return "keep"
            if t == b:
                return "take"
            return "keep" if s == t else "divergent_update"
        case (True, False, True):
            return "take" if t == b else "delete_vs_update"
        case (True, True, False):
            return "keep" if s == b else "delete_vs_update"
        case _:
            return "keep"


def _mixed(start: Start, s: Row | None, t: Row | None) -> Row | None:
    """Join two updates that changed different properties; None if that cannot be done."""
    if start.row is None or s is None or t is None:
        return None
    found, b = dict(t), start.row
    for key in s:
        if s[key] == t[key] or (key not in start.undefined and s[key] == b[key]):
            continue
        if key in start.undefined or t[key] != b[key]:
            return None
        found[key] = s[key]
    return found
