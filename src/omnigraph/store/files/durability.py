"""Makes files survive a power loss.

Lance never syncs on a local disk, so what a commit wrote is synced here: files first, then the
directories that name them. Calls go out in parallel; the slowest one decides the cost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum

from omnigraph.bounded import BoundedCache
from omnigraph.errors import BadRequestError, StorageError
from omnigraph.limits import SYNC_THREADS, SYNCED_FOLDERS_MAX
from omnigraph.store.files.counters import count
from omnigraph.store.files.local_files import fsync
from omnigraph.store.files.location import Location


class Durability(StrEnum):
    """Whether an acknowledged commit survives power loss (`full`) or only a process (`none`)."""

    FULL = "full"
    NONE = "none"


def parse_durability(value: Durability | str) -> Durability:
    """Read a durability. Raises `BadRequestError`."""
    try:
        return Durability(value)
    except ValueError:
        raise BadRequestError(
            f"unknown durability {value!r}; expected one of {', '.join(Durability)}"
        ) from None


def new_syncer(location: Location, durability: Durability | str) -> Syncer:
    """Return what makes a graph's files survive; where they survive anyway, it does nothing."""
    wanted = parse_durability(durability)
    return Syncer(Durability.NONE if location.files.safe else wanted, root=location.root)


class Syncer:
    """Syncs batches of files and their directories."""

    def __init__(self, durability: Durability, *, root: str = os.sep) -> None:
        self.durability = durability
        self._top = os.path.dirname(root.rstrip(os.sep)) or os.sep
        self._pool: ThreadPoolExecutor | None = None
        # Directories whose own entry is known to be on disk.
        self._settled: BoundedCache[str, bool] = BoundedCache(SYNCED_FOLDERS_MAX)
        # When a folder was last synced with all in it. What is forgotten is synced once more.
        self._trees: BoundedCache[str, float] = BoundedCache(SYNCED_FOLDERS_MAX)

    @property
    def enabled(self) -> bool:
        """Whether anything is synced at all."""
        return self.durability is Durability.FULL

    def sync(self, files: Iterable[str]) -> None:
        """Sync files, then their directories; new directories sync their parents too."""
        if not self.enabled:
            return
        paths = sorted(set(files))
        if not paths:
            return
        self._run(paths)
        folders = {os.path.dirname(path) for path in paths}
        for folder in sorted(folders):
            folders |= self._unsettled_above(folder)
        self._run(sorted(folders))
        for folder in folders:
            self._settled.put(folder, True)

    def _unsettled_above(self, folder: str) -> set[str]:
        """Return the folders that name a new folder, up to the one the graph lies in."""
        folders: set[str] = set()
        while folder not in self._settled and folder != self._top and folder != os.sep:
            folder = os.path.dirname(folder)
            folders.add(folder)
        return folders

    def sync_tree(self, folder: str) -> None:
        """Sync every file below a folder that changed since the last sync of it."""
        if not self.enabled:
            return
        since = self._trees.get(folder) or 0.0
        newest = since
        files: list[str] = []
        for parent, folders, names in os.walk(folder):
            if parent == folder:
                # Other branches of this table: they come and go without this one.
                folders[:] = [name for name in folders if name not in ("tree", "_refs")]
            for name in names:
                if name.startswith(".") or "#" in name:
                    # Lance gives a file its name when it is complete: no version refers to this.
                    continue
                path = os.path.join(parent, name)
                try:
                    # Not the time of writing: a file is renamed into place after that.
                    changed = os.stat(path).st_ctime
                except FileNotFoundError:
                    # Cleaned up meanwhile: no version that is kept needs it.
                    continue
                newest = max(newest, changed)
                if changed >= since:
                    files.append(path)
        self._sync_existing(files)
        self._trees.put(folder, newest)

    def _sync_existing(self, files: list[str]) -> None:
        """Sync files; those that are cleaned up meanwhile need none."""
        while True:
            try:
                return self.sync(files)
            except StorageError:
                left = [path for path in files if os.path.exists(path)]
                if len(left) == len(files):
                    raise
                files = left

    def sync_folder(self, folder: str) -> None:
        """Sync one directory, after a file in it was created, renamed or removed."""
        if self.enabled:
            count("syncs")
            fsync(folder)

    def _run(self, paths: list[str]) -> None:
        count("syncs", len(paths))
        if len(paths) == 1:
            fsync(paths[0])
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="omnigraph-sync")
        list(self._pool.map(fsync, paths))

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
