"""Looks back over all branches, deleted ones included: where did two histories part?"""

from __future__ import annotations

from omnigraph.graph.lines import Line, Lines
from omnigraph.manifest import Coordinator, GraphCommit, merge_base


class Ancestors:
    """Finds commits, first on the branches given, then on those merged into them."""

    def __init__(self, lines: Lines, *near: Line) -> None:
        self._lines = lines
        self._known = [line.coordinator for line in near]

    def base(self, source: GraphCommit, target: GraphCommit) -> GraphCommit | None:
        """Return the commit that merging one head into the other starts from."""
        return merge_base(source, target, self.find)

    def find(self, commit_id: str, branch: str | None = None) -> GraphCommit | None:
        """Return a commit; `branch` is the life of the branch it was made on, if that is known.

        None when the history of that branch is gone for good.
        """
        for coordinator in self._known:
            if (known := coordinator.ledger.commits.get(commit_id)) is not None:
                return known
        found = None if branch is None else self._lines.history(branch)
        if found is None:
            return None
        if commit_id not in found.ledger.commits:
            found.capture()
        self._known.append(found)
        return found.ledger.commits.get(commit_id)

    def holder(self, commit: GraphCommit) -> Coordinator:
        """Return the manifest a found commit was found in: it knows the state it made."""
        return next(item for item in self._known if commit.graph_commit_id in item.ledger.commits)
