"""Branches and tags as people use them."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from omnigraph.graph.lines import Lines
from omnigraph.graph.targets import resolve, resolve_name
from omnigraph.manifest import MAIN, BranchInfo, Tag


class Branches:
    """The branches of a graph: isolated lines of work that share everything until written to."""

    def __init__(self, lines: Lines, check_writable: Callable[[], None]) -> None:
        self._lines = lines
        self._check_writable = check_writable

    def list(self) -> list[str]:
        """Return the names of all branches, main first."""
        return [info.name for info in self.details()]

    def details(self) -> tuple[BranchInfo, ...]:
        """Return all branches with where and when they were made."""
        return tuple(self._lines.directory.branches())

    def exists(self, name: str) -> bool:
        """Whether there is a branch of this name."""
        return name == MAIN or any(info.name == name for info in self.details())

    def create(self, name: str, from_: str | int = MAIN) -> BranchInfo:
        """Make a branch from a branch, commit id, tag, or `branch@version`.

        Costs the same whatever the graph holds; no data is copied.
        """
        self._check_writable()
        _line, capture = resolve_name(self._lines, from_)
        return self._lines.create(name, capture)

    def delete(self, name: str) -> None:
        """Remove a branch and what only it holds. Commits merged elsewhere stay there."""
        self._check_writable()
        line = self._lines.get(name)
        self._lines.directory.delete(line.publisher, line.recovery)
        self._lines.forget(name)


class Tags:
    """Names for states of the graph that never move."""

    def __init__(self, lines: Lines, check_writable: Callable[[], None]) -> None:
        self._lines = lines
        self._check_writable = check_writable

    def list(self) -> list[Tag]:
        """Return all tags, by name."""
        return self._lines.directory.tags()

    def create(
        self,
        name: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        timestamp: datetime.datetime | str | None = None,
    ) -> Tag:
        """Name the newest state of a branch, or an older one."""
        self._check_writable()
        _line, capture = resolve(
            self._lines, branch, commit=commit, version=version, timestamp=timestamp
        )
        return self._lines.directory.create_tag(name, self._lines.holding(capture))

    def delete(self, name: str) -> None:
        """Forget a tag; the state it named stays."""
        self._check_writable()
        self._lines.directory.delete_tag(name)
