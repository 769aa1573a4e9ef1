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
    bases: set[str]
    rows: Rows
    conflicts: Found = field(default_factory=set)
    loose: set[tuple[str, str]] = field(default_factory=set)
    """Violations whose culprit may be either of several rows: table key and kind."""


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

    def bases(self, source: str, target: str) -> set[str]:
        """Return the common ancestors no other grew from: the nearest, and of equals the newest."""
        ours = self._distances(self.branches[target].head)
        theirs = self._distances(self.branches[source].head)
        common = ours.keys() & theirs.keys()
        older = {old for item in common for old in self._distances(item) if old != item}
        ranks = {
            item: (ours[item] + theirs[item], -self.commits[item].version)
            for item in common - older
        }
        best = min(ranks.values())
        return {item for item, rank in ranks.items() if rank == best}

    def merge(
        self, source: str, target: str, base: str, *, resolve: str | None, by_property: bool
    ) -> Merge:
        """Say what merging must do from a given base."""
        theirs, ours = self.head(source), self.head(target)
        outcome = "merged"
        if base == theirs.id:
            outcome = "already_up_to_date"
        elif base == ours.id:
            outcome = "fast_forward"
        found = Merge(outcome, {base}, copy.deepcopy(ours.rows))
        if outcome == "already_up_to_date":
            return found
        for name in (*NODES, *EDGES):
            _merge_type(
                found, name, self.commits[base].rows, theirs.rows, ours.rows, resolve, by_property
            )
        if not found.conflicts:
            _violations(found)
        return found


def _merge_type(
    found: Merge,
    name: str,
    base: Rows,
    theirs: Rows,
    ours: Rows,
    resolve: str | None,
    by_property: bool,
) -> None:
    for key in base[name].keys() | theirs[name].keys() | ours[name].keys():
        b, s, t = base[name].get(key), theirs[name].get(key), ours[name].get(key)
        kind = verdict(b, s, t)
        if kind in ("take", "keep"):
            result = s if kind == "take" else t
        else:
            joined = _join(b, s, t) if by_property and b and s and t else None
            if joined is not None:
                result = joined
            elif resolve is None:
                found.conflicts.add((table_key(name), key, kind))
                continue
            else:
                result = t if resolve == "ours" else s
        if result is None:
            found.rows[name].pop(key, None)
        else:
            found.rows[name][key] = dict(result)


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


def _join(b: Row, s: Row, t: Row) -> Row | None:
    """Join two updates that changed different properties."""
    found = dict(t)
    for key in s:
        if s[key] == b[key] or s[key] == t[key]:
            continue
        if t[key] != b[key]:
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
