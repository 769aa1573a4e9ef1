"""The branches of a graph as far as an actor may look at them."""

from __future__ import annotations

from typing import Protocol

from omnigraph.commits import BranchDirectory, BranchId, BranchState, GraphCommit
from omnigraph.commits.open_branches import OpenBranch, OpenBranches
from omnigraph.errors import NotFoundError, PolicyDeniedError
from omnigraph.policy import Action, Permit
from omnigraph.wording import resembling


class Reachable(Protocol):
    """Where states of a graph are found."""

    @property
    def directory(self) -> BranchDirectory:
        """The names there are."""

    def get(self, name: str) -> OpenBranch:
        """Return a branch. Raises `NotFoundError`."""

    def containing(self, commit_id: str) -> tuple[OpenBranch, GraphCommit]:
        """Return a branch whose history holds a commit, and the commit."""

    def at(self, branch: BranchId, version: int) -> tuple[OpenBranch, BranchState]:
        """Return the state of a branch at a version."""

    def state(self, line: OpenBranch, version: int) -> BranchState:
        """Return the state of an open branch at a version, if it can still be read."""

    def state_of(self, line: OpenBranch, commit: GraphCommit) -> BranchState:
        """Return the state a commit of an open branch made, if it can still be read."""


class PermittedBranches:
    """Hands out branches only after asking whether the handle's actor may have them.

    A branch that is named is asked for before it is looked up, so that a denial says nothing
    about whether it exists.
    """

    def __init__(self, lines: OpenBranches, permit: Permit, action: Action = Action.READ) -> None:
        self._lines = lines
        self._permit = permit
        self._action = action

    @property
    def directory(self) -> BranchDirectory:
        """The names there are."""
        return self._lines.directory

    def get(self, name: str) -> OpenBranch:
        """Return a branch. Raises `PolicyDeniedError` and `NotFoundError`."""
        self._permit(self._action, branch=name)
        try:
            return self._lines.get(name)
        except NotFoundError as error:
            error.hint = error.hint or self._hint(name)
            raise

    def _hint(self, name: str) -> str | None:
        """Return the branch that may have been meant, if the actor may know of it."""
        close = resembling(name, [item.name for item in self._lines.directory.ids()])
        return None if close is None or not self._may(close) else f"did you mean '{close}'?"

    def _may(self, branch: str) -> bool:
        """Whether the actor may know of a branch."""
        try:
            self._permit(self._action, branch=branch)
        except PolicyDeniedError:
            return False
        return True

    def containing(self, commit_id: str) -> tuple[OpenBranch, GraphCommit]:
        """Return a branch whose history holds a commit, and the commit."""
        line, commit = self._lines.containing(commit_id)
        self._permit(self._action, branch=line.branch.name)
        return line, commit

    def at(self, branch: BranchId, version: int) -> tuple[OpenBranch, BranchState]:
        """Return the state of a branch at a version."""
        self._permit(self._action, branch=branch.name)
        return self._lines.at(branch, version)

    def state(self, line: OpenBranch, version: int) -> BranchState:
        """Return the state of an open branch at a version, if it can still be read."""
        return self._lines.state(line, version)

    def state_of(self, line: OpenBranch, commit: GraphCommit) -> BranchState:
        """Return the state a commit of an open branch made, if it can still be read."""
        return self._lines.state_of(line, commit)
