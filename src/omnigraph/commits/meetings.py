"""Which branches have met by merges: where their histories can have more in common than a start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from omnigraph.bounded import BoundedCache
from omnigraph.commits.ancestry import OwnHistory
from omnigraph.commits.branches import BranchInfo
from omnigraph.commits.history import History
from omnigraph.commits.open_branches import OpenBranches
from omnigraph.commits.records import MAIN
from omnigraph.limits import BRANCHES_MET_MAX
from omnigraph.store import side_by_side

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
            if UNKNOWN in self.sources:
                return True
            if uid not in self.by_branch or self.by_branch[uid] or uid in self.sources:
                return True
            uid = self.parents[uid]
        return True


class Meetings:
    """Remembers of each branch which others it took merges from, and looks at new commits only."""

    def __init__(self, lines: OpenBranches) -> None:
        self._lines = lines
        self._known: BoundedCache[str, tuple[int, frozenset[str]]] = BoundedCache(BRANCHES_MET_MAX)

    def of(self, infos: Sequence[BranchInfo]) -> list[OwnHistory]:
        """Return which branches each of some has met."""
        return self._each(infos, self._merged_into)

    def of_retired(self, infos: Sequence[BranchInfo]) -> list[OwnHistory]:
        """Return which branches deleted ones had met; mostly that was noted when they went."""

        def merged(info: BranchInfo) -> Collection[str]:
            noted = self._lines.directory.retirement(info.id)
            return self._merged_into(info) if noted is None else noted.merged

        return self._each(infos, merged)

    def _each(
        self, infos: Sequence[BranchInfo], merged: Callable[[BranchInfo], Collection[str]]
    ) -> list[OwnHistory]:
        sources = side_by_side(merged, infos, at_once=self._lines.calls_at_once)
        return [
            OwnHistory(branch=info.branch_uid, parent=info.parent, merged=names)
            for info, names in zip(infos, sources, strict=True)
        ]

    def merged(self, infos: Sequence[BranchInfo], retired: Sequence[BranchInfo]) -> Merged:
        """Return from which branches each of some took merges.

        What a deleted one took may have come to others through it.
        """
        passed_on = [frozenset(item.merged) for item in self.of_retired(retired)]
        sources = side_by_side(self._merged_into, infos, at_once=self._lines.calls_at_once)
        by_branch = dict(zip((info.branch_uid for info in infos), sources, strict=True))
        return Merged(
            by_branch=by_branch,
            parents={info.branch_uid: info.parent for info in infos},
            sources=_union([*by_branch.values(), *passed_on]),
        )

    def _merged_into(self, info: BranchInfo) -> frozenset[str]:
        uid = info.branch_uid
        manifest = self._lines.history(uid)
        if manifest is None:
            return frozenset()
        version = manifest.capture().version
        since, sources = self._known.get(uid) or (info.forked_at, frozenset[str]())
        sources |= merged_between(manifest.history, since, version)
        self._known.put(uid, (version, sources))
        return sources


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
