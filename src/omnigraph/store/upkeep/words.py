"""Files of words that were found in texts, beside the tables: where they lie, and when they go.

A file says from which data files it was made. It goes when one of them is gone: nothing can be
asked for then that it answers.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from omnigraph.clock import now_s
from omnigraph.store.files.protocol import Entry
from omnigraph.store.tables.branches import split_branch
from omnigraph.store.tables.fragments import FragmentGroup
from omnigraph.store.tables.table import Table, Tables, file_name
from omnigraph.store.upkeep.orphans import WORD_FILE, Leftover

WORDS = "_words"
"""Folder, beside the tables, of words that were found in texts."""

_MAGIC = b"OGWORDS1"
_NUMBER_BYTES = 8
_PREFIX = len(_MAGIC) + _NUMBER_BYTES
"""A mark, and the checksum of the rest: the length of the head, the head, the parts."""


class WordsHead(Struct, frozen=True, kw_only=True):
    """What the words in a file were found in, and by which rules."""

    rules: str
    field: int
    key: str
    signature: str
    data_files: tuple[str, ...]
    sizes: tuple[int, ...]


def word_file(tables: Tables, table: Table, group: FragmentGroup, field: int, rules: str) -> str:
    """Return the path of the file with the words of a column of some fragments."""
    digest = hashlib.sha256(json.dumps([rules, field, group.key]).encode()).hexdigest()
    return f"{tables.folder(WORDS)}/{split_branch(table.path)[0]}/{digest}{WORD_FILE}"


def data_files_of(group: FragmentGroup) -> tuple[str, ...]:
    """Return the names of the data files of some fragments."""
    return tuple(file_name(item) for part in group.fragments for item in part.data_files())


def pack_words(head: WordsHead, parts: Sequence[bytes]) -> bytes:
    """Return the content of a file."""
    text = msgspec.json.encode(head)
    body = b"".join([len(text).to_bytes(_NUMBER_BYTES, "little"), text, *parts])
    return _MAGIC + zlib.crc32(body).to_bytes(_NUMBER_BYTES, "little") + body


def unpack_words(data: bytes) -> tuple[WordsHead, list[memoryview]] | None:
    """Return head and parts of a file; None when it is damaged."""
    body = memoryview(data)[_PREFIX:]
    checksum = int.from_bytes(data[len(_MAGIC) : _PREFIX], "little")
    if data[: len(_MAGIC)] != _MAGIC or zlib.crc32(body) != checksum:
        return None
    start = _NUMBER_BYTES + int.from_bytes(body[:_NUMBER_BYTES], "little")
    head = msgspec.json.decode(body[_NUMBER_BYTES:start], type=WordsHead)
    parts: list[memoryview] = []
    for size in head.sizes:
        parts.append(body[start : start + size])
        start += size
    return head, parts


def erase_words(tables: Tables, path: str) -> None:
    """Remove the words of all texts of a table: they are found again in what is left."""
    tables.files.remove(f"{tables.folder(WORDS)}/{split_branch(path)[0]}")


def stale_words(tables: Tables, *, older_than_s: float) -> list[Leftover]:
    """Return files of words whose data files are gone, and old ones that cannot be read."""
    folder = tables.folder(WORDS)
    there: dict[str, set[str]] = {}
    found: list[Leftover] = []
    for entry in list(tables.files.entries(folder)):
        root, _slash, name = entry.path.removeprefix(f"{folder}/").rpartition("/")
        if WORD_FILE not in name:
            # A folder.
            continue
        if root not in there:
            there[root] = _data_files_in(tables, root)
        if _is_stale(tables, entry, there[root], older_than_s):
            found.append(Leftover(entry.path, entry.size_bytes, entry.changed_at_s))
    return found


def _is_stale(tables: Tables, entry: Entry, there: set[str], older_than_s: float) -> bool:
    head = _head_of(tables, entry.path)
    if head is None:
        return now_s() - entry.changed_at_s > older_than_s
    return not there.issuperset(head.data_files)


def _head_of(tables: Tables, path: str) -> WordsHead | None:
    """Return the head of a file without reading the rest; None when it has none."""
    opened = tables.files.open(path)
    if opened is None:
        return None
    handle, size = opened
    with handle:
        start = handle.read(_PREFIX + _NUMBER_BYTES)
        length = int.from_bytes(start[_PREFIX:], "little")
        if start[: len(_MAGIC)] != _MAGIC or length > size:
            return None
        try:
            return msgspec.json.decode(handle.read(length), type=WordsHead)
        except msgspec.MsgspecError:
            return None


def _data_files_in(tables: Tables, root: str) -> set[str]:
    """Return the names of all data files of a table, on any of its branches."""
    entries = tables.files.entries(tables.folder(root))
    names = (entry.path.rpartition("/data/")[2] for entry in entries)
    return {name for name in names if "/" not in name}
