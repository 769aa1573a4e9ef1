"""Where tests put their graphs: a temporary folder, or a prefix of a real S3 server.

A test that asks for `place`, or for a fixture that does, runs once on each. Paths in S3 look like
paths on a disk as far as tests need them.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
from lance import LanceDataset

from omnigraph.store import locate

_numbers = itertools.count(1)


class S3Path:
    """A place in a bucket, with the few methods of `Path` that tests use."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")

    def __fspath__(self) -> str:
        return self._uri

    def __str__(self) -> str:
        return self._uri

    def __repr__(self) -> str:
        return f"S3Path({self._uri!r})"

    def __truediv__(self, name: str) -> S3Path:
        return S3Path(f"{self._uri}/{name}")

    @property
    def name(self) -> str:
        return self._uri.rpartition("/")[2]

    def with_name(self, name: str) -> S3Path:
        return S3Path(f"{self._uri.rpartition('/')[0]}/{name}")

    def exists(self) -> bool:
        files = locate(self._uri).files
        return files.exists(self._uri) or files.has_folder(self._uri)

    def read_bytes(self) -> bytes:
        found = locate(self._uri).files.read(self._uri)
        if found is None:
            raise FileNotFoundError(self._uri)
        return found


AnyPath = Path | S3Path


def new_prefix(bucket: str) -> S3Path:
    """Return a place in a bucket that no other test of this run uses."""
    return S3Path(f"s3://{bucket}/{os.getpid()}-{next(_numbers)}")


def names_in(folder: AnyPath | str) -> list[str]:
    """Return what lies in a folder, sorted; half-written files start with a dot."""
    found = locate(folder).files.names(os.fspath(folder))
    return sorted(name for name in found if not name.startswith("."))


def files_below(root: AnyPath | str) -> Iterator[tuple[str, bytes]]:
    """Yield every file below a root with its name there; temporary ones start with a dot."""
    location = locate(root)
    for name in _names_below(root):
        yield name, location.files.read(location.path(name)) or b""


def _names_below(root: AnyPath | str) -> Iterator[str]:
    location = locate(root)
    for path in location.files.below(location.root):
        name = path.removeprefix(f"{location.root}/")
        if not name.rpartition("/")[2].startswith("."):
            yield name


def hashes(root: AnyPath | str) -> dict[str, str]:
    """Return the hash of every file below a root."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in files_below(root)}


def dataset(path: AnyPath | str, version: int | None = None) -> LanceDataset:
    """Open a dataset with Lance alone."""
    options = locate(path).lance_options
    return lance.dataset(os.fspath(path), version=version, storage_options=options)


def copy_tree(source: AnyPath, target: AnyPath) -> None:
    """Copy everything below a place."""
    if isinstance(source, Path) and isinstance(target, Path):
        shutil.copytree(source, target)
        return
    here, there = locate(source), locate(target)

    def copy(name: str) -> None:
        there.files.replace(there.path(name), here.files.read(here.path(name)) or b"", sync=False)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(copy, _names_below(source)))


def remove_tree(root: AnyPath) -> None:
    """Remove everything below a place."""
    locate(root).files.remove(os.fspath(root))
