"""Which branches have met by merges: where their histories can have more in common than a start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from omnigraph.bounded import BoundedCache
from omnigraph.commits.ancestry import OwnHistory
from omnigraph.commits.branches import BranchInfo
from omnigraph.commits.history import History
from omnigraph.commits.open_branches import OpenBranches
from omnigraph.commits.records import MAIN
from omnigraph.limits import BRANCHES_MET_MAX

UNKNOWN = ""
"""A merge of which it was not written down what it was taken from."""


def merged_between(history: History, after: int, to: int) -> frozenset[str]:
    """Return the branches that commits after a version up to another one took merges from."""
    return frozenset(
        commit.merged_branch or UNKNOWN
        for commit in history.oldest_first(after, to)
        if commit.merged_parent_commit_id is not None
    )


class Merged(Struct, frozen=True, kw_only=True):
    """From which branches each living one took merges."""

    by_branch: Mapping[str, frozenset[str]]
    parents: Mapping[str, str | None]
    sources: frozenset[str]

    def took(self, info: BranchInfo) -> bool:
        """Whether a branch other than main took a merge."""
        return not info.id.is_main and bool(self.by_branch[info.branch_uid])

    def reached(self, info: BranchInfo) -> bool:
        """Whether merges touched a branch or one of those it grew from, up to main.

        Of all others it is known where they meet main and each other: where they were made.
        """
        uid: str | None = info.branch_uid
        for _step in range(len(self.parents) + 1):
            if uid is None or uid == MAIN:
                return False
            if uid not in self.by_branch or self.by_branch[uid] or uid in self.sources:
                return True
            uid = self.parents[uid]
        return True


class Meetings:
    """Remembers of each branch which others it took merges from, and looks at new commits only."""

    def __init__(self, lines: OpenBranches) -> None:
        self._lines = lines
        self._known: BoundedCache[str, tuple[int, frozenset[str]]] = BoundedCache(BRANCHES_MET_MAX)

    def of(self, info: BranchInfo) -> OwnHistory:
        """Return which branches one has met."""
        return OwnHistory(
            branch=info.branch_uid, parent=info.parent, merged=self._merged_into(info)
        )

    def of_retired(self, info: BranchInfo) -> OwnHistory:
        """Return which branches a deleted one had met; mostly that was noted when it went."""
        noted = self._lines.directory.retirement(info.id)
        if noted is None:
            return self.of(info)
        return OwnHistory(branch=info.branch_uid, parent=info.parent, merged=noted.merged)

    def merged(self, infos: Sequence[BranchInfo]) -> Merged:
        """Return from which branches each of some took merges."""
        by_branch = {info.branch_uid: self._merged_into(info) for info in infos}
        return Merged(
            by_branch=by_branch,
            parents={info.branch_uid: info.parent for info in infos},
            sources=_union(by_branch.values()),
        )

    def _merged_into(self, info: BranchInfo) -> frozenset[str]:
        uid = info.branch_uid
        manifest = self._lines.history(uid)
        if manifest is None:
            return frozenset()
        version = manifest.capture().version
        since, found = self._known.get(uid) or (info.forked_at, frozenset[str]())
        found |= merged_between(manifest.ledger, since, version)
        self._known.put(uid, (version, found))
        return found


def _union(found: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*found)
