"""A graph with branches as plain dictionaries: every commit keeps a full copy of its rows.

The three-way merge is written down here once more, row by row, straight from its truth table. The
engine gives the model commit ids and parents, never a row.
"""

from __future__ import annotations

import copy
import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import omnigraph as og
from tests.faults.model import EDGES, ENDS, NODES, WORKS_MAX, Model, Row
from tests.faults.rig import State
from tests.property.base_model import ABSENT, UNKNOWN, Edges, Start, joined, one_id, settled

Rows = dict[str, dict[str, Row]]
Found = set[tuple[str, str, str]]
"""Conflicts as table key, entity id and kind."""


@dataclass(slots=True)
class Commit:
    """One commit and everything the graph held after it."""

    id: str
    parents: tuple[str, ...]
    version: int
    rows: Rows


@dataclass(slots=True)
class Branch:
    """A branch: the branch it came from, and its commits with the inherited ones, oldest first."""

    life: int
    parent: int | None
    commits: list[str]
    forked_at: int = 0

    @property
    def head(self) -> str:
        return self.commits[-1]


@dataclass(slots=True)
class Merge:
    """What a merge must do."""

    outcome: str
    bases: list[str]
    rows: Rows
    conflicts: Found = field(default_factory=set)
    loose: set[tuple[str, str]] = field(default_factory=set)
    """Violations whose culprit may be either of several rows: table key and kind."""


UNIQUE = ("Works",)
"""Edges of which only one joins two nodes."""


def table_key(name: str) -> str:
    return f"{'node' if name in NODES else 'edge'}:{name}"


