"""Finds the state a caller means: a branch, or a commit, version, tag or moment of it."""

from __future__ import annotations

import datetime

from msgspec import Struct

from omnigraph.commits import MAIN, BranchState, GraphCommit
from omnigraph.commits.open_branches import OpenBranch
from omnigraph.commits.records import MAINTENANCE_KINDS
from omnigraph.errors import BadRequestError, NotFoundError, PreconditionFailedError
from omnigraph.graph.permits import Reachable
from omnigraph.ids import is_ulid


class At(Struct, frozen=True, kw_only=True):
    """A state that is asked for: a point in the past of a branch, or its newest state."""

    branch: str | None = None
    commit: str | None = None
    version: int | None = None
    tag: str | None = None
    timestamp: datetime.datetime | str | None = None

    def __post_init__(self) -> None:
        if len(given := self._given()) > 1:
            raise BadRequestError(f"give {' or '.join(given)}, not both")

    def _given(self) -> list[str]:
        points = ("commit", "version", "tag", "timestamp")
        return [name for name in points if getattr(self, name) is not None]

    @property
    def is_newest(self) -> bool:
        """Whether the newest state of the branch is meant."""
        return not self._given()


def resolve(
    lines: Reachable, at: At, max_staleness_s: float | None = None
) -> tuple[OpenBranch, BranchState]:
    """Return a branch and its state at the given point; the newest may be as old as is said."""
    if at.tag is not None:
        found = lines.directory.find_tag(at.tag)
        line, state = lines.at(found.branch, found.version)
        if found.commit_id is not None:
            state = lines.state_of(line, line.coordinator.ledger.commits[found.commit_id])
        return line, state
    if at.commit is not None:
        return _at_commit(lines, at.commit, at.branch)
    line = lines.get(at.branch or MAIN)
    newest = line.newest(max_staleness_s if at.is_newest else None)
    if at.version is not None:
        return line, lines.state(line, at.version)
    if at.timestamp is not None:
        moment = as_instant(at.timestamp)
        microseconds = int(moment.timestamp() * 1e6)
        commits = line.coordinator.ledger.newest_first(newest.version, until_us=microseconds)
        last = next(commits, None)
        if last is None:
            raise NotFoundError(f"the graph did not exist at {moment.isoformat()}")
        return line, lines.state_of(line, last)
    return line, newest


def _at_commit(lines: Reachable, commit: str, branch: str | None) -> tuple[OpenBranch, BranchState]:
    """Return the state a commit made; `branch` is where it is looked for first."""
    if branch is not None:
        line = lines.get(branch)
        line.coordinator.capture()
        known = line.coordinator.ledger.commits.get(commit)
        if known is not None:
            return line, lines.state_of(line, known)
    line, known = lines.containing(commit)
    return line, lines.state_of(line, known)


def resolve_name(lines: Reachable, name: str | int) -> tuple[OpenBranch, BranchState]:
    """Return the state a single name means: commit id, version of main, branch or tag.

    `branch@version` is a version of a branch. A branch wins over a tag of the same name.
    """
    if isinstance(name, int):
        return resolve(lines, At(version=name))
    if has_branch(lines, name):
        return resolve(lines, At(branch=name))
    if is_ulid(name):
        return resolve(lines, At(commit=name))
    branch, separator, number = name.rpartition("@")
    if separator and number.isdigit():
        return resolve(lines, At(branch=branch, version=int(number)))
    if any(found.name == name for found in lines.directory.tags()):
        return resolve(lines, At(tag=name))
    if name.isdigit():
        return resolve(lines, At(version=int(name)))
    raise NotFoundError(
        f"'{name}' is no branch, tag, commit id or version",
        hint="use branch@version for a version of a branch",
    )


def check_head(line: OpenBranch, capture: BranchState, expected: str | None) -> None:
    """Return if a state was made by a commit, maintenance left aside.

    Raises `PreconditionFailedError`.
    """
    if expected is None:
        return
    commits = line.coordinator.ledger.commits
    head: GraphCommit | None = capture.head
    while head is not None and head.graph_commit_id != expected and head.kind in MAINTENANCE_KINDS:
        head = commits.get(head.parent_commit_id or "")
    if head is None or head.graph_commit_id != expected:
        raise PreconditionFailedError(expected=expected, actual=capture.head.graph_commit_id)


def has_branch(lines: Reachable, name: str) -> bool:
    """Whether there is a branch of this name."""
    return name == MAIN or any(branch.name == name for branch in lines.directory.ids())


def as_instant(value: datetime.datetime | str) -> datetime.datetime:
    """Return an instant; without a zone it is UTC."""
    if isinstance(value, str):
        # Commits are told apart by microseconds, so these are kept.
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError as error:
            raise BadRequestError(f"timestamp: {error}") from error
    return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
