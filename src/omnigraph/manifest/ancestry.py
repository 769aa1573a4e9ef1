"""Finds where two histories parted, and which deleted branches that may still depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from omnigraph.manifest.records import GraphCommit

Lookup = Callable[[str, str | None], GraphCommit | None]
"""Returns a commit by its id, and the life of the branch it was made on if that is known."""


class _Walk:
    """The ancestors of a commit, itself included, found step by step with their distances."""

    def __init__(self, head: GraphCommit) -> None:
        self.distances = {head.graph_commit_id: 0}
        self.edge = [head]

    def step(self, lookup: Lookup) -> None:
        """Go to the parents of what was found last; commits nobody knows any more end a path."""
        reached: list[GraphCommit] = []
        for commit in self.edge:
            for parent_id, branch in (
                (commit.parent_commit_id, None),
                (commit.merged_parent_commit_id, commit.merged_branch),
            ):
                if parent_id is None or parent_id in self.distances:
                    continue
                parent = lookup(parent_id, branch)
                if parent is not None:
                    self.distances[parent_id] = self.distances[commit.graph_commit_id] + 1
                    reached.append(parent)
        self.edge = reached


def merge_base(source: GraphCommit, target: GraphCommit, lookup: Lookup) -> GraphCommit | None:
    """Return the common ancestor nearest to both heads together; of equals the newest.

    Looks back only as far as the two histories are apart, however long they are.
    """
    theirs, ours = _Walk(source), _Walk(target)
    best: tuple[int, int, str] | None = None
    found: GraphCommit | None = None
    steps = 0
    while theirs.edge or ours.edge:
        for commit in (*theirs.edge, *ours.edge):
            commit_id = commit.graph_commit_id
            if commit_id in theirs.distances and commit_id in ours.distances:
                apart = theirs.distances[commit_id] + ours.distances[commit_id]
                rank = (apart, -commit.manifest_version, commit_id)
                if best is None or rank < best:
                    best, found = rank, commit
        # Whatever is not found yet is farther than this from at least one head.
        if best is not None and steps >= best[0]:
            break
        theirs.step(lookup)
        ours.step(lookup)
        steps += 1
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnHistory:
    """The commits made on one branch, and the branch it was made from."""

    branch: str
    parent: str | None
    commits: Sequence[GraphCommit]


def lines_in_use(live: Iterable[OwnHistory], retired: Iterable[OwnHistory]) -> set[str]:
    """Return the retired branches that a merge of living ones may start from or pass through.

    Histories meet where a branch was made or merged. A retired branch matters if it lies on a way
    from one living branch to another; more than these may stay, never fewer.
    """
    living = list(live)
    kept = {line.branch: line for line in retired}
    parents = {name: line.parent for name, line in kept.items()}
    names = {line.branch for line in living}
    while True:
        met = _neighbours([*living, *kept.values()])
        gone = {name for name in kept if len(met[name]) < 2}
        for group in _groups(kept, met):
            if len(set().union(*(met[name] for name in group)) & names) < 2:
                gone |= group
        if not gone:
            break
        for name in gone:
            del kept[name]
    needed = set(kept)
    for name in kept:
        # A branch shares the files of the one it was made from.
        parent = parents[name]
        while parent in parents:
            needed.add(parent)
            parent = parents[parent]
    return needed


def _neighbours(lines: Sequence[OwnHistory]) -> dict[str, set[str]]:
    """Return with which others each branch has met."""
    found: dict[str, set[str]] = {line.branch: set() for line in lines}
    for line in lines:
        others = {commit.merged_branch for commit in line.commits} | {line.parent}
        for other in others:
            if other is not None and other in found and other != line.branch:
                found[line.branch].add(other)
                found[other].add(line.branch)
    return found


def _groups(kept: Iterable[str], met: dict[str, set[str]]) -> list[set[str]]:
    """Return the branches that have met, directly or through each other, as groups."""
    left = set(kept)
    found: list[set[str]] = []
    while left:
        group: set[str] = set()
        edge = {left.pop()}
        while edge:
            group |= edge
            edge = {other for name in edge for other in met[name]} & left
            left -= edge
        found.append(group)
    return found
