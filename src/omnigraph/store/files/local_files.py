"""The files of a graph on a local disk."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from typing import IO

from omnigraph.errors import StorageError, StorageFailureKind
from omnigraph.store.files.counters import count
from omnigraph.store.files.protocol import Entry


class LocalFiles:
    """Files on a local disk. They survive a power loss only when they are synced."""

    safe = False
    calls_at_once = 1

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes | None:
        """Return a file's bytes, or some of them; None when it does not exist."""
        try:
            with open(path, "rb") as handle:
                if start:
                    handle.seek(start)
                return handle.read(size)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failure("read", path, error) from error

    def read_tagged(self, path: str) -> tuple[bytes, str | None] | None:
        """Return a file's bytes, without a tag; None when it does not exist."""
        content = self.read(path)
        return None if content is None else (content, None)

    def exists(self, path: str) -> bool:
        """Whether a file exists."""
        # In half the time of `os.path.exists`, which raises and catches an error.
        return os.access(path, os.F_OK)

    def create(self, path: str, data: bytes, *, sync: bool) -> bool:
        """Make a file with its whole content; False when the name is taken."""
        temporary = _write_temporary(path, data, sync=sync)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            raise failure("create", path, error) from error
        finally:
            os.unlink(temporary)
        _sync_folder(path, sync=sync)
        return True

    def replace(self, path: str, data: bytes, *, sync: bool) -> None:
        """Write a file as a whole, whether it exists or not."""
        temporary = _write_temporary(path, data, sync=sync)
        try:
            os.replace(temporary, path)
        except OSError as error:
            raise failure("replace", path, error) from error
        _sync_folder(path, sync=sync)

    def replace_if(self, path: str, before: bytes | None, data: bytes, *, sync: bool) -> bool:
        """Write a file if it still is what it was; a lock on the file itself orders the writers."""
        if before is None:
            return self.create(path, data, sync=sync)
        try:
            with open(path, "rb") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX)
                # Its name may have gone to a newer file between open and lock.
                is_newest = os.path.samestat(os.fstat(handle.fileno()), os.stat(path))
                if not is_newest or handle.read() != before:
                    return False
                self.replace(path, data, sync=sync)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise failure("replace", path, error) from error
        return True

    def delete(self, path: str) -> None:
        """Remove a file; absent is fine."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise failure("delete", path, error) from error

    def names(self, folder: str, *, first: bool = False) -> list[str]:
        """Return the names of what lies in a folder, all of them; one look has them all."""
        try:
            return os.listdir(folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise failure("list", folder, error) from error

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders right below a folder, in order."""
        try:
            with os.scandir(folder) as entries:
                return sorted(item.name for item in entries if item.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise failure("list", folder, error) from error

    def tags(self, folder: str, *, first: bool = False) -> dict[str, str] | None:
        """Return None: a disk has no tags, and its small files are read at once."""
        return None

    def keeps_conditions(self, path: str) -> bool:
        """Return True: the kernel gives a name to one."""
        return True

    def below(self, folder: str) -> Iterator[str]:
        """Yield every file below a folder, however deep."""
        for parent, _folders, names in os.walk(folder):
            for name in names:
                yield os.path.join(parent, name)

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yield the files and folders below a folder."""
        for parent, folders, names in os.walk(folder):
            for number, name in enumerate([*folders, *names]):
                path = os.path.join(parent, name)
                with contextlib.suppress(FileNotFoundError):
                    stat = os.lstat(path)
                    size = 0 if number < len(folders) else stat.st_size
                    yield Entry(path, size, stat.st_mtime)

    def has_folder(self, folder: str) -> bool:
        """Whether there is a folder."""
        return os.path.isdir(folder)

    def make_folder(self, folder: str) -> None:
        """Make a folder; one that exists is fine."""
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise failure("create", folder, error) from error

    def can_be_folder(self, path: str) -> bool:
        """Whether files can be put below a path: no file has its name."""
        return os.path.isdir(path) or not os.path.exists(path)

    def open(self, path: str) -> tuple[IO[bytes], int] | None:
        """Return a file to be read piece by piece, and its size; None when it does not exist."""
        try:
            handle = open(path, "rb")  # noqa: SIM115 - the caller closes it
        except FileNotFoundError:
            return None
        return handle, os.fstat(handle.fileno()).st_size

    def put_file(self, path: str, local: str) -> None:
        """Move a file into its place."""
        try:
            shutil.move(local, path)
        except OSError as error:
            raise failure("write", path, error) from error

    def is_free(self, folder: str) -> bool:
        """Whether there is nothing, or an empty folder."""
        return not os.path.lexists(folder) or (os.path.isdir(folder) and not os.listdir(folder))

    def workplace(self, folder: str) -> str:
        """Make a folder beside the place, so that it can be renamed into it."""
        workplace = f"{folder.rstrip(os.sep)}.restoring-{secrets.token_hex(4)}"
        os.makedirs(workplace)
        return workplace

    def adopt(self, prepared: str, folder: str, *, last: str) -> None:
        """Rename a prepared folder into its place."""
        if os.path.isdir(folder):
            os.rmdir(folder)
        os.rename(prepared, folder)

    def remove(self, folder: str) -> int:
        """Remove a folder and everything below it; return the bytes it held.

        What cannot be removed stays, as does a folder that another process puts a file into.
        """
        freed = 0
        for parent, folders, names in os.walk(folder, topdown=False):
            for name in names:
                path = os.path.join(parent, name)
                with contextlib.suppress(OSError):
                    size = os.lstat(path).st_size
                    os.unlink(path)
                    freed += size
            for name in folders:
                path = os.path.join(parent, name)
                with contextlib.suppress(OSError):
                    # One that is only linked to is not looked into.
                    (os.unlink if os.path.islink(path) else os.rmdir)(path)
        with contextlib.suppress(OSError):
            os.rmdir(folder)
        return freed

    def remove_empty(self, folder: str, *, below: str) -> None:
        """Remove a folder that holds nothing, and those above it that then hold nothing either."""
        # One in use is not empty, or made again by the writer that misses it.
        with contextlib.suppress(OSError):
            while folder.startswith(f"{below}/"):
                os.rmdir(folder)
                folder = os.path.dirname(folder)


def _write_temporary(path: str, data: bytes, *, sync: bool) -> str:
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{secrets.token_hex(6)}")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(temporary, "xb") as handle:
            handle.write(data)
            handle.flush()
            if sync:
                count("syncs")
                os.fsync(handle.fileno())
    except OSError as error:
        raise failure("write", path, error) from error
    return temporary


def _sync_folder(path: str, *, sync: bool) -> None:
    if sync:
        count("syncs")
        fsync(os.path.dirname(path))


def fsync(path: str) -> None:
    """Sync one file or directory."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageError(f"cannot sync {path}: {error.strerror}") from error
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise StorageError(
            f"cannot sync {path}: {error.strerror}", hint="check the disk before going on"
        ) from error
    finally:
        os.close(descriptor)


def file_identity(path: str) -> str | None:
    """Return what tells a file from one that has its name later; None when there is none."""
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failure("look at", path, error) from error
    return f"{stat.st_ino}-{stat.st_mtime_ns}-{stat.st_size}"


def failure(verb: str, name: str, error: OSError) -> StorageError:
    """Translate an operating-system error."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    kind = (
        StorageFailureKind.TRANSIENT
        if full
        else StorageFailureKind.CONFIGURATION
        if denied
        else StorageFailureKind.UNKNOWN
    )
    hint = "free some space" if full else "check the permissions" if denied else None
    return StorageError(f"cannot {verb} {name}: {error.strerror}", failure=kind, hint=hint)
