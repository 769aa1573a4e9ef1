"""Forgets old states: decides which versions anybody may still need, and removes the others.

What a branch or tag can be asked for stays: the newest graph versions, those younger than asked
for, and whatever was current a moment ago. Below the oldest of them a table keeps exactly the
versions some branch or tag still names. Above it everything stays, so writers go on undisturbed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from omnigraph.errors import BadRequestError, OmniGraphError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.limits import CLEANUP_GRACE_S, ORPHAN_AGE_S
from omnigraph.manifest import BranchId, Coordinator, GraphCommit
from omnigraph.store import Tables, split_branch
from omnigraph.store.journal import announce_removal
from omnigraph.store.orphans import SCRATCH, Leftover, old_scratch, orphan_files
from omnigraph.store.reclaim import (
    Reclaimed,
    erase_table,
    orphan_forks,
    remove_forks,
    remove_tree,
    remove_versions,
    stored_versions,
    stray_trees,
    torn_folder,
    tree_bytes,
)

MANIFEST_KEY = "__manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much history stays; a version goes only if both rules let it."""

    keep: int | None = None
    older_than_s: float | None = None
    grace_s: float = CLEANUP_GRACE_S

    def __post_init__(self) -> None:
        if self.keep is None and self.older_than_s is None:
            raise BadRequestError("say how much history to keep: a number of versions, or an age")
        if self.keep is not None and self.keep < 1:
            raise BadRequestError("at least one version must be kept")
        if self.older_than_s is not None and self.older_than_s < 0:
            raise BadRequestError("an age cannot be negative")

    def kept(self, commits: list[GraphCommit], now_us: int) -> list[int]:
        """Return the graph versions of a branch that stay, given its commits, oldest first."""
        found: list[int] = []
        for number, commit in enumerate(commits):
            newest = number >= len(commits) - (self.keep or 1)
            young = (
                self.older_than_s is not None
                and now_us - commit.created_at_us < self.older_than_s * 1e6
            )
            ended_us = commits[number + 1].created_at_us if number + 1 < len(commits) else now_us
            recent = now_us - ended_us < self.grace_s * 1e6
            # With both rules a version goes only if neither wants it.
            if newest or young or recent or (self.keep is None and number == len(commits) - 1):
                found.append(commit.manifest_version)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedTable:
    """What a cleanup removed, or would remove, of one table."""

    table_key: str
    old_versions_removed: int = 0
    bytes_removed: int = 0
    forks_removed: int = 0
    error: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        found: dict[str, object] = {
            "table_key": self.table_key,
            "bytes_removed": self.bytes_removed,
            "old_versions_removed": self.old_versions_removed,
            "forks_removed": self.forks_removed,
        }
        if self.error is not None:
            found["error"] = self.error
        return found


@dataclass(slots=True)
class _Needed:
    """Per dataset path: the oldest version everything stays from, and single ones below it."""

    floors: dict[str, int] = field(default_factory=dict)
    single: dict[str, set[int]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)

    def keep_from(self, path: str, version: int) -> None:
        self.floors[path] = min(self.floors.get(path, version), version)

    def keep(self, path: str, version: int) -> None:
        self.single.setdefault(path, set()).add(version)

    def removable(self, path: str, versions: Iterable[int]) -> list[int]:
        floor = self.floors.get(path)
        single = self.single.get(path, set())
        return [v for v in versions if floor is not None and v < floor and v not in single]


