"""One file that holds a whole folder: a tar archive with a header and checksums.

The header comes first and the checksums last, so an archive that was cut off is recognised, and
nothing of it is ever put in place.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import IO, Literal

from omnigraph.errors import (
    AlreadyExistsError,
    BadRequestError,
    NotFoundError,
    StorageError,
)
from omnigraph.store.files.durability import Syncer
from omnigraph.store.files.local_files import failure
from omnigraph.store.files.location import Location

HEADER = "omnigraph-dump.json"
CHECKSUMS = "omnigraph-checksums.json"
INSIDE = "graph"
LAST = "__manifest/_versions/"
"""Files without which the others are no graph."""
Progress = Callable[[str], None]


class _Hashing(io.RawIOBase):
    """Reads through to a file and keeps the digest of what passed."""

    def __init__(self, inner: IO[bytes]) -> None:
        self._inner = inner
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._inner.read(size)
        self.digest.update(data)
        return data


def write_archive(
    path: str,
    location: Location,
    names: Sequence[str],
    header: Mapping[str, object],
    progress: Progress,
) -> int:
    """Write files below a root into an archive; return its size. It appears when it is whole.

    One for a bucket is made on the local disk first.
    """
    if "://" in path:
        folder = location.near(path.rpartition("/")[0])
        with tempfile.TemporaryDirectory(prefix="omnigraph-") as beside:
            local = os.path.join(beside, os.path.basename(path))
            size = write_archive(local, location, names, header, progress)
            folder.files.put_file(folder.path(os.path.basename(path)), local)
        return size
    part = f"{path}.{secrets.token_hex(4)}.part"
    mode: Literal["x:gz", "x"] = "x:gz" if path.endswith((".gz", ".tgz")) else "x"
    sums: dict[str, str] = {}
    try:
        with tarfile.open(part, mode) as archive:
            _add(archive, HEADER, json.dumps(header, indent=2).encode())
            for name in names:
                sums[name] = _add_file(archive, location, name)
                progress(name)
            _add(archive, CHECKSUMS, json.dumps(sums).encode())
        with open(part, "rb") as handle:
            os.fsync(handle.fileno())
        os.replace(part, path)
        return os.path.getsize(path)
    except OSError as error:
        raise failure("write", path, error) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _add_file(archive: tarfile.TarFile, location: Location, name: str) -> str:
    opened = location.files.open(location.path(name))
    if opened is None:
        raise StorageError(
            f"{location.path(name)} was removed while the graph was read",
            hint="a cleanup ran; dump again",
        )
    handle, size = opened
    with contextlib.closing(handle):
        info = tarfile.TarInfo(f"{INSIDE}/{name}")
        info.size = size
        source = _Hashing(handle)
        archive.addfile(info, source)
        return source.digest.hexdigest()


@contextlib.contextmanager
def local_archive(path: str, location: Location) -> Iterator[str]:
    """Yield an archive on the local disk: itself, or a copy of one that lies in a bucket."""
    if "://" not in path:
        yield path
        return
    folder, name = location.near(path.rpartition("/")[0]), os.path.basename(path)
    opened = folder.files.open(folder.path(name))
    if opened is None:
        raise NotFoundError(f"no archive at {path}")
    with tempfile.TemporaryDirectory(prefix="omnigraph-") as beside:
        local = os.path.join(beside, name)
        with contextlib.closing(opened[0]) as source, open(local, "xb") as target:
            shutil.copyfileobj(source, target, 1 << 22)
        yield local


def read_header(path: str) -> dict[str, object]:
    """Return what an archive says about itself. Raises `BadRequestError`."""
    with _opened(path) as archive:
        return _header(archive, path)


def unpack_archive(path: str, location: Location, syncer: Syncer, progress: Progress) -> None:
    """Put the files of an archive into a new place, all of them or none.

    Raises `AlreadyExistsError` when something is there, `BadRequestError` for a damaged archive.
    """
    files, target = location.files, location.root
    if not files.is_free(target):
        raise AlreadyExistsError(f"{target} exists already", hint="restore to a new place")
    beside = files.workplace(target)
    try:
        with _opened(path) as archive:
            _header(archive, path)
            unpacked = _unpack(archive, path, beside, progress)
        syncer.sync(unpacked)
        files.adopt(beside, target, last=LAST)
        syncer.sync_folder(os.path.dirname(target))
    except OSError as error:
        raise failure("restore", target, error) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _unpack(archive: tarfile.TarFile, path: str, folder: str, progress: Progress) -> list[str]:
    digests: dict[str, str] = {}
    while (member := archive.next()) is not None:
        data = archive.extractfile(member)
        if member.name == CHECKSUMS and data is not None:
            if json.loads(data.read()) != digests:
                raise _damaged(path, "a file does not have the content it was dumped with")
            return [os.path.join(folder, name) for name in digests]
        place = PurePosixPath(member.name)
        if data is None or place.parts[0] != INSIDE or ".." in place.parts:
            raise _damaged(path, f"it holds {member.name!r}")
        name = str(place.relative_to(INSIDE))
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        source = _Hashing(data)
        with open(target, "xb") as handle:
            shutil.copyfileobj(source, handle)
        digests[name] = source.digest.hexdigest()
        progress(name)
    raise _damaged(path, "its end is missing")


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path) as archive:
            yield archive
    except FileNotFoundError:
        raise NotFoundError(f"no archive at {path}") from None
    except tarfile.ReadError as error:
        if not os.path.getsize(path) or not tarfile.is_tarfile(path):
            raise BadRequestError(
                f"{path} is not an archive", hint="`omnigraph dump` writes one"
            ) from error
        raise _damaged(path, str(error)) from error
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _damaged(path, str(error)) from error


def _header(archive: tarfile.TarFile, path: str) -> dict[str, object]:
    member = archive.next()
    data = None if member is None or member.name != HEADER else archive.extractfile(member)
    if data is None:
        raise BadRequestError(f"{path} is not a dump of a graph")
    header: dict[str, object] = json.loads(data.read())
    return header


def _damaged(path: str, why: str) -> BadRequestError:
    return BadRequestError(f"{path} is damaged: {why}", hint="nothing was restored; dump again")
