"""Reads the commit history."""

from __future__ import annotations

import datetime

from omnigraph.errors import NotFoundError
from omnigraph.manifest import MAIN, Coordinator, GraphCommit


class Commits:
    """The commits of a graph."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def list(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        since: datetime.datetime | None = None,
        until: datetime.datetime | None = None,
        limit: int | None = None,
    ) -> list[GraphCommit]:
        """Return commits, newest first, optionally of one actor and within a time."""
        if branch != MAIN:
            raise NotFoundError(f"branch '{branch}' does not exist")
        since, until = _zoned(since), _zoned(until)
        capture = self._coordinator.capture()
        found = reversed(self._coordinator.ledger.commits_to(capture.version))
        kept = [
            commit
            for commit in found
            if (actor is None or commit.actor_id == actor)
            and (since is None or commit.created_at >= since)
            and (until is None or commit.created_at <= until)
        ]
        return kept if limit is None else kept[:limit]

    def get(self, commit_id: str) -> GraphCommit:
        """Return one commit. Raises `NotFoundError`."""
        known = self._coordinator.ledger.commits.get(commit_id)
        if known is None:
            self._coordinator.capture()
            known = self._coordinator.ledger.commits.get(commit_id)
        if known is None:
            raise NotFoundError(f"commit '{commit_id}' does not exist")
        return known

    def head(self, branch: str = MAIN) -> GraphCommit:
        """Return the newest commit of a branch."""
        if branch != MAIN:
            raise NotFoundError(f"branch '{branch}' does not exist")
        return self._coordinator.capture().head


def _zoned(moment: datetime.datetime | None) -> datetime.datetime | None:
    """Return an instant; without a zone it is UTC."""
    if moment is None or moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=datetime.UTC)
