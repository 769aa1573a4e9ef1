"""Finds where two histories parted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from omnigraph.manifest.records import GraphCommit

Lookup = Callable[[str], GraphCommit | None]


def distances(head: GraphCommit, lookup: Lookup) -> dict[str, int]:
    """Return every known ancestor of a commit, itself included, with its distance."""
    found = {head.graph_commit_id: 0}
    queue = deque([head])
    while queue:
        commit = queue.popleft()
        for parent_id in (commit.parent_commit_id, commit.merged_parent_commit_id):
            if parent_id is None or parent_id in found:
                continue
            parent = lookup(parent_id)
            if parent is not None:
                found[parent_id] = found[commit.graph_commit_id] + 1
                queue.append(parent)
    return found


def merge_base(source: GraphCommit, target: GraphCommit, lookup: Lookup) -> GraphCommit | None:
    """Return the common ancestor nearest to both heads together; of equals the newest."""
    ours, theirs = distances(target, lookup), distances(source, lookup)
    best: tuple[int, int, str] | None = None
    for commit_id in ours.keys() & theirs.keys():
        commit = lookup(commit_id)
        if commit is None:
            continue
        rank = (ours[commit_id] + theirs[commit_id], -commit.manifest_version, commit_id)
        if best is None or rank < best:
            best = rank
    return None if best is None else lookup(best[2])