class World:
    """All branches, tags and commits."""

    def __init__(self) -> None:
        self.commits: dict[str, Commit] = {}
        self.branches: dict[str, Branch] = {}
        self.tags: dict[str, tuple[int, str]] = {}
        self._lives = 0

    # ---- commits --------------------------------------------------------------------------

    def begin(self, genesis: og.GraphCommit) -> None:
        """Take in the first commit of an empty graph."""
        empty = Model().rows
        self.commits[genesis.graph_commit_id] = Commit(
            genesis.graph_commit_id, (), genesis.manifest_version, empty
        )
        self.branches["main"] = Branch(0, None, [genesis.graph_commit_id])

    def head(self, name: str) -> Commit:
        return self.commits[self.branches[name].head]

    def model(self, name: str) -> Model:
        """Return the rows of a branch, to be changed at will."""
        return Model(copy.deepcopy(self.head(name).rows))

    def advance(self, name: str, made: list[og.GraphCommit], rows: Rows) -> None:
        """Take in what a write added to a branch, oldest first: its commit, then maintenance."""
        for item in made:
            parents = tuple(
                p for p in (item.parent_commit_id, item.merged_parent_commit_id) if p is not None
            )
            assert parents[0] == self.branches[name].head, "a commit does not follow the head"
            self.commits[item.graph_commit_id] = Commit(
                item.graph_commit_id, parents, item.manifest_version, copy.deepcopy(rows)
            )
            self.branches[name].commits.append(item.graph_commit_id)

    # ---- branches -------------------------------------------------------------------------

    def collision(self, name: str) -> bool:
        return any(
            name == other or name.startswith(f"{other}/") or other.startswith(f"{name}/")
            for other in self.branches
        )

    def create(self, name: str, source: str, commit_id: str) -> None:
        """Make a branch at a commit that lies in the history of a branch."""
        home = self.branches[source]
        version = self.commits[commit_id].version
        while home.parent is not None and version < home.forked_at:
            home = self.by_life(home.parent)
        self._lives += 1
        history = home.commits[: home.commits.index(commit_id) + 1]
        self.branches[name] = Branch(self._lives, home.life, list(history), version)

    def by_life(self, life: int) -> Branch:
        return next(item for item in self.branches.values() if item.life == life)

    def needed(self, name: str) -> bool:
        """Whether branches or tags rest on a branch."""
        life = self.branches[name].life
        children = any(item.parent == life for item in self.branches.values())
        return children or any(home == life for home, _ in self.tags.values())

    def home_of(self, name: str, commit_id: str) -> int:
        """Return which branch's own history holds a commit that a branch knows."""
        home = self.branches[name]
        version = self.commits[commit_id].version
        while home.parent is not None and version < home.forked_at:
            home = self.by_life(home.parent)
        return home.life

    # ---- merging --------------------------------------------------------------------------

    def _distances(self, head: str) -> dict[str, int]:
        """Return all ancestors of a commit, on branches that are gone too, and how far they are."""
        found = {head: 0}
        queue = deque([head])
        while queue:
            here = queue.popleft()
            for parent in self.commits[here].parents:
                if parent not in found:
                    found[parent] = found[here] + 1
                    queue.append(parent)
        return found

    def bases(self, source: str, target: str) -> list[str]:
        """Return the common ancestors of two branches that no other one grew from, in order."""
        return self._bases([self.branches[source].head], [self.branches[target].head])

    def _bases(self, one: list[str], other: list[str]) -> list[str]:
        """Return the best common ancestors: the nearest first, of equals the newest."""
        ways = [self._nearest(heads) for heads in (one, other)]
        common = ways[0].keys() & ways[1].keys()
        older = {old for item in common for old in self._distances(item) if old != item}
        return sorted(
            common - older,
            key=lambda c: (ways[0][c] + ways[1][c], -self.commits[c].version, c),
        )

    def _nearest(self, heads: list[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for head in heads:
            for name, steps in self._distances(head).items():
                found[name] = min(steps, found.get(name, steps))
        return found

    def _start(self, bases: list[str], name: str, key: str) -> Start:
        """Return a row of the state that merging from these commits starts from."""
        first, *rest = bases
        found = Start(self.commits[first].rows[name].get(key))
        for place, commit in enumerate(rest, start=1):
            older = self._bases(bases[:place], [commit])
            base = self._start(older, name, key) if older else UNKNOWN
            found = joined(found, Start(self.commits[commit].rows[name].get(key)), base)
        return found

    def merge(self, source: str, target: str, *, resolve: str | None, by_property: bool) -> Merge:
        """Say what merging must do."""
        theirs, ours = self.head(source), self.head(target)
        bases = self.bases(source, target)
        outcome = "merged"
        if theirs.id in bases:
            outcome = "already_up_to_date"
        elif ours.id in bases:
            outcome = "fast_forward"
        found = Merge(outcome, bases, copy.deepcopy(ours.rows))
        if outcome == "already_up_to_date":
            return found
        for name in (*NODES, *EDGES):
            keys = {key for c in (*bases, theirs.id, ours.id) for key in self.commits[c].rows[name]}
            starts = {key: self._start(bases, name, key) for key in keys}
            edges = Edges(
                {key: start for key, start in starts.items() if start != ABSENT},
                dict(theirs.rows[name]),
                dict(ours.rows[name]),
            )
            if name in UNIQUE:
                one_id(edges)
            _merge_type(found, name, edges, resolve, by_property)
        if not found.conflicts:
            _violations(found)
        return found


def _merge_type(
    found: Merge, name: str, edges: Edges, resolve: str | None, by_property: bool
) -> None:
    for key in edges.base.keys() | edges.theirs.keys() | edges.ours.keys():
        start, s, t = edges.base.get(key, ABSENT), edges.theirs.get(key), edges.ours.get(key)
        if s is not None and t is not None:
            start = settled(start, s, t)
        kind = verdict_from(start, s, t)
        if key in edges.forced:
            kind = "delete_vs_update"
        if kind in ("take", "keep"):
            result = s if kind == "take" else t
        else:
            mixed = _join(start, s, t) if by_property and start.row and s and t else None
            if mixed is not None:
                result = mixed
            elif resolve is None:
                found.conflicts.add((table_key(name), key, kind))
                continue
            else:
                result = t if resolve == "ours" else s
        if result is None:
            found.rows[name].pop(key, None)
        else:
            found.rows[name][key] = dict(result)


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


def _join(start: Start, s: Row, t: Row) -> Row | None:
    """Join two updates that changed different properties."""
    found, b = dict(t), start.row or {}
    for key in s:
        if s[key] == t[key] or (key not in start.undefined and s[key] == b[key]):
            continue
        if key in start.undefined or t[key] != b[key]:
            return None
        found[key] = s[key]
    return found


def _violations(found: Merge) -> None:
    for edge, (source, target) in ENDS.items():
        for key, row in found.rows[edge].items():
            if row["src"] not in found.rows[source] or row["dst"] not in found.rows[target]:
                found.conflicts.add((table_key(edge), key, "orphan_edge"))
    works = [(row["src"], row["dst"]) for row in found.rows["Works"].values()]
    if len(set(works)) < len(works):
        found.loose.add(("edge:Works", "unique_violation"))
    sources = [src for src, _ in works]
    if any(sources.count(src) > WORKS_MAX for src in set(sources)):
        found.loose.add(("edge:Works", "cardinality_violation"))


def state(rows: Rows) -> State:
    """Return what an export must hold."""
    return Model(rows).state()


def canonical(found: dict[str, Any]) -> str:
    return json.dumps(found, sort_keys=True)
