"""Finds what interrupted writes left behind: data files of no version, and scratch of no load.

A file is an orphan only if it is old and no version of the table, on any of its branches, names it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from msgspec import Struct

from omnigraph.clock import now_s
from omnigraph.errors import OmniGraphError
from omnigraph.store.files.protocol import Entry
from omnigraph.store.tables.branches import branch_path
from omnigraph.store.tables.table import TREE, Tables, file_name
from omnigraph.store.upkeep.reclaim import datasets_below, stored_versions

SCRATCH = "_scratch"
"""Folder, beside the tables, of rows that a parallel load has parsed and not yet staged."""

WORD_FILE = ".words"
EDGE_FILE = ".edges"
_DATA = ".lance"


class Leftover(Struct):
    """A file or folder, with the size and the last change of everything in it."""

    path: str
    size_bytes: int = 0
    changed_at_s: float = 0.0

    @property
    def stem(self) -> str:
        """Its name; a data file and the folder of its blobs share it."""
        return os.path.basename(self.path).removesuffix(_DATA)

    def take_in(self, entry: Entry) -> None:
        """Count something that lies in it."""
        self.size_bytes += entry.size_bytes
        self.changed_at_s = max(self.changed_at_s, entry.changed_at_s)

    def remove(self, tables: Tables) -> None:
        """Remove it."""
        if self.path.endswith(_DATA) or WORD_FILE in self.stem or EDGE_FILE in self.stem:
            tables.files.delete(self.path)
        else:
            tables.files.remove(self.path)


def orphan_files(tables: Tables, root: str, *, older_than_s: float) -> list[Leftover]:
    """Return data files, and folders of large blobs, that belong to no version of a table."""
    folder = tables.folder(root)
    old = _old(tables, folder, _data_path, older_than_s)
    if not old:
        return []
    # The newest version names most files; only what is left is worth a look at all others.
    used = _file_stems(tables, root, [tables.open_latest(root).version])
    old = [item for item in old if item.stem not in used]
    if not old:
        return []
    try:
        for line in [root, *_branches(tables, root, folder)]:
            used |= _file_stems(tables, line, stored_versions(tables, line))
    except OmniGraphError:
        # A version that cannot be read may name any file.
        return []
    return [item for item in old if item.stem not in used]


def old_scratch(tables: Tables, *, older_than_s: float) -> list[Leftover]:
    """Return the scratch folders in which nothing was written for a while."""
    return _old(tables, tables.folder(SCRATCH), lambda name: name.split("/", 1)[0], older_than_s)


def _old(
    tables: Tables, folder: str, owner: Callable[[str], str | None], older_than_s: float
) -> list[Leftover]:
    """Return what nothing was changed in for a while; `owner` says to what a name belongs."""
    leftovers: dict[str, Leftover] = {}
    for entry in tables.files.entries(folder):
        name = owner(entry.path.removeprefix(f"{folder}/"))
        if name is not None:
            leftovers.setdefault(name, Leftover(f"{folder}/{name}")).take_in(entry)
    now = now_s()
    return [item for _, item in sorted(leftovers.items()) if now - item.changed_at_s > older_than_s]


def _data_path(name: str) -> str | None:
    """Return the data file, or the folder of blobs, that something in a table's folder is of."""
    parts = name.split("/")
    if parts[0] not in ("data", TREE) or "data" not in parts[:-1]:
        return None
    return "/".join(parts[: parts.index("data") + 2])


def _branches(tables: Tables, root: str, folder: str) -> Iterator[str]:
    """Yield every branch of the table, whether or not a ref still names it."""
    trees = f"{folder}/{TREE}"
    for path in datasets_below(tables.files, trees):
        yield branch_path(root, path.removeprefix(f"{trees}/"))


def _file_stems(tables: Tables, path: str, versions: list[int]) -> set[str]:
    return {
        file_name(item).removesuffix(_DATA)
        for version in versions
        for fragment in tables.open(path, version).fragments()
        for item in fragment.data_files()
    }
