"""Files of arrays that were computed from tables and are kept beside them.

Such a file is derived data. Checksums cover its head and each of its parts, so one that is missing,
damaged or half-written is passed over, and what it says is computed again. It needs no commit and
no sync.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct
from numpy.typing import NDArray

from omnigraph.errors import StorageError
from omnigraph.limits import KEPT_HEAD_BYTES, KEPT_HEAD_BYTES_MAX
from omnigraph.store.files.protocol import Files

_MAGIC = b"OGKEPT01"
_NUMBER_BYTES = 8
_HEAD_START = len(_MAGIC) + 2 * _NUMBER_BYTES
"""A mark, the length of the head and its checksum; the head follows, then the parts."""


class _Part(Struct, frozen=True):
    """Where a part lies, counted from the end of the head, and its checksum."""

    start: int
    size: int
    checksum: int


class _Head(Struct, frozen=True):
    about: Raw
    parts: dict[str, _Part]


class KeptFile(Struct, frozen=True):
    """A file that was opened: what it is about, and its parts by name."""

    about: Raw
    parts: Mapping[str, _Part]
    _read: Callable[[int, int], bytes | memoryview]

    def part(self, name: str) -> memoryview | None:
        """Return a part; None when the file has none or it is damaged."""
        part = self.parts.get(name)
        if part is None:
            return None
        with contextlib.suppress(StorageError):
            data = self._read(part.start, part.size)
            if len(data) == part.size and zlib.crc32(data) == part.checksum:
                return memoryview(data)
        return None

    def arrays(self, kinds: Mapping[str, str]) -> dict[str, NDArray[Any]] | None:
        """Return the parts of these names as arrays of these kinds; None without all of them."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, kind in kinds.items():
            data = self.part(name)
            if data is None:
                return None
            arrays[name] = np.frombuffer(data, kind)
        return arrays


def pack(about: Struct, parts: Mapping[str, bytes | memoryview]) -> bytes:
    """Return the content of a file."""
    places: dict[str, _Part] = {}
    start = 0
    for name, data in parts.items():
        places[name] = _Part(start, len(data), zlib.crc32(data))
        start += len(data)
    head = msgspec.json.encode(_Head(Raw(msgspec.json.encode(about)), places))
    return b"".join([_MAGIC, _number(len(head)), _number(zlib.crc32(head)), head, *parts.values()])


def read_kept(files: Files, path: str) -> KeptFile | None:
    """Read a file whole; None when it is not there or its head is damaged."""
    data = None
    with contextlib.suppress(StorageError):
        data = files.read(path)
    if data is None:
        return None
    end = _HEAD_START + _length(data)
    head = _head(data[:_HEAD_START], data[_HEAD_START:end])
    body = memoryview(data)[end:]
    if head is None:
        return None
    return KeptFile(head.about, head.parts, lambda start, size: body[start : start + size])


def open_kept(files: Files, path: str) -> KeptFile | None:
    """Read the head of a file; its parts are read when they are asked for."""
    with contextlib.suppress(StorageError):
        data = files.read(path, 0, KEPT_HEAD_BYTES)
        if data is None:
            return None
        end = _HEAD_START + _length(data)
        if data[: len(_MAGIC)] != _MAGIC or end > KEPT_HEAD_BYTES_MAX:
            return None
        if end > len(data):
            data = files.read(path, 0, end) or b""
        head = _head(data[:_HEAD_START], data[_HEAD_START:end])
        if head is None:
            return None
        return KeptFile(
            head.about,
            head.parts,
            lambda start, size: files.read(path, end + start, size) or b"",
        )
    return None


def _head(prefix: bytes, text: bytes) -> _Head | None:
    checksum = int.from_bytes(prefix[_HEAD_START - _NUMBER_BYTES :], "little")
    if prefix[: len(_MAGIC)] != _MAGIC or zlib.crc32(text) != checksum:
        return None
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(text, type=_Head)
    return None


def _length(prefix: bytes) -> int:
    return int.from_bytes(prefix[len(_MAGIC) : len(_MAGIC) + _NUMBER_BYTES], "little")


def _number(value: int) -> bytes:
    return value.to_bytes(_NUMBER_BYTES, "little")
