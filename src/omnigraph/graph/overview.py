"""Looks at all branches at once: how far apart they are, and the commits of all of them.

Of the histories only what is asked for is read: for the distances the commits since the first of
the branches was made, for a page of history the newest ones.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from omnigraph.commits import MAIN, BranchInfo, GraphCommit, ManifestReader, Tag
from omnigraph.commits.ancestry import ancestors, beyond, children_first, newest_order
from omnigraph.commits.branch_ids import parse_branch_uid
from omnigraph.commits.records import MAINTENANCE_KINDS
from omnigraph.errors import NotFoundError
from omnigraph.graph.permits import Reachable
from omnigraph.graph.targets import At, resolve
from omnigraph.limits import HISTORY_SPARE_COMMITS
from omnigraph.values.inspection import BranchHead, BranchHeads, CommitGraph, tag_json
from omnigraph.values.pages import page, read_token


class Line:
    """A branch that is shown, with the commits no other one has that is."""

    def __init__(
        self,
        info: BranchInfo,
        manifest: ManifestReader,
        parent: str | None,
        start: int,
        passed: int,
    ) -> None:
        state = manifest.capture()
        self.info = info
        self.head = state.head
        self.parent = parent
        """The branch that tells what lies before `start`; None when this one tells all."""
        self.start = start
        self.passed = passed
        """Branches between it and that one, which are not shown."""
        self.version = state.version
        self._manifest = manifest

    @property
    def uid(self) -> str:
        """What tells the branch from its namesakes."""
        return self.info.branch_uid

    def commits(self, after: int | None = None) -> Iterator[GraphCommit]:
        """Yield its commits, newest first; those after a graph version if one is given."""
        stop = self.start if after is None else after
        for commit in self._manifest.history.newest_first(self.version):
            if commit.manifest_version <= stop:
                return
            yield commit


class Overview:
    """The branches an actor may read."""

    def __init__(
        self, lines: Reachable, branches: Iterable[BranchInfo], tags: Iterable[Tag] = ()
    ) -> None:
        self._reachable = lines
        self._tags = tuple(tags)
        self._lines: dict[str, Line] = {}
        shown = {info.branch_uid: info for info in branches}
        for info in shown.values():
            try:
                manifest = lines.get(info.name).manifest
                parent, start, passed = self._made(info, shown)
                self._lines[info.branch_uid] = Line(info, manifest, parent, start, passed)
            except NotFoundError:
                continue  # It was deleted meanwhile.

    def _made(
        self, info: BranchInfo, shown: Mapping[str, BranchInfo]
    ) -> tuple[str | None, int, int]:
        """Return the shown branch that one grew from, where, and how many are between them."""
        passed = 0
        while not info.id.is_main:
            parent = parse_branch_uid(info.parent or MAIN)
            if parent is None or parent.uid in shown:
                return (None, 0, passed) if parent is None else (parent.uid, info.forked_at, passed)
            info, passed = self._reachable.directory.info(parent), passed + 1
        return None, 0, passed

    def heads(self, base: str = MAIN) -> BranchHeads:
        """Return the branches with how far each is ahead of a base and behind it."""
        origin = next((line for line in self._lines.values() if line.info.name == base), None)
        if origin is None:
            raise NotFoundError(f"branch '{base}' does not exist")
        distances = Distances(self._lines, origin)
        return BranchHeads(
            base=base,
            branches=tuple(distances.of(line) for line in self._lines.values()),
        )

    def graph(self, *, limit: int, page_token: str | None) -> CommitGraph:
        """Return commits of all branches, each before its parents, and the names they have."""
        last = None if page_token is None else read_token(page_token)
        commits, token = page(
            newest_commits(self._lines, limit, last),
            key=lambda item: item.graph_commit_id,
            limit=limit,
            page_token=page_token,
        )
        return CommitGraph(
            commits=tuple(commits),
            heads={line.info.name: line.head.graph_commit_id for line in self._lines.values()},
            tags=tuple(tag_json(tag, self._commit_of(tag)) for tag in self._tags),
            **token,
        )

    def _commit_of(self, tag: Tag) -> str | None:
        """Return the commit of a tag; None if its state was given up."""
        try:
            return resolve(self._reachable, At(tag=tag.name))[1].head.graph_commit_id
        except NotFoundError:
            return None


class Distances:
    """Counts what each branch has that a base has not, and the other way round.

    Main is read back to where the first of the branches left it: what lies before, all have.
    """

    def __init__(self, lines: Mapping[str, Line], base: Line) -> None:
        self._lines = lines
        self._base = base
        starts = [line.start for line in lines.values() if line.parent == MAIN]
        # With the very commits there: they are the heads of what was not written to since.
        common = min(starts, default=base.version) - 1
        self._own = {
            uid: list(line.commits(common if uid == MAIN else None)) for uid, line in lines.items()
        }
        self._commits = {c.graph_commit_id: c for own in self._own.values() for c in own}
        self._merged = {c.merged_branch for c in self._commits.values() if _is_merge(c)}
        self._main = [c.manifest_version for c in self._own.get(MAIN, ())[::-1] if _counts(c)]
        self._known: dict[str, GraphCommit] | None = None
        self._ids: dict[str, set[str]] = {}

    def of(self, line: Line) -> BranchHead:
        """Return a branch with its distance."""
        grown = self._grown_from_main(line) if self._base.uid == MAIN else None
        ahead, behind = grown if grown is not None else self._walked(line)
        return BranchHead(
            name=line.info.name, head=line.head, ahead=ahead, behind=behind, details=line.info
        )

    def _grown_from_main(self, line: Line) -> tuple[int, int] | None:
        """Return the distance of a branch that merges left alone, as were those it grew from."""
        ahead, to = 0, None
        while line.uid != MAIN:
            own = self._own[line.uid]
            parent = None if line.parent is None else self._lines.get(line.parent)
            is_plain = line.uid not in self._merged and not any(map(_is_merge, own))
            if parent is None or line.passed or not is_plain or self._took_over(own, parent):
                return None
            ahead += sum(_counts(c) for c in own if to is None or c.manifest_version <= to)
            line, to = parent, line.start
        behind = 0 if to is None else len(self._main) - bisect_right(self._main, to)
        return ahead, behind

    def _took_over(self, own: Sequence[GraphCommit], parent: Line) -> bool:
        """Whether a branch began between commits published together: it has some of them, too."""
        if not own:
            return False
        if parent.uid not in self._ids:
            self._ids[parent.uid] = {c.graph_commit_id for c in self._own[parent.uid]}
        return own[-1].graph_commit_id in self._ids[parent.uid]

    def _walked(self, line: Line) -> tuple[int, int]:
        if self._known is None:
            self._known = ancestors([self._base.head], self._find)
        known = self._known
        ahead, met = beyond([line.head], known, self._find)
        shared = ancestors(met, self._find)
        behind = (commit for key, commit in known.items() if key not in shared)
        return sum(map(_counts, ahead)), sum(map(_counts, behind))

    def _find(self, commit_id: str, _branch: str | None) -> GraphCommit | None:
        return self._commits.get(commit_id)


def newest_commits(lines: Mapping[str, Line], limit: int, last: str | None) -> list[GraphCommit]:
    """Return the newest commits of all branches, each before its parents.

    There are as many as `limit` after the one named `last`, and some more if there are any: clocks
    may disagree about where a merge belongs.
    """
    commits: dict[str, GraphCommit] = {}
    wanted = limit + HISTORY_SPARE_COMMITS if last is None else None
    for commit in _merged(lines):
        commits[commit.graph_commit_id] = commit
        if commit.graph_commit_id == last:
            wanted = len(commits) + limit + HISTORY_SPARE_COMMITS
        if wanted is not None and len(commits) > wanted:
            break
    return children_first(commits)


def _merged(lines: Mapping[str, Line]) -> Iterator[GraphCommit]:
    """Yield the commits of all branches by time, newest first.

    None comes before one that was made after it on its branch or on a branch made from there.
    """
    coming = {uid: line.commits() for uid, line in lines.items()}
    children: dict[str, list[Line]] = {}
    for line in lines.values():
        if line.parent is not None:
            children.setdefault(line.parent, []).append(line)
    for made in children.values():
        # The one made last, at the end, is the first to be waited for.
        made.sort(key=lambda line: line.start)
    queue: list[tuple[tuple[int, int, int, str], str, GraphCommit]] = []
    waiting: dict[str, list[tuple[str, GraphCommit]]] = {}

    def put(uid: str, commit: GraphCommit) -> None:
        made = children.get(uid, [])
        while made and made[-1].uid not in coming:
            made.pop()
        if made and commit.manifest_version <= made[-1].start:
            waiting.setdefault(made[-1].uid, []).append((uid, commit))
        else:
            heapq.heappush(queue, (newest_order(commit), uid, commit))

    def go_on(uid: str) -> None:
        commit = next(coming[uid], None)
        if commit is not None:
            put(uid, commit)
            return
        del coming[uid]
        for item in waiting.pop(uid, ()):
            put(*item)

    for uid in list(coming):
        go_on(uid)
    while queue:
        _order, uid, commit = heapq.heappop(queue)
        yield commit
        go_on(uid)


def _is_merge(commit: GraphCommit) -> bool:
    return commit.merged_parent_commit_id is not None


def _counts(commit: GraphCommit) -> bool:
    return commit.kind not in MAINTENANCE_KINDS
