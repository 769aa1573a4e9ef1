"""Finds what interrupted writes left behind: data files of no version, and scratch of no load.

A file is an orphan only if it is old and no version of the table, on any of its branches, names it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from omnigraph.errors import OmniGraphError
from omnigraph.store.branches import TREE, branch_path
from omnigraph.store.reclaim import stored_versions
from omnigraph.store.tables import Tables, file_name

SCRATCH = "_scratch"
"""Folder, beside the tables, of rows that a parallel load has parsed and not yet staged."""

_DATA = ".lance"


def orphan_files(tables: Tables, root: str, *, older_than_s: float) -> list[str]:
    """Return data files, and folders of large blobs, that belong to no version of a table."""
    folder = tables.folder(root)
    old = [path for path in _data_paths(folder) if _is_old(path, older_than_s)]
    if not old:
        return []
    # The newest version names most files; only what is left is worth a look at all others.
    used = _named(tables, root, [tables.open_latest(root).version])
    old = [path for path in old if _stem(path) not in used]
    if not old:
        return []
    try:
        for line in [root, *_branches(root, folder)]:
            used |= _named(tables, line, stored_versions(tables, line))
    except OmniGraphError:
        # A version that cannot be read may name any file.
        return []
    return sorted(path for path in old if _stem(path) not in used)


def old_scratch(tables: Tables, *, older_than_s: float) -> list[str]:
    """Return the scratch folders in which nothing was written for a while."""
    parent = tables.folder(SCRATCH)
    if not os.path.isdir(parent):
        return []
    found: list[str] = []
    for name in sorted(os.listdir(parent)):
        path = os.path.join(parent, name)
        inside = [os.path.join(at, item) for at, _dirs, names in os.walk(path) for item in names]
        if all(_is_old(item, older_than_s) for item in [path, *inside]):
            found.append(path)
    return found


def _branches(root: str, folder: str) -> Iterator[str]:
    """Yield every line of versions there is, whether or not a ref still names it."""
    trees = os.path.join(folder, TREE)
    for parent, folders, _names in os.walk(trees):
        if "_versions" in folders:
            folders.clear()
            yield branch_path(root, os.path.relpath(parent, trees))


def _data_paths(folder: str) -> Iterator[str]:
    for parent, folders, _names in os.walk(folder):
        folders[:] = [name for name in folders if name in ("data", TREE) or parent != folder]
        if os.path.basename(parent) == "data":
            folders.clear()
            yield from (os.path.join(parent, name) for name in os.listdir(parent))


def _named(tables: Tables, path: str, versions: list[int]) -> set[str]:
    return {
        file_name(item).removesuffix(_DATA)
        for version in versions
        for fragment in tables.open(path, version).fragments()
        for item in fragment.data_files()
    }


def _stem(path: str) -> str:
    return os.path.basename(path).removesuffix(_DATA)


def _is_old(path: str, older_than_s: float) -> bool:
    try:
        return time.time() - os.lstat(path).st_mtime > older_than_s
    except FileNotFoundError:
        return False
