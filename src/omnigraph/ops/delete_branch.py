"""Ends a branch, as an operation of the write loop: its last commit, or none at all."""

from __future__ import annotations

from omnigraph.commits import (
    Base,
    BranchDirectory,
    BranchId,
    ChangeSet,
    GraphCommit,
    Intent,
    ManifestReader,
    Persistence,
    PlainOperation,
    Request,
    Reserve,
    Writer,
)
from omnigraph.commits.branches import Retirement
from omnigraph.commits.meetings import merged_between
from omnigraph.limits import BRANCH_CONTROL_ATTEMPTS_MAX, RETIREMENT_COMMITS_MAX


class DeleteBranch(PlainOperation):
    """Removes a branch, owning its slot, so that no writer can be at work on it.

    Merges into two other branches have its commits in common, so a branch that was written to is
    kept, out of sight, until a cleanup finds that no merge can start from it. Its last commit says
    so: a writer that slept since before it can publish nothing on the branch any more. A branch
    without commits of its own goes at once.
    """

    kind = "branch_delete"

    def __init__(
        self, directory: BranchDirectory, branch: BranchId, manifest: ManifestReader
    ) -> None:
        self.persistence = Persistence(
            attempts=BRANCH_CONTROL_ATTEMPTS_MAX,
            reserve=Reserve.AT_ONCE,
            takes_turn=False,
            given_up=f"other writers kept changing branch '{branch.name}'",
        )
        self._directory = directory
        self._branch = branch
        self._manifest = manifest
        self._retirement: Retirement | None = None

    def run(self, writer: Writer, expected_head: str | None = None) -> None:
        """Do it. Raises `ConflictError` while branches or tags rest on it."""
        request = Request(
            actor_id=None,
            operation_id=writer.new_id(),
            new_id=True,
            expected_head=expected_head,
        )
        with self._directory.deleting(self._branch):
            retired, _changes = writer.run(self, request)
            if retired is None:
                self._directory.delete_forks([self._branch])

    def prepare(self, base: Base) -> ChangeSet:
        """Decide whether its history has to be kept."""
        state = base.capture
        forked_at = self._directory.info(self._branch).forked_at
        self._retirement = None
        if state.version - forked_at <= RETIREMENT_COMMITS_MAX:
            # Noted now, while the branch is at hand: a cleanup need not open it any more.
            merged = merged_between(self._manifest.history, forked_at, state.version)
            self._retirement = Retirement(merged=tuple(sorted(merged)))
        return ChangeSet(alone=self._directory.is_used(self._branch, forked_at, state.version))

    def finish(self, intent: Intent | None, commit: GraphCommit | None) -> None:
        """Put it out of sight, or remove it."""
        if commit is None:
            self._directory.delete_line(self._branch)
        else:
            self._directory.retire(self._branch, self._retirement)
