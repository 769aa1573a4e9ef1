"""Forgets old states: decides which versions a reader may still need, and removes the others.

What a branch or tag can be asked for stays: the newest graph versions, those younger than asked
for, and whatever was current a moment ago. Below the oldest of them a table keeps exactly the
versions some branch or tag still names. Above it everything stays, so writers go on undisturbed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct, field

from omnigraph.clock import now_us
from omnigraph.commits import BranchId, GraphCommit, History, ManifestReader
from omnigraph.errors import BadRequestError, ConflictError, OmniGraphError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.limits import (
    CLEANUP_GRACE_S,
    MAINTENANCE_THREADS,
    ORPHAN_AGE_S,
    RETAIN_S,
    RETAIN_VERSIONS,
    RETAIN_VERSIONS_MAX,
)
from omnigraph.store import Tables, side_by_side, split_branch
from omnigraph.store.tables.journal import announce_removal
from omnigraph.store.tables.removals import note_removal
from omnigraph.store.upkeep.edges import EDGES, stale_edges
from omnigraph.store.upkeep.floors import Floor, read_floors, write_floors
from omnigraph.store.upkeep.orphans import SCRATCH, Leftover, old_scratch, orphan_files
from omnigraph.store.upkeep.reclaim import (
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
    version_times_us,
    versions_and_beside,
)
from omnigraph.store.upkeep.words import WORDS, stale_words
from omnigraph.values.reports import CleanedTable

MANIFEST_KEY = "__manifest"
_REPEATS_MAX = 2
"""How often the cleaning of a table is repeated that met the deletion of a branch."""


class Retention(Struct, frozen=True, kw_only=True):
    """How much history stays; a version goes only if both rules let it.

    Of those that stay for their age alone there are at most as many as `most` leaves room for.
    """

    keep: int | None = None
    older_than_s: float | None = None
    most: int | None = None
    grace_s: float = CLEANUP_GRACE_S

    @classmethod
    def of(
        cls, keep: int | None, older_than_s: float | None, grace_s: float = CLEANUP_GRACE_S
    ) -> Retention:
        """Return the rules a caller gave, or the default ones when it gave none."""
        most = None
        if keep is None and older_than_s is None:
            keep, older_than_s, most = RETAIN_VERSIONS, RETAIN_S, RETAIN_VERSIONS_MAX
        return cls(keep=keep, older_than_s=older_than_s, most=most, grace_s=grace_s)

    def __post_init__(self) -> None:
        if self.keep is not None and self.keep < 1:
            raise BadRequestError("at least one version must be kept")
        if self.most is not None and self.most < max(self.keep or 1, 1):
            raise BadRequestError("the most versions that stay cannot be fewer than those kept")
        if self.older_than_s is not None and self.older_than_s < 0:
            raise BadRequestError("an age cannot be negative")

    def kept(
        self, commits: list[GraphCommit], now: int, published_us: Mapping[int, int]
    ) -> list[int]:
        """Return the graph versions of a branch that stay, given its commits, oldest first.

        `published_us` is when versions were published: a commit's own time is when its write
        began, which may be long before the state it replaced stopped being current.
        """
        versions: list[int] = []
        for number, commit in enumerate(commits):
            newest = number >= len(commits) - (self.keep or 1)
            young = (
                self.older_than_s is not None
                and (self.most is None or number >= len(commits) - self.most)
                and now - commit.created_at_us < self.older_than_s * 1e6
            )
            ended_us = now
            if number + 1 < len(commits):
                after = commits[number + 1]
                ended_us = published_us.get(after.manifest_version, after.created_at_us)
            recent = now - ended_us < self.grace_s * 1e6
            # With both rules a version goes only if neither wants it.
            if newest or young or recent or (self.keep is None and number == len(commits) - 1):
                versions.append(commit.manifest_version)
        return versions


class Needed(Struct):
    """Per dataset path: the oldest version everything stays from, and single ones below it."""

    floors: dict[str, int] = field(default_factory=dict)
    single: dict[str, set[int]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)

    def keep_from(self, path: str, version: int) -> None:
        """Keep a version of a dataset and everything above it."""
        self.floors[path] = min(self.floors.get(path, version), version)

    def keep(self, path: str, version: int) -> None:
        """Keep one version of a dataset."""
        self.single.setdefault(path, set()).add(version)

    def removable(self, path: str, versions: Iterable[int]) -> list[int]:
        """Return those of the versions of a dataset that nothing needs."""
        floor = self.floors.get(path)
        single = self.single.get(path, set())
        return [v for v in versions if floor is not None and v < floor and v not in single]


State = tuple[BranchId, int]
"""A graph version of a branch."""


class BranchManifest(Protocol):
    """A branch and all its commits and published versions."""

    branch: BranchId
    history: History


def needed_versions(
    living: Sequence[BranchManifest],
    retired: Sequence[BranchManifest],
    windows: Mapping[BranchId, list[int]],
    states: Collection[State],
) -> Needed:
    """Collect what every branch and tag may still be asked for.

    `windows` are the graph versions that stay of each living branch, `states` single ones of any.
    """
    needed = Needed()
    for item in living:
        window = windows[item.branch]
        for pin in item.history.pins_over(window[0], window[-1]):
            needed.keys[split_branch(pin.path)[0]] = pin.table_key
            if item.branch.owns(pin.table_branch):
                needed.keep_from(pin.path, pin.version)
            needed.keep(pin.path, pin.version)
            if pin.seq >= window[0] and item.history.is_group(pin.seq):
                # States between its commits are made from the version before.
                needed.keep(pin.path, pin.version - 1)
    merged = {
        commit.merged_parent_commit_id
        for item in ((*living, *retired) if retired else ())
        for commit in _commits(item.history)
    }
    single = [
        (item, version)
        for item in (*living, *retired)
        for branch, version in states
        if branch == item.branch
    ]
    single += [
        (item, commit.manifest_version)
        for item in retired
        for commit in _commits(item.history)
        if commit.graph_commit_id in merged
    ]
    for item, version in single:
        for pin in item.history.pins_at(version).values():
            needed.keep(pin.path, pin.version)
            if pin.seq == version and item.history.is_group(version):
                needed.keep(pin.path, pin.version - 1)
    return needed


def _commits(history: History) -> Iterator[GraphCommit]:
    return history.oldest_first(0, history.recent.last)


class Removal(Struct, frozen=True, kw_only=True):
    """What a cleanup has decided: what must stay, and where to look for the rest."""

    needed: Needed
    oldest: Mapping[BranchId, int]
    roots: Mapping[str, list[str]]
    dropped: tuple[str, ...]
    """Tables of dropped types that no kept state needs."""


class Cleanup:
    """Removes old versions of one graph.

    `states` returns graph versions that stay whatever their age: tagged ones, those that branches
    were made from, and those that merges start from. Of `retired` branches the states that were
    merged stay, of those in `gone` nothing. `lapsed` tells that another cleanup may be running.
    """

    def __init__(
        self,
        manifests: list[ManifestReader],
        states: Callable[[], Iterable[State]],
        tables: Tables,
        retention: Retention,
        *,
        retired: Iterable[ManifestReader] = (),
        gone: Iterable[BranchId] = (),
        lapsed: Callable[[], bool],
        dry_run: bool,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self._manifests = manifests
        self._states = states
        self._lapsed = lapsed
        self._tables = tables
        self._retention = retention
        self._retired = tuple(retired)
        self._gone = tuple(gone)
        self._dry_run = dry_run
        self._tell = progress or (lambda _name: None)
        self._telling = threading.Lock()

    def _progress(self, name: str) -> None:
        # Tables are cleaned side by side; the listener hears of one after the other.
        with self._telling:
            self._tell(name)

    def plan(self) -> Removal:
        """Decide what goes, and announce it. The caller keeps branches and tags from changing."""
        windows = self._windows()
        states = self._announced(windows)
        needed = needed_versions(self._manifests, self._retired, windows, states)
        roots: dict[str, list[str]] = {}
        for path in sorted(needed.floors.keys() | needed.single.keys()):
            roots.setdefault(split_branch(path)[0], []).append(path)
        known = set().union(*(item.history.paths() for item in self._manifests))
        fire(Failpoint.CLEANUP_POST_PLAN)
        return Removal(
            needed=needed,
            oldest={branch: min(kept) for branch, kept in windows.items()},
            roots=roots,
            dropped=tuple(sorted(known - roots.keys())),
        )

    def run(self, removal: Removal) -> list[CleanedTable]:
        """Do it, table by table and the manifest last; a failure of one does not stop others.

        Branches and tags may change meanwhile: they find what they need above the floors.
        """
        cleaned = side_by_side(
            lambda item: _persistent(partial(self._clean_table, *item, removal.needed)),
            removal.roots.items(),
            at_once=max(MAINTENANCE_THREADS, self._tables.files.calls_at_once),
        )
        cleaned += [
            self._drop_table(path)
            for path in removal.dropped
            if stored_versions(self._tables, path)
        ]
        for item in old_scratch(self._tables, older_than_s=ORPHAN_AGE_S):
            # Rows of a load whose driver was killed.
            freed = self._removed(item)
            cleaned.append(CleanedTable(table_key=SCRATCH, bytes_removed=freed))
        for item in stale_words(self._tables, older_than_s=ORPHAN_AGE_S):
            cleaned.append(CleanedTable(table_key=WORDS, bytes_removed=self._removed(item)))
        for item in stale_edges(self._tables, removal.roots, older_than_s=ORPHAN_AGE_S):
            cleaned.append(CleanedTable(table_key=EDGES, bytes_removed=self._removed(item)))
        fire(Failpoint.CLEANUP_PRE_MANIFEST)
        manifest = _persistent(partial(self._clean_manifest, removal.oldest))
        return [*sorted(cleaned, key=lambda item: item.table_key), manifest]

    def _drop_table(self, path: str) -> CleanedTable:
        versions = len(stored_versions(self._tables, path))
        self._check_held()
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

    def _windows(self) -> dict[BranchId, list[int]]:
        """Return the graph versions of each branch that the retention keeps."""
        now = now_us()
        files = self._tables.files
        floors = read_floors(files, self._tables.folder(MANIFEST_KEY)).by_branch

        def window(manifest: ManifestReader) -> list[int]:
            version = manifest.capture().version
            # What was given up once stays given up, so it need not be looked at again.
            floor = min(floors.get(manifest.branch.uid, Floor()).version, version)
            commits = manifest.history.heads_between(floor - 1, version)
            published_us = version_times_us(self._tables, manifest.branch.path)
            return self._retention.kept(commits, now, published_us)

        windows = side_by_side(window, self._manifests, at_once=files.calls_at_once)
        branches = [manifest.branch for manifest in self._manifests]
        return dict(zip(branches, windows, strict=True))

    def _announced(self, windows: Mapping[BranchId, list[int]]) -> set[State]:
        """Raise the floors before anything goes; return the single states that stay.

        The names of states are looked at again afterwards: who made one meanwhile, and read the
        floors before they rose, relies on it.
        """
        states = set(self._states())
        if self._dry_run:
            return states
        files, root = self._tables.files, self._tables.folder(MANIFEST_KEY)
        before = read_floors(files, root)
        announced = write_floors(files, root, before, before.raised(_floors(windows, states)))
        fire(Failpoint.CLEANUP_POST_FLOOR)
        if added := set(self._states()) - states:
            states |= added
            write_floors(files, root, announced, before.raised(_floors(windows, states)))
        return states

    def _check_held(self) -> None:
        if self._lapsed() and not self._dry_run:
            raise ConflictError(
                "the cleanup was stopped for too long, another one may be running",
                hint="run it again",
            )

    def _clean_table(self, root: str, paths: list[str], needed: Needed) -> CleanedTable:
        key = needed.keys.get(root, root)
        total, forks = Reclaimed(), 0
        self._check_held()
        try:
            for path, versions in self._noted(paths, needed):
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

    def _noted(self, paths: list[str], needed: Needed) -> list[tuple[str, list[int]]]:
        """Return the versions to remove of each branch of a table.

        They are noted before any goes: a version of one branch may rest on files of another.
        """
        files, noted = self._tables.files, []
        for path in paths:
            stored, beside = versions_and_beside(self._tables, path)
            versions = needed.removable(path, stored)
            if not self._dry_run:
                for file in beside:
                    # Before what they rest on: who reads one finds it gone, not damaged.
                    files.delete(file)
                if versions:
                    note_removal(files, self._tables.folder(path), versions)
            noted.append((path, versions))
        return noted

    def _clear_torn(self, path: str) -> int:
        folder = torn_folder(self._tables, path)
        return (tree_bytes if self._dry_run else remove_tree)(self._tables, folder)

    def _removed(self, item: Leftover) -> int:
        """Remove a file or folder, unless only asked; return its size."""
        if not self._dry_run:
            item.remove(self._tables)
        return item.size_bytes

    def _clean_forks(self, root: str, used: set[str]) -> tuple[int, int]:
        """Remove branches of a table that interrupted or lost writes left behind."""
        # A first write on a branch starts its table branch long before it names it.
        groups = orphan_forks(
            self._tables,
            root,
            used=used,
            older_than_s=ORPHAN_AGE_S,
            gone={branch.uid for branch in self._gone},
        )
        strays = stray_trees(self._tables, root, older_than_s=ORPHAN_AGE_S)
        names = [name for group in groups for name in group]
        if self._dry_run:
            trees = [self._tables.folder(f"{root}/tree/{name}") for name in names] + strays
            return len(trees), sum(tree_bytes(self._tables, tree) for tree in trees)
        freed = remove_forks(self._tables, root, groups) if names else 0
        freed += sum(remove_tree(self._tables, tree) for tree in strays)
        return len(names) + len(strays), freed

    def _clean_branch(self, branch: BranchId, kept_from: int) -> Reclaimed:
        """Remove old versions of the manifest of a branch."""
        stored = stored_versions(self._tables, branch.path)
        removable = [version for version in stored if version < kept_from]
        if removable and not self._dry_run:
            announce_removal(self._tables.files, self._tables.folder(branch.path))
        return remove_versions(self._tables, branch.path, removable, dry_run=self._dry_run)

    def _clean_manifest(self, oldest: Mapping[BranchId, int]) -> CleanedTable:
        self._check_held()
        files = self._tables.files
        try:
            cleaned = side_by_side(
                lambda item: self._clean_branch(*item), oldest.items(), at_once=files.calls_at_once
            )
            versions = sum(item.versions for item in cleaned)
            freed = sum(item.bytes for item in cleaned)
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


def _persistent(clean: Callable[[], CleanedTable]) -> CleanedTable:
    """Clean a table; again if it failed, as it does when a branch is deleted under it."""
    cleaned = clean()
    for _again in range(_REPEATS_MAX):
        if cleaned.error is None:
            break
        cleaned = clean()
    return cleaned


def _floors(windows: Mapping[BranchId, list[int]], states: Iterable[State]) -> dict[str, Floor]:
    single: dict[BranchId, set[int]] = {}
    for branch, version in states:
        single.setdefault(branch, set()).add(version)
    return {
        branch.uid: Floor(min(kept), tuple(sorted(single.get(branch, ()))))
        for branch, kept in windows.items()
    }
