"""Files by their whole name, wherever they lie: what is loaded, exported, or kept for workers.

A name is a path or the address of an object. Objects are reached with the options that `reaching`
says, else with what the environment says.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from glob import glob, has_magic
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.limits import OBJECT_READ_BYTES
from omnigraph.store.files.local_files import failure
from omnigraph.store.files.protocol import Entry
from omnigraph.store.files.storage_options import SCHEMES

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from omnigraph.store.files.bucket import Bucket


def is_object(name: str) -> bool:
    """Whether a name is the address of an object."""
    return name.partition("://")[0] in SCHEMES and "://" in name


def _bucket(name: str) -> Bucket:
    # Imported when needed: files of a local disk have no use for the client.
    from omnigraph.store.files.bucket import Bucket

    return Bucket.of(name)


# ---- finding ------------------------------------------------------------------------------


class FoundFile(Struct, frozen=True):
    """A file and its size; `mark` is another one when it was written again."""

    name: str
    size_bytes: int
    mark: str = ""


def find_files(name: str, suffixes: frozenset[str]) -> list[FoundFile] | None:
    """Return the file of a name, those right in a folder, or those a pattern means, by name.

    Of a folder only files with one of the suffixes count; None when there is a folder without any.
    """
    if is_object(name):
        return _find_objects(name.rstrip("/"), suffixes)
    if os.path.isdir(name):
        inside = [os.path.join(name, item) for item in os.listdir(name)]
        paths = [p for p in inside if _suffix(p) in suffixes and not os.path.isdir(p)]
        return _sized(paths) if paths else None
    if os.path.exists(name):
        return _sized([name])
    return _sized([path for path in glob(name) if os.path.isfile(path)])


def _sized(paths: list[str]) -> list[FoundFile]:
    return [_seen(path) for path in sorted(paths)]


def _seen(path: str) -> FoundFile:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        raise NotFoundError(f"file not found: {path}", hint="it is a link to nothing") from None
    return FoundFile(path, stat.st_size, str(stat.st_mtime_ns))


def _find_objects(name: str, suffixes: frozenset[str]) -> list[FoundFile] | None:
    files = _bucket(name)
    alone = files.look(name)
    if alone is not None:
        return _listed([alone])
    if has_magic(name):
        wanted = name.split("/")
        fixed = next(n for n, part in enumerate(wanted) if has_magic(part))
        listed = files.entries("/".join(wanted[:fixed]))
        return _listed(item for item in listed if _matches(item.path.split("/"), wanted))
    inside = [item for item in files.entries(name) if "/" not in item.path[len(name) + 1 :]]
    objects = _listed(item for item in inside if _suffix(item.path) in suffixes)
    return objects if objects or not inside else None


def _listed(entries: Iterable[Entry]) -> list[FoundFile]:
    return [FoundFile(item.path, item.size_bytes, item.mark) for item in sorted(entries)]


def _matches(parts: list[str], wanted: list[str]) -> bool:
    """Compare part by part, as a shell does: no mark stands for a slash or a leading dot."""
    return len(parts) == len(wanted) and all(
        fnmatchcase(part, mark) and (mark.startswith(".") or not part.startswith("."))
        for part, mark in zip(parts, wanted, strict=True)
    )


def _suffix(name: str) -> str:
    """Return how a name ends, `.csv.gz` as a whole."""
    stem, suffix = os.path.splitext(name.lower())
    return os.path.splitext(stem)[1] + suffix if suffix == ".gz" else suffix


# ---- reading ------------------------------------------------------------------------------


def open_file(name: str) -> IO[bytes]:
    """Open a file to be read from anywhere. Raises `FileNotFoundError`."""
    if not is_object(name):
        return open(name, "rb", buffering=1 << 20)
    files = _bucket(name)
    size = files.size_of(name)
    if size is None:
        raise FileNotFoundError(f"file not found: {name}")
    return io.BufferedReader(_Object(files, name, size), OBJECT_READ_BYTES)


def read_text(name: str) -> str:
    """Return a text file as a whole. Raises `NotFoundError` and `BadRequestError`."""
    try:
        with open_file(name) as handle:
            return handle.read().decode()
    except FileNotFoundError:
        raise NotFoundError(f"file not found: {name}") from None
    except UnicodeDecodeError as error:
        raise BadRequestError(f"{name} is not UTF-8: {error.reason}") from error
    except ValueError as error:
        raise BadRequestError(f"cannot read {name!r}: {error}") from error
    except OSError as error:
        raise BadRequestError(f"cannot read {name}: {error.strerror or error}") from error


def readable(name: str) -> str | IO[bytes]:
    """Return what Arrow's readers take: the path, or an open object."""
    return open_file(name) if is_object(name) else name


class _Object(io.RawIOBase):
    """An object as a file that is read by ranges."""

    def __init__(self, files: Bucket, name: str, size: int) -> None:
        self._files = files
        self._name = name
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}
        self._at = max(starts[whence] + offset, 0)
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        length = min(len(view), self._size - self._at)
        if length <= 0:
            return 0
        piece = self._files.read(self._name, self._at, length)
        if piece is None:
            raise NotFoundError(f"file not found: {self._name}", hint="it was there a moment ago")
        view[:length] = piece
        self._at += length
        return length


# ---- writing ------------------------------------------------------------------------------


@contextlib.contextmanager
def new_file(name: str) -> Iterator[IO[bytes]]:
    """Write a file that appears, whole, when the block ends well."""
    if is_object(name):
        with tempfile.TemporaryFile() as handle:
            yield handle
            handle.seek(0)
            _bucket(name).upload(name, handle)
        return
    with new_local_file(name) as handle:
        yield handle


@contextlib.contextmanager
def new_local_file(name: str, *, durable: bool = False) -> Iterator[IO[bytes]]:
    """Write a file of this machine that appears, whole, when the block ends well."""
    temporary = f"{name}.{secrets.token_hex(8)}"
    try:
        with open(temporary, "wb", buffering=1 << 20) as handle:
            yield handle
            if durable:
                handle.flush()
                os.fsync(handle.fileno())
        os.replace(temporary, name)
    except OSError as error:
        raise failure("write", name, error) from error
    finally:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(temporary)


def is_taken(name: str) -> bool:
    """Whether a file or folder of this name exists."""
    if not is_object(name):
        return os.path.lexists(name)
    files = _bucket(name)
    return files.size_of(name) is not None or files.has_folder(name)


def remove_folder(name: str) -> None:
    """Remove a folder and all that lies in it, as far as that goes."""
    if is_object(name):
        _bucket(name).remove(name)
    else:
        shutil.rmtree(name, ignore_errors=True)
