"""Notes which versions of a table are about to be removed, before any of their files goes.

The files of a version go in no certain order and its own file goes last. A reader that misses a
file of a version can tell by the note that the version was given up, even if the cleanup was killed
before it came to the version's own file. What it did not finish, the next cleanup notes again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from omnigraph.store.files.protocol import Files

NOTE = "_going"
Run = tuple[int, int]
"""The first and the last of some versions that follow each other."""


def note_removal(files: Files, folder: str, versions: Iterable[int]) -> None:
    """Say which versions of a table are about to be removed; it is durable when this returns."""
    files.replace(_path(folder), msgspec.json.encode(_runs(versions)), sync=True)


def is_noted(files: Files, folder: str, version: int) -> bool:
    """Whether a version of a table was given up, so that files of it may be missing."""
    data = files.read(_path(folder))
    if data is None:
        return False
    try:
        runs = msgspec.json.decode(data, type=list[Run])
    except msgspec.DecodeError:
        # It only tells why a file is missing; without it, that is damage.
        return False
    return any(first <= version <= last for first, last in runs)


def _runs(versions: Iterable[int]) -> list[Run]:
    runs: list[Run] = []
    for version in sorted(versions):
        if runs and version == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], version)
        else:
            runs.append((version, version))
    return runs


def _path(folder: str) -> str:
    return f"{folder}/{NOTE}"
