"""Reads the commit history."""

from __future__ import annotations

import datetime

from omnigraph.graph.lines import Lines
from omnigraph.manifest import MAIN, GraphCommit


class Commits:
    """The commits of a graph."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

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
        coordinator = self._lines.get(branch).coordinator
        since, until = _zoned(since), _zoned(until)
        capture = coordinator.capture()
        found = reversed(coordinator.ledger.commits_to(capture.version))
        kept = [
            commit
            for commit in found
            if (actor is None or commit.actor_id == actor)
            and (since is None or commit.created_at >= since)
            and (until is None or commit.created_at <= until)
        ]
        return kept if limit is None else kept[:limit]

    def get(self, commit_id: str) -> GraphCommit:
        """Return one commit, whatever branch it is on. Raises `NotFoundError`."""
        return self._lines.containing(commit_id)[1]

    def head(self, branch: str = MAIN) -> GraphCommit:
        """Return the newest commit of a branch."""
        return self._lines.get(branch).coordinator.capture().head


def _zoned(moment: datetime.datetime | None) -> datetime.datetime | None:
    """Return an instant; without a zone it is UTC."""
    if moment is None or moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=datetime.UTC)
