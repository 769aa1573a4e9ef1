"""Makes files survive a power loss.

Lance never syncs on a local disk, so what a commit wrote is synced here: files first, then the
directories that name them. Calls go out in parallel; the slowest one decides the cost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum

from omnigraph.errors import StorageError
from omnigraph.limits import SYNC_THREADS
from omnigraph.store.counters import count


class Durability(StrEnum):
    """Whether an acknowledged commit survives power loss (`full`) or only a process (`none`)."""

    FULL = "full"
    NONE = "none"


class Syncer:
    """Syncs batches of files and their directories."""

    def __init__(self, durability: Durability) -> None:
        self.durability = durability
        self._pool: ThreadPoolExecutor | None = None
        # Directories whose own entry is known to be on disk.
        self._settled: set[str] = set()
        self._trees: dict[str, float] = {}

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
        for folder in sorted(folders - self._settled):
            folders.add(os.path.dirname(folder))
        self._run(sorted(folders))
        self._settled |= folders

    def sync_tree(self, folder: str) -> None:
        """Sync every file below a folder that changed since the last sync of it."""
        if not self.enabled:
            return
        since = self._trees.get(folder, 0.0)
        newest = since
        files: list[str] = []
        for parent, _folders, names in os.walk(folder):
            for name in names:
                path = os.path.join(parent, name)
                changed = os.stat(path).st_mtime
                newest = max(newest, changed)
                if changed >= since:
                    files.append(path)
        self.sync(files)
        self._trees[folder] = newest

    def sync_folder(self, folder: str) -> None:
        """Sync one directory, after a file in it was created, renamed or removed."""
        if self.enabled:
            count("syncs")
            _fsync(folder)

    def _run(self, paths: list[str]) -> None:
        count("syncs", len(paths))
        if len(paths) == 1:
            _fsync(paths[0])
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="omnigraph-sync")
        list(self._pool.map(_fsync, paths))

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _fsync(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageError(f"cannot sync {path}: {error.strerror}") from error
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise StorageError(
            f"cannot sync {path}: {error.strerror}", hint="check the disk before going on"
        ) from error
    finally:
        os.close(descriptor)