class Cleanup:
    """Removes old versions of one graph. The caller keeps branches and tags from changing.

    `states` are graph versions that stay whatever their age: tagged ones, and those that
    merges start from. Of `retired` branches the states that were merged stay, of those in `gone`
    nothing.
    """

    def __init__(
        self,
        coordinators: list[Coordinator],
        states: Iterable[tuple[BranchId, int]],
        tables: Tables,
        retention: Retention,
        *,
        retired: Iterable[Coordinator] = (),
        gone: Iterable[BranchId] = (),
        dry_run: bool,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self._coordinators = coordinators
        self._states = tuple(states)
        self._tables = tables
        self._retention = retention
        self._retired = tuple(retired)
        self._gone = tuple(gone)
        self._dry_run = dry_run
        self._progress = progress or (lambda _name: None)

    def run(self) -> list[CleanedTable]:
        """Do it, table by table and the manifest last; a failure of one does not stop others."""
        needed, windows = self._needed()
        fire(Failpoint.CLEANUP_POST_PLAN)
        roots: dict[str, list[str]] = {}
        for path in sorted(needed.floors.keys() | needed.single.keys()):
            roots.setdefault(split_branch(path)[0], []).append(path)
        found = [self._clean_table(root, paths, needed) for root, paths in roots.items()]
        found += [self._drop_table(path) for path in self._dropped(roots)]
        for item in old_scratch(self._tables, older_than_s=ORPHAN_AGE_S):
            # Rows of a load whose driver was killed.
            freed = self._removed(item)
            found.append(CleanedTable(table_key=SCRATCH, bytes_removed=freed))
        fire(Failpoint.CLEANUP_PRE_MANIFEST)
        return [*sorted(found, key=lambda item: item.table_key), self._clean_manifest(windows)]

    def _dropped(self, used: Iterable[str]) -> list[str]:
        """Return the tables of dropped types that nothing is left of but their files."""
        known = set().union(*(item.ledger.paths() for item in self._coordinators))
        return [path for path in sorted(known - set(used)) if stored_versions(self._tables, path)]

    def _drop_table(self, path: str) -> CleanedTable:
        versions = len(stored_versions(self._tables, path))
        try:
            freed = (
                tree_bytes(self._tables, self._tables.folder(path))
                if self._dry_run
                else erase_table(self._tables, path)
            )
        except OmniGraphError as error:
            return CleanedTable(table_key=path, error=error.message)
        self._progress(path)
        return CleanedTable(table_key=path, old_versions_removed=versions, bytes_removed=freed)

    def _needed(self) -> tuple[_Needed, dict[BranchId, int]]:
        """Collect what every branch and tag may still be asked for."""
        needed = _Needed()
        windows: dict[BranchId, int] = {}
        now_us = time.time_ns() // 1000
        for coordinator in self._coordinators:
            capture = coordinator.capture()
            commits = coordinator.ledger.commits_to(capture.version)
            versions = self._retention.kept(commits, now_us)
            windows[coordinator.branch] = min(versions)
            for version in versions:
                for pin in coordinator.ledger.pins_at(version).values():
                    needed.keys[split_branch(pin.path)[0]] = pin.table_key
                    if coordinator.branch.owns(pin.table_branch):
                        needed.keep_from(pin.path, pin.version)
                    needed.keep(pin.path, pin.version)
        for coordinator in (*self._coordinators, *self._retired):
            for branch, version in self._states:
                if branch == coordinator.branch:
                    for pin in coordinator.ledger.pins_at(version).values():
                        needed.keep(pin.path, pin.version)
        merged = {
            commit.merged_parent_commit_id
            for coordinator in (*self._coordinators, *self._retired)
            for commit in coordinator.ledger.commits.values()
        }
        for coordinator in self._retired:
            known = coordinator.ledger.commits
            for commit in (known[name] for name in merged if name is not None and name in known):
                for pin in coordinator.ledger.pins_at(commit.manifest_version).values():
                    needed.keep(pin.path, pin.version)
        return needed, windows

    def _clean_table(self, root: str, paths: list[str], needed: _Needed) -> CleanedTable:
        key = needed.keys.get(root, root)
        total, forks = Reclaimed(), 0
        try:
            for path in paths:
                versions = needed.removable(path, stored_versions(self._tables, path))
                gone = remove_versions(self._tables, path, versions, dry_run=self._dry_run)
                freed = self._clear_torn(path)
                total = Reclaimed(
                    versions=total.versions + gone.versions, bytes=total.bytes + gone.bytes + freed
                )
            used = {name for path in paths if (name := split_branch(path)[1]) is not None}
            forks, freed = self._clean_forks(root, used)
            orphans = orphan_files(self._tables, root, older_than_s=ORPHAN_AGE_S)
            freed += sum(self._removed(item) for item in orphans)
        except OmniGraphError as error:
            return CleanedTable(table_key=key, error=error.message)
        self._progress(key)
        return CleanedTable(
            table_key=key,
            old_versions_removed=total.versions,
            bytes_removed=total.bytes + freed,
            forks_removed=forks,
        )

    def _clear_torn(self, path: str) -> int:
        folder = torn_folder(self._tables, path)
        return (tree_bytes if self._dry_run else remove_tree)(self._tables, folder)

    def _removed(self, item: Leftover) -> int:
        """Remove a file or folder, unless only asked; return its size."""
        if not self._dry_run:
            item.remove(self._tables)
        return item.size_bytes

    def _clean_forks(self, root: str, used: set[str]) -> tuple[int, int]:
        """Remove lines of versions that interrupted or lost writes left behind."""
        # A first write on a branch starts its line long before it names it.
        names = orphan_forks(
            self._tables,
            root,
            used=used,
            older_than_s=ORPHAN_AGE_S,
            gone=tuple(f"{branch.incarnation}." for branch in self._gone),
        )
        strays = stray_trees(self._tables, root, older_than_s=ORPHAN_AGE_S)
        if self._dry_run:
            trees = [self._tables.folder(f"{root}/tree/{name}") for name in names] + strays
            return len(trees), sum(tree_bytes(self._tables, tree) for tree in trees)
        freed = remove_forks(self._tables, root, names) if names else 0
        freed += sum(remove_tree(self._tables, tree) for tree in strays)
        return len(names) + len(strays), freed

    def _clean_manifest(self, windows: dict[BranchId, int]) -> CleanedTable:
        versions = freed = 0
        try:
            for branch, oldest in windows.items():
                stored = stored_versions(self._tables, branch.path)
                removable = [version for version in stored if version < oldest]
                if removable and not self._dry_run:
                    announce_removal(self._tables.files, self._tables.folder(branch.path))
                gone = remove_versions(self._tables, branch.path, removable, dry_run=self._dry_run)
                versions, freed = versions + gone.versions, freed + gone.bytes
            strays = stray_trees(self._tables, MANIFEST_KEY, older_than_s=ORPHAN_AGE_S)
            if not self._dry_run:
                freed += sum(remove_tree(self._tables, tree) for tree in strays)
            folders = [self._tables.folder(branch.path) for branch in self._gone]
            freed += sum(tree_bytes(self._tables, folder) for folder in folders)
        except OmniGraphError as error:
            return CleanedTable(table_key=MANIFEST_KEY, error=error.message)
        self._progress(MANIFEST_KEY)
        return CleanedTable(
            table_key=MANIFEST_KEY, old_versions_removed=versions, bytes_removed=freed
        )
