"""Finds where two histories parted, and which deleted branches that may still depend on."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from omnigraph.commits.records import GraphCommit

Lookup = Callable[[str, str | None], GraphCommit | None]
"""Returns a commit by its id, and the life of the branch it was made on if that is known."""


_OURS, _THEIRS, _BELOW = 1, 2, 4
_BOTH = _OURS | _THEIRS


def merge_bases(
    source: Sequence[GraphCommit], target: Sequence[GraphCommit], lookup: Lookup
) -> list[GraphCommit]:
    """Return the best common ancestors of two histories: no other common one grew from them.

    An older one, however near, would make changes that both sides have seen look like those of
    one side. Merges that crossed leave several; the nearest to both sides comes first, of equally
    near ones the newest. Each side is one head, or several that are taken together. Looks back
    only as far as the two histories are apart, however long they are.
    """
    bases = _common(source, target, lookup)
    if len(bases) > 1:
        bases = [item for item in bases if not _grew(bases, item, lookup)]
    if len(bases) > 1:
        ways = [_distances(heads, bases, lookup) for heads in (source, target)]
        bases.sort(
            key=lambda item: (
                sum(way[item.graph_commit_id] for way in ways),
                -item.manifest_version,
                item.graph_commit_id,
            )
        )
    return bases


def _parents(commit: GraphCommit, lookup: Lookup) -> Iterator[GraphCommit]:
    """Yield the parents of a commit; those that are not known any more end a path."""
    for parent_id, branch in (
        (commit.parent_commit_id, None),
        (commit.merged_parent_commit_id, commit.merged_branch),
    ):
        parent = None if parent_id is None else lookup(parent_id, branch)
        if parent is not None:
            yield parent


def _common(
    source: Sequence[GraphCommit], target: Sequence[GraphCommit], lookup: Lookup
) -> list[GraphCommit]:
    """Return common ancestors, those among them that no other one grew from.

    Goes back from both heads at once, newest first, until only ancestors of what was found are
    left. Clocks that disagree make it walk farther, and may leave an older one in the list.
    """
    known = {item.graph_commit_id: item for item in (*source, *target)}
    marks = {item.graph_commit_id: _OURS for item in source}
    for item in target:
        marks[item.graph_commit_id] = marks.get(item.graph_commit_id, 0) | _THEIRS
    queue = [(-item.created_at_us, name) for name, item in known.items()]
    heapq.heapify(queue)
    waiting = dict.fromkeys(known)
    common: dict[str, GraphCommit] = {}
    while any(not marks[name] & _BELOW for name in waiting):
        _, name = heapq.heappop(queue)
        waiting.pop(name, None)
        mark = marks[name]
        if mark & _BOTH == _BOTH and not mark & _BELOW:
            common[name] = known[name]
            mark |= _BELOW
        for parent in _parents(known[name], lookup):
            parent_id = parent.graph_commit_id
            before = marks.get(parent_id, 0)
            if before | mark != before:
                marks[parent_id] = before | mark
                known[parent_id] = parent
                heapq.heappush(queue, (-parent.created_at_us, parent_id))
                waiting[parent_id] = None
    return [item for name, item in common.items() if not marks[name] & _BELOW]


def _grew(others: Sequence[GraphCommit], origin: GraphCommit, lookup: Lookup) -> bool:
    """Whether one of the commits is a descendant of another."""
    edge = [item for item in others if item != origin]
    seen: set[str] = set()
    while edge:
        commit = edge.pop()
        for parent in _parents(commit, lookup):
            if parent == origin:
                return True
            if parent.graph_commit_id not in seen:
                seen.add(parent.graph_commit_id)
                edge.append(parent)
    return False


def _distances(
    heads: Sequence[GraphCommit], wanted: Sequence[GraphCommit], lookup: Lookup
) -> dict[str, int]:
    """Return how many steps lie between the nearest of some heads and some of their ancestors."""
    steps = {head.graph_commit_id: 0 for head in heads}
    edge = list(heads)
    while edge and not all(item.graph_commit_id in steps for item in wanted):
        reached: list[GraphCommit] = []
        for commit in edge:
            for parent in _parents(commit, lookup):
                if parent.graph_commit_id not in steps:
                    steps[parent.graph_commit_id] = steps[commit.graph_commit_id] + 1
                    reached.append(parent)
        edge = reached
    return steps


def ancestors(heads: Iterable[GraphCommit], lookup: Lookup) -> dict[str, GraphCommit]:
    """Return some commits and all they grew from, by id."""
    commits = {head.graph_commit_id: head for head in heads}
    edge = list(commits.values())
    while edge:
        for parent in _parents(edge.pop(), lookup):
            if parent.graph_commit_id not in commits:
                commits[parent.graph_commit_id] = parent
                edge.append(parent)
    return commits


def beyond(
    heads: Iterable[GraphCommit], known: Mapping[str, GraphCommit], lookup: Lookup
) -> tuple[list[GraphCommit], list[GraphCommit]]:
    """Return what some commits grew from that is not known, and the known commits it begins at.

    All that a known commit grew from has to be known as well.
    """
    unknown: dict[str, GraphCommit] = {}
    met: dict[str, GraphCommit] = {}
    edge = list(heads)
    while edge:
        commit = edge.pop()
        name = commit.graph_commit_id
        if name in known:
            met[name] = commit
        elif name not in unknown:
            unknown[name] = commit
            edge += _parents(commit, lookup)
    return list(unknown.values()), list(met.values())


def children_first(commits: Mapping[str, GraphCommit]) -> list[GraphCommit]:
    """Return commits newest first, but none before one that grew from it, whatever clocks say."""
    waiting = dict.fromkeys(commits, 0)
    for commit in commits.values():
        for parent in {commit.parent_commit_id, commit.merged_parent_commit_id}:
            if parent in waiting:
                waiting[parent] += 1
    ready = [newest_order(commits[name]) for name, children in waiting.items() if not children]
    heapq.heapify(ready)
    ordered: list[GraphCommit] = []
    while ready:
        *_, name = heapq.heappop(ready)
        commit = commits[name]
        ordered.append(commit)
        for parent in {commit.parent_commit_id, commit.merged_parent_commit_id}:
            if parent in waiting:
                waiting[parent] -= 1
                if not waiting[parent]:
                    heapq.heappush(ready, newest_order(commits[parent]))
    return ordered


def newest_order(commit: GraphCommit) -> tuple[int, int, int, str]:
    """Return what orders commits by time, newest first."""
    moment, version = -commit.created_at_us, -commit.manifest_version
    return moment, version, -commit.place, commit.graph_commit_id


class OwnHistory(Struct, frozen=True, kw_only=True):
    """The branches that one has met: the one it was made from, and those it took merges from."""

    branch: str
    parent: str | None
    merged: Collection[str]


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
    neighbours: dict[str, set[str]] = {line.branch: set() for line in lines}
    for line in lines:
        others = {line.parent, *line.merged}
        for other in others:
            if other is not None and other in neighbours and other != line.branch:
                neighbours[line.branch].add(other)
                neighbours[other].add(line.branch)
    return neighbours


def _groups(kept: Iterable[str], met: dict[str, set[str]]) -> list[set[str]]:
    """Return the branches that have met, directly or through each other, as groups."""
    left = set(kept)
    groups: list[set[str]] = []
    while left:
        group: set[str] = set()
        edge = {left.pop()}
        while edge:
            group |= edge
            edge = {other for name in edge for other in met[name]} & left
            left -= edge
        groups.append(group)
    return groups
