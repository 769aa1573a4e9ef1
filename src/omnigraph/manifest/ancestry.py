"""Finds where two histories parted."""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.manifest.records import GraphCommit

Lookup = Callable[[str], GraphCommit | None]


class _Walk:
    """The ancestors of a commit, itself included, found step by step with their distances."""

    def __init__(self, head: GraphCommit) -> None:
        self.distances = {head.graph_commit_id: 0}
        self.edge = [head]

    def step(self, lookup: Lookup) -> None:
        """Go to the parents of what was found last; commits nobody knows any more end a path."""
        reached: list[GraphCommit] = []
        for commit in self.edge:
            for parent_id in (commit.parent_commit_id, commit.merged_parent_commit_id):
                if parent_id is None or parent_id in self.distances:
                    continue
                parent = lookup(parent_id)
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
