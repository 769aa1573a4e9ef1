"""Reads the commits of every branch with Lance alone, those of deleted branches included.

The engine's own reading code is not asked, so a mistake in it cannot hide a mistake in what was
written. Branches whose history a cleanup removes for good are noted by the process that does it,
right before (`watch_purges`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from omnigraph.store import locate
from omnigraph.store.tables.branches import list_branches, retired_branches
from tests.places import AnyPath, dataset

MANIFEST = "__manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit as the manifest holds it."""

    id: str
    seq: int
    parent: str | None
    merged: str | None
    kind: str
    operation_id: str
    actor: str | None
    schema_hash: str
    place: int = 0
    """Its place among the commits that were published with it."""

    @property
    def position(self) -> tuple[int, int]:
        """Where it stands on its branch."""
        return self.seq, self.place

    @property
    def parents(self) -> tuple[str, ...]:
        """Its first parent, and the commit it merged."""
        return tuple(name for name in (self.parent, self.merged) if name is not None)

    @property
    def version(self) -> int:
        """The version of the manifest it made."""
        return self.seq


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One life of a branch name: its own commits, oldest first, and where it began."""

    incarnation: str
    parent: str | None
    forked_at: int
    status: str
    commits: tuple[Commit, ...] = ()

    @property
    def name(self) -> str:
        """What people call the branch."""
        return self.incarnation.rpartition(".")[0] or self.incarnation

    def took_over(self, commit: Commit) -> bool:
        """Whether a commit is where the first version of a branch may hold those of others."""
        return self.parent is not None and commit.seq == self.forked_at + 1

    def to_json(self) -> dict[str, Any]:
        """Return the form a journal holds."""
        return asdict(self)


def life_from_json(entry: dict[str, Any]) -> Life:
    """Return what `to_json` was made from."""
    commits = tuple(Commit(**item) for item in entry["commits"])
    return Life(**{**entry, "commits": commits})


@dataclass(slots=True)
class Lineage:
    """All lives of all branches, and every commit by id."""

    lives: dict[str, Life] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, life: Life) -> None:
        """Take in one life of a branch."""
        self.lives[life.incarnation] = life
        for commit in life.commits:
            home = self.homes.get(commit.id)
            if home is not None:
                other = self.lives[home]
                if not self._is_shared(commit, life, other):
                    self.problems.append(f"commit {commit.id} is on {home} and {life.incarnation}")
                elif life.took_over(commit) and not self._was_made_from(other, life):
                    continue
            self.commits[commit.id] = commit
            self.homes[commit.id] = life.incarnation

    def _is_shared(self, commit: Commit, one: Life, other: Life) -> bool:
        """Whether a branch that began between commits published together took one over."""
        same = self.commits[commit.id] == commit
        return same and (one.took_over(commit) or other.took_over(commit))

    def _was_made_from(self, life: Life | None, other: Life) -> bool:
        """Whether a branch was made from another one, or from one that was."""
        while life is not None and life.parent is not None:
            if life.parent == other.incarnation:
                return True
            life = self.lives.get(life.parent)
        return False

    def living(self) -> list[Life]:
        """Return the branches that exist, main first."""
        return [life for life in self.lives.values() if life.status == "living"]

    def line(self, life: Life) -> list[Commit]:
        """Return the whole history of a life, inherited commits first."""
        found: list[Commit] = []
        here: Life | None = life
        limit: int | None = None
        while here is not None:
            own = [c for c in here.commits if limit is None or c.seq <= limit]
            found[:0] = own
            limit = here.forked_at if limit is None else min(limit, here.forked_at)
            here = None if here.parent is None else self.lives.get(here.parent)
        return found


def read_lineage(root: AnyPath) -> Lineage:
    """Read every branch of a graph that is stored."""
    found = Lineage()
    for life in stored_lives(root):
        found.add(life)
    return found


def stored_lives(root: AnyPath, only: str | None = None) -> Iterator[Life]:
    """Yield the branches of a graph, main first, deleted ones whose history is kept included."""
    location = locate(root)
    manifest = location.path(MANIFEST)
    if only is None:
        yield Life(
            incarnation="main",
            parent=None,
            forked_at=0,
            status="living",
            commits=tuple(_commits(root / MANIFEST)),
        )
    retired = retired_branches(location.files, manifest)
    for ref in list_branches(location.files, manifest):
        if only in (None, ref.name):
            path = root / MANIFEST / "tree" / ref.name
            own = (c for c in _commits(path) if c.seq > ref.parent_version)
            yield Life(
                incarnation=ref.name,
                parent=ref.parent or "main",
                forked_at=ref.parent_version,
                status="retired" if ref.name in retired else "living",
                commits=tuple(own),
            )


def _commits(path: AnyPath) -> list[Commit]:
    rows = dataset(path).to_table().to_pylist()
    found: list[Commit] = []
    for row in rows:
        if row["object_type"] != "graph_commit":
            continue
        known = json.loads(row["metadata"])
        found.append(
            Commit(
                id=row["object_id"],
                seq=int(known["seq"]),
                parent=known["parent_commit_id"],
                merged=known["merged_parent_commit_id"],
                kind=known["kind"],
                operation_id=known["operation_id"],
                actor=known["actor_id"],
                schema_hash=known["schema_hash"],
                place=int(known.get("place", 0)),
            )
        )
    return sorted(found, key=lambda commit: commit.position)


def watch_purges(root: AnyPath, note: Callable[[dict[str, Any]], None]) -> None:
    """Note, in this process, the history of each branch right before it is removed for good."""
    from omnigraph.commits.branches import BranchDirectory

    inner = BranchDirectory.purge

    def purge(self: BranchDirectory, branches: Any) -> None:
        for info in branches:
            for life in stored_lives(root, only=info.branch_uid):
                note({**life.to_json(), "status": "purged"})
        inner(self, branches)

    BranchDirectory.purge = purge  # type: ignore[method-assign]
