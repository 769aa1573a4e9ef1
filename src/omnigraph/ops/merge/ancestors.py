"""Looks back over all branches, deleted ones included: where did two histories part?"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.commits import BranchState, GraphCommit, ManifestReader, merge_bases
from omnigraph.commits.open_branches import OpenBranch, OpenBranches
from omnigraph.limits import MERGE_BASE_STATES_MAX
from omnigraph.ops.merge.operation import Origin
from omnigraph.rows.virtual_base import BaseTree, Join


class Ancestors:
    """Finds commits, first on the branches given, then on those merged into them."""

    def __init__(self, lines: OpenBranches, *near: OpenBranch) -> None:
        self._lines = lines
        self._known = [line.manifest for line in near]

    def bases(self, source: GraphCommit, target: GraphCommit) -> tuple[GraphCommit, ...]:
        """Return the commits that merging one head into the other starts from, nearest first."""
        return tuple(merge_bases([source], [target], self.find))

    def origin(self, bases: Sequence[GraphCommit]) -> Origin:
        """Return the state that a merge with these best common ancestors starts from."""
        commits, tree = self.behind(bases)
        return Origin(states=[self._state(item).pins for item in commits], tree=tree)

    def _state(self, commit: GraphCommit) -> BranchState:
        """Return the state a commit made."""
        manifest = self.holder(commit)
        return self._lines.within(manifest.at_version(commit.manifest_version), commit, manifest)

    def behind(self, bases: Sequence[GraphCommit]) -> tuple[list[GraphCommit], BaseTree]:
        """Return the commits whose states a merge looks at, and how these are merged."""
        states: list[GraphCommit] = []
        return states, self._tree(bases, states)

    def _tree(self, commits: Sequence[GraphCommit], states: list[GraphCommit]) -> BaseTree:
        """Merge commits one after the other, each from what it has in common with those before."""
        numbers = [_number(states, item) for item in commits]
        tree: BaseTree = numbers[0]
        for place in range(1, len(commits)):
            older = merge_bases(commits[:place], [commits[place]], self.find)
            usable = len(older) > 0 and len(states) + len(older) <= MERGE_BASE_STATES_MAX
            # Rows of another schema cannot be compared with these.
            usable = usable and {item.schema_hash for item in older} == {commits[0].schema_hash}
            usable = usable and all(map(self._is_kept, older))
            base = self._tree(older, states) if usable else None
            tree = Join(tree, numbers[place], base)
        return tree

    def _is_kept(self, commit: GraphCommit) -> bool:
        """Whether the state of a commit can still be read; what was removed is not known."""
        return self._lines.is_stored(self._state(commit))

    def find(self, commit_id: str, branch: str | None = None) -> GraphCommit | None:
        """Return a commit; `branch` is the life of the branch it was made on, if that is known.

        None when the history of that branch is gone for good.
        """
        for manifest in self._known:
            if (known := manifest.history.commits.get(commit_id)) is not None:
                return known
        reader = None if branch is None else self._lines.history(branch)
        if reader is None:
            return None
        if commit_id not in reader.history.commits:
            reader.capture()
        self._known.append(reader)
        return reader.history.commits.get(commit_id)

    def holder(self, commit: GraphCommit) -> ManifestReader:
        """Return a manifest that knows a found commit: one that has its state as a version.

        A branch that was made between commits of a group has such a version, its parent has not.
        """
        among: ManifestReader | None = None
        for item in self._known:
            if commit.graph_commit_id in item.history.commits:
                if item.history.is_last(commit):
                    return item
                among = among or item
        if among is None:
            raise AssertionError(f"commit {commit.graph_commit_id} was not found here")
        return among


def _number(states: list[GraphCommit], commit: GraphCommit) -> int:
    if commit not in states:
        states.append(commit)
    return states.index(commit)
