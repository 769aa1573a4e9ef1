"""A graph with branches as plain dictionaries: every commit keeps a full copy of its rows.

The three-way merge is that of `merge_model`. The engine gives the model commit ids and parents,
never a row.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

import omnigraph as og
from tests.faults.model import EDGES, ENDS, NODES, WORKS_MAX, Model, Row
from tests.faults.rig import State
from tests.property.merge_model import Ancestry, commits_of, merge_type, starts

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
    schema_hash: str = ""


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


def table_key(name: str) -> str:
    return f"{'node' if name in NODES else 'edge'}:{name}"


class World:
    """All branches, tags and commits."""

    def __init__(self) -> None:
        self.commits: dict[str, Commit] = {}
        self.branches: dict[str, Branch] = {}
        self.tags: dict[str, tuple[int, str]] = {}
        self._lives = 0
        self._ancestry = Ancestry()

    # ---- commits --------------------------------------------------------------------------

    def begin(self, genesis: og.GraphCommit) -> None:
        """Take in the first commit of an empty graph."""
        empty = Model().rows
        self._enter(Commit(genesis.graph_commit_id, (), genesis.manifest_version, empty))
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
            held = copy.deepcopy(rows)
            self._enter(Commit(item.graph_commit_id, parents, item.manifest_version, held))
            self.branches[name].commits.append(item.graph_commit_id)

    def _enter(self, commit: Commit) -> None:
        self.commits[commit.id] = commit
        self._ancestry.enter(commit)

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

    def bases(self, source: str, target: str) -> list[str]:
        """Return the common ancestors of two branches that no other one grew from, in order."""
        return self._ancestry.bases([self.branches[source].head], [self.branches[target].head])

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
        tree = self._ancestry.tree(bases)
        for name in (*NODES, *EDGES):
            states = {commit: self.commits[commit].rows[name] for commit in commits_of(tree)}
            found.rows[name], conflicts = merge_type(
                name,
                starts(tree, states),
                theirs.rows[name],
                ours.rows[name],
                resolve=resolve,
                by_property=by_property,
            )
            found.conflicts |= {(table_key(name), key, kind) for key, kind in conflicts.items()}
        if not found.conflicts:
            _violations(found)
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
