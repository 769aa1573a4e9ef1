"""Finds the newest version of a table, and sets aside version files a power loss tore.

Lance names a version file only when it is complete, so an unreadable one was never acknowledged:
its bytes were lost before they were synced. Left in place it would block the table for good. Only
a local disk tears files.
"""

from __future__ import annotations

import os
import re

from omnigraph.store.files.counters import count
from omnigraph.store.files.local_files import failure
from omnigraph.store.files.protocol import Files

_NAME = re.compile(r"(\d{20})\.manifest\Z")
_MAGIC = b"LANC"
ASIDE = "_torn"
BESIDE = 1 << 63
"""Numbers from here on are versions beside those of a branch of a table, made for reading only."""


def newest_version(files: Files, folder: str) -> int:
    """Return the newest version a table has a file for, 0 when it has none. One listing."""
    count("version_lists")
    # Names count down, so the newest versions come first.
    return max(_versions(files.names(f"{folder}/_versions", first=True)), default=0)


def versions_on_disk(files: Files, folder: str) -> dict[int, str]:
    """Return the versions a dataset has files for, with the files' names."""
    count("version_lists")
    return _versions(files.names(f"{folder}/_versions"))


def _versions(names: list[str]) -> dict[int, str]:
    pairs = ((version_of(name), name) for name in names)
    return {version: name for version, name in pairs if version is not None}


def version_name(version: int) -> str:
    """Return the path, inside a dataset's folder, of the file that holds a version."""
    if version >= BESIDE:
        return f"_versions/d{version}.manifest"
    return f"_versions/{2**64 - 1 - version:020d}.manifest"


def is_beside(name: str) -> bool:
    """Whether a file of the versions folder is a version beside those of a branch of a table."""
    return name.startswith("d") and name.endswith(".manifest")


def version_of(name: str) -> int | None:
    """Return the version a file holds by its name, None for other files."""
    match = _NAME.match(name)
    return None if match is None else 2**64 - 1 - int(match.group(1))


def set_aside_torn(files: Files, folder: str, *, above: int) -> list[int]:
    """Move unreadable version files above a published version out of the way; return them."""
    if files.safe:
        return []
    moved: list[int] = []
    versions = versions_on_disk(files, folder)
    for version in sorted((v for v in versions if v > above), reverse=True):
        path = os.path.join(folder, "_versions", versions[version])
        if not _torn(path):
            continue
        target = os.path.join(folder, ASIDE)
        try:
            os.makedirs(target, exist_ok=True)
            os.replace(path, os.path.join(target, versions[version]))
        except FileNotFoundError:
            # Another process that opened the graph was faster.
            continue
        except OSError as error:
            raise failure("set aside", path, error) from error
        moved.append(version)
    return moved


def _torn(path: str) -> bool:
    """Whether a version file lost its end. Anything else unreadable about it is no proof.

    A file of a newer format, or one the disk fails to read, must stay where it is.
    """
    try:
        with open(path, "rb") as handle:
            handle.seek(0, os.SEEK_END)
            size = handle.tell()
            handle.seek(max(size - len(_MAGIC), 0))
            return handle.read() != _MAGIC
    except FileNotFoundError:
        # Cleaned up since it was listed.
        return False
    except OSError as error:
        raise failure("read", path, error) from error
