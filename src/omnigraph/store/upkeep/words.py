"""Files of words that were found in texts, beside the tables: where they lie, and when they go.

A file says from which data files it was made. It goes when one of them is gone: nothing can be
asked for then that it answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json

import msgspec
from msgspec import Struct

from omnigraph.clock import now_s
from omnigraph.store.files.protocol import Entry
from omnigraph.store.tables.branches import split_branch
from omnigraph.store.tables.fragments import FragmentGroup
from omnigraph.store.tables.table import Table, Tables, file_name
from omnigraph.store.upkeep.kept import KeptFile, open_kept
from omnigraph.store.upkeep.orphans import WORD_FILE, Leftover

WORDS = "_words"
"""Folder, beside the tables, of words that were found in texts."""


class WordsHead(Struct, frozen=True, kw_only=True):
    """What the words in a file were found in, and by which rules."""

    rules: str
    field: int
    key: str
    signature: str
    data_files: tuple[str, ...]


def word_file(tables: Tables, table: Table, group: FragmentGroup, field: int, rules: str) -> str:
    """Return the path of the file with the words of a column of some fragments."""
    digest = hashlib.sha256(json.dumps([rules, field, group.key]).encode()).hexdigest()
    return f"{tables.folder(WORDS)}/{split_branch(table.path)[0]}/{digest}{WORD_FILE}"


def data_files_of(group: FragmentGroup) -> tuple[str, ...]:
    """Return the names of the data files of some fragments."""
    return tuple(file_name(item) for part in group.fragments for item in part.data_files())


def erase_words(tables: Tables, path: str) -> None:
    """Remove the words of all texts of a table: they are found again in what is left."""
    tables.files.remove(f"{tables.folder(WORDS)}/{split_branch(path)[0]}")


def stale_words(tables: Tables, *, older_than_s: float) -> list[Leftover]:
    """Return files of words whose data files are gone, and old ones that cannot be read."""
    folder = tables.folder(WORDS)
    there: dict[str, set[str]] = {}
    leftovers: list[Leftover] = []
    for entry in list(tables.files.entries(folder)):
        root, _slash, name = entry.path.removeprefix(f"{folder}/").rpartition("/")
        if WORD_FILE not in name:
            # A folder.
            continue
        if root not in there:
            there[root] = _data_files_in(tables, root)
        if _is_stale(tables, entry, there[root], older_than_s):
            leftovers.append(Leftover(entry.path, entry.size_bytes, entry.changed_at_s))
    return leftovers


def _is_stale(tables: Tables, entry: Entry, there: set[str], older_than_s: float) -> bool:
    head = words_head(open_kept(tables.files, entry.path))
    if head is None:
        return now_s() - entry.changed_at_s > older_than_s
    return not there.issuperset(head.data_files)


def words_head(kept: KeptFile | None) -> WordsHead | None:
    """Return what a file is about; None when it says nothing of words."""
    with contextlib.suppress(msgspec.MsgspecError):
        return None if kept is None else msgspec.json.decode(kept.about, type=WordsHead)
    return None


def _data_files_in(tables: Tables, root: str) -> set[str]:
    """Return the names of all data files of a table, on any of its branches."""
    entries = tables.files.entries(tables.folder(root))
    names = (entry.path.rpartition("/data/")[2] for entry in entries)
    return {name for name in names if "/" not in name}
