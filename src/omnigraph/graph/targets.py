"""Finds the state a caller means: a branch, or a commit, version, tag or moment of it."""

from __future__ import annotations

import datetime

from msgspec import Struct

from omnigraph.commits import MAIN, BranchState, GraphCommit
from omnigraph.commits.open_branches import OpenBranch
from omnigraph.commits.records import MAINTENANCE_KINDS
from omnigraph.errors import BadRequestError, PreconditionFailedError
from omnigraph.graph.permits import Reachable
from omnigraph.graph.revisions import at_moment, at_tag, parse_moment, resolve_revision
from omnigraph.ids import is_ulid


class At(Struct, frozen=True, kw_only=True):
    """A state that is asked for: a point in the past of a branch, or its newest state.

    `commit` may be any name of a state, as `graph.revisions` reads them.
    """

    branch: str | None = None
    commit: str | None = None
    version: int | None = None
    tag: str | None = None
    timestamp: datetime.datetime | str | None = None

    def __post_init__(self) -> None:
        if not self.is_newest and len(given := self._given()) > 1:
            raise BadRequestError(f"give {' or '.join(given)}, not both")

    def _given(self) -> list[str]:
        points = ("commit", "version", "tag", "timestamp")
        return [name for name in points if getattr(self, name) is not None]

    @property
    def is_newest(self) -> bool:
        """Whether the newest state of the branch is meant."""
        is_named = self.commit is not None or self.tag is not None
        return not is_named and self.version is None and self.timestamp is None


def resolve(
    lines: Reachable, at: At, max_staleness_s: float | None = None
) -> tuple[OpenBranch, BranchState]:
    """Return a branch and its state at the given point; the newest may be as old as is said."""
    if at.tag is not None:
        return at_tag(lines, lines.directory.find_tag(at.tag))
    if at.commit is not None and not is_ulid(at.commit):
        return resolve_revision(lines, at.commit, branch=at.branch or MAIN)
    if at.commit is not None:
        return _at_commit(lines, at.commit, at.branch)
    if at.timestamp is not None:
        return at_moment(lines, at.branch or MAIN, as_instant(at.timestamp))
    line = lines.get(at.branch or MAIN)
    newest = line.newest(max_staleness_s if at.is_newest else None)
    if at.version is not None:
        return line, lines.state(line, at.version)
    return line, newest


def _at_commit(lines: Reachable, commit: str, branch: str | None) -> tuple[OpenBranch, BranchState]:
    """Return the state a commit made; `branch` is where it is looked for first."""
    if branch is not None:
        line = lines.get(branch)
        line.manifest.capture()
        known = line.manifest.history.commits.get(commit)
        if known is not None:
            return line, lines.state_of(line, known)
    line, known = lines.containing(commit)
    return line, lines.state_of(line, known)


def check_head(line: OpenBranch, state: BranchState, expected: str | None) -> None:
    """Return if a state was made by a commit, maintenance left aside.

    Raises `PreconditionFailedError`.
    """
    if expected is None:
        return
    commits = line.manifest.history.commits
    head: GraphCommit | None = state.head
    while head is not None and head.graph_commit_id != expected and head.kind in MAINTENANCE_KINDS:
        head = commits.get(head.parent_commit_id or "")
    if head is None or head.graph_commit_id != expected:
        raise PreconditionFailedError(expected=expected, actual=state.head.graph_commit_id)


def as_instant(value: datetime.datetime | str) -> datetime.datetime:
    """Return an instant; without a zone it is UTC."""
    if isinstance(value, str):
        moment = parse_moment(value)
        if moment is None:
            raise BadRequestError(
                f"timestamp: {value!r} is not a point in time",
                hint="write an ISO date or instant, yesterday, or such as 5 minutes ago",
            )
        return moment
    return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
