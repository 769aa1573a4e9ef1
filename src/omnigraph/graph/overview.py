"""Looks at all branches at once: how far apart they are, and the commits of all of them."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.commits import MAIN, BranchInfo, GraphCommit, Tag
from omnigraph.commits.ancestry import ancestors, beyond, children_first
from omnigraph.commits.records import MAINTENANCE_KINDS
from omnigraph.errors import NotFoundError
from omnigraph.graph.permits import Reachable
from omnigraph.graph.targets import At, resolve
from omnigraph.values.inspection import BranchHead, BranchHeads, CommitGraph, tag_json
from omnigraph.values.pages import page


class Overview:
    """The branches somebody may read, with all their commits."""

    def __init__(
        self, lines: Reachable, branches: Iterable[BranchInfo], tags: Iterable[Tag] = ()
    ) -> None:
        self._lines = lines
        self._tags = tuple(tags)
        self._branches: dict[str, BranchInfo] = {}
        self._heads: dict[str, GraphCommit] = {}
        self._commits: dict[str, GraphCommit] = {}
        for info in branches:
            try:
                coordinator = lines.get(info.name).coordinator
                capture = coordinator.capture()
            except NotFoundError:
                continue  # It was deleted meanwhile.
            self._branches[info.name] = info
            self._heads[info.name] = capture.head
            for commit in coordinator.ledger.newest_first(capture.version):
                self._commits[commit.graph_commit_id] = commit

    def heads(self, base: str = MAIN) -> BranchHeads:
        """Return the branches with how far each is ahead of a base and behind it."""
        if base not in self._heads:
            raise NotFoundError(f"branch '{base}' does not exist")
        known = ancestors([self._heads[base]], self._find)
        return BranchHeads(
            base=base,
            branches=tuple(self._compared(name, known) for name in self._branches),
        )

    def _compared(self, name: str, known: dict[str, GraphCommit]) -> BranchHead:
        head = self._heads[name]
        ahead, met = beyond([head], known, self._find)
        shared = ancestors(met, self._find)
        behind = [commit for key, commit in known.items() if key not in shared]
        return BranchHead(
            name=name,
            head=head,
            ahead=_counted(ahead),
            behind=_counted(behind),
            details=self._branches[name],
        )

    def _find(self, commit_id: str, _branch: str | None) -> GraphCommit | None:
        return self._commits.get(commit_id)

    def graph(self, *, limit: int, page_token: str | None) -> CommitGraph:
        """Return commits of all branches, each before its parents, and the names they have."""
        found, token = page(
            children_first(self._commits),
            key=lambda item: item.graph_commit_id,
            limit=limit,
            page_token=page_token,
        )
        return CommitGraph(
            commits=tuple(found),
            heads={name: head.graph_commit_id for name, head in self._heads.items()},
            tags=tuple(tag_json(tag, self._commit_of(tag)) for tag in self._tags),
            **token,
        )

    def _commit_of(self, tag: Tag) -> str | None:
        """Return the commit of a tag; None if its state was given up."""
        try:
            return resolve(self._lines, At(tag=tag.name))[1].head.graph_commit_id
        except NotFoundError:
            return None


def _counted(commits: Iterable[GraphCommit]) -> int:
    return sum(commit.kind not in MAINTENANCE_KINDS for commit in commits)
