"""Makes branches of a graph that was moved or copied find their files again.

A branch names the folders it shares files with by absolute path, so a graph with branches would
break when its folder is renamed, and a copy would go on reading the original. The paths stand in
the version files of the branches; they are written anew there, file by file, each replaced whole.
Doing it twice, or in two processes at once, changes nothing more.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph.errors import StorageError
from omnigraph.store.files.protocol import Files
from omnigraph.store.tables.lance_errors import translated
from omnigraph.store.tables.protobuf import bytes_field, content, parts
from omnigraph.store.tables.table import TREE

if TYPE_CHECKING:
    from lance import LanceDataset

_MAGIC = b"LANC"
_FOOTER = struct.Struct("<QHH4s")
_BASE_PATHS = 18
_PATH, _NAME = 4, 2


def is_moved(dataset: LanceDataset, root: str) -> bool:
    """Whether a branch's dataset shares files with another place than the one it lies in."""
    with translated("looking at a branch"):
        paths = [str(base.path) for base in dataset.base_paths().values()]
    return any(not _below(path, root) for path in paths)


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def relocate_branches(files: Files, root: str) -> int:
    """Point every branch of the dataset at `root` to this place; return how many files changed."""
    changed = 0
    for path in _version_files(files, f"{root}/{TREE}"):
        data = files.read(path)
        try:
            moved = None if data is None else relocated(data, root)
            if moved is not None:
                files.replace(path, moved, sync=True)
                changed += 1
        except (ValueError, LookupError, struct.error) as error:
            raise StorageError(f"cannot read {path}: {error}") from error
    return changed


def _version_files(files: Files, folder: str) -> Iterator[str]:
    for path in files.below(folder):
        parent, name = os.path.split(path)
        if parent.endswith("/_versions") and name.endswith(".manifest") and name[0] != ".":
            yield path


def relocated(data: bytes, root: str) -> bytes | None:
    """Return a version file with its base paths moved to `root`; None when they lie there."""
    if len(data) < _FOOTER.size or data[-4:] != _MAGIC:
        return None
    position, major, minor, magic = _FOOTER.unpack(data[-_FOOTER.size :])
    (size,) = struct.unpack_from("<I", data, position)
    body = data[position + 4 : position + 4 + size]
    bases = [part for field, part in parts(body) if field == _BASE_PATHS]
    texts = [_text(part, _PATH) for part in map(content, bases)]
    # The dataset itself comes without a name; branches it shares files with lie below it.
    own = [t for t, part in zip(texts, bases, strict=True) if not _text(content(part), _NAME)]
    if not own or all(_below(text, root) for text in texts):
        return None
    old = own[0]
    made = bytearray()
    for field, part in parts(body):
        made += part if field != _BASE_PATHS else _moved(part, old, root)
    footer = _FOOTER.pack(position, major, minor, magic)
    return data[:position] + struct.pack("<I", len(made)) + bytes(made) + footer


def _moved(part: bytes, old: str, root: str) -> bytes:
    made = bytearray()
    for field, item in parts(content(part)):
        if field == _PATH:
            text = content(item).decode()
            item = bytes_field(_PATH, (root + text[len(old) :]).encode())
        made += item
    return bytes_field(_BASE_PATHS, bytes(made))


def _text(message: bytes, wanted: int) -> str:
    for field, part in parts(message):
        if field == wanted:
            return content(part).decode()
    return ""
