"""Slots on a local disk: the owner holds a lock on its file.

A slot is complete and locked before its name exists (temporary file, flock, body, then link), so
no process ever sees a live slot that looks dead or empty. The kernel frees the lock when the owner
dies.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from msgspec import Struct

from omnigraph.clock import elapsed_s, sleep
from omnigraph.errors import OmniGraphError, StorageError
from omnigraph.store.files.counters import count
from omnigraph.store.files.durability import Syncer
from omnigraph.store.files.local_files import failure

TAKE_ATTEMPTS_MAX = 8
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}")


class _Swept(Exception):
    """The file of a slot to be was removed before it had its name."""


class LockedSlot(Struct):
    """A slot this process owns. A context manager: leaving it always frees the lock."""

    name: str
    path: str
    body: bytes
    _descriptor: int
    _syncer: Syncer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def lapsed(self) -> bool:
        """Never: the lock goes with the process only."""
        return False

    def rewrite(self, body: bytes) -> None:
        """Replace the body in place. Only before the first effect: a torn body was never armed."""
        try:
            os.ftruncate(self._descriptor, 0)
            _write(self._descriptor, body)
            if self._syncer.enabled:
                count("syncs")
                os.fsync(self._descriptor)
        except OSError as error:
            raise failure("write", self.name, error) from error
        self.body = body

    def remove(self) -> None:
        """Delete the slot file, if it is still ours, and free the lock."""
        if self._descriptor >= 0:
            try:
                if os.stat(self.path).st_ino == os.fstat(self._descriptor).st_ino:
                    count("slot_deletes")
                    os.unlink(self.path)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise failure("delete", self.name, error) from error
            finally:
                self.close()

    def close(self) -> None:
        """Free the lock and leave the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _write(descriptor: int, body: bytes) -> None:
    """Write a whole body; the last bytes of a disk take a part of it without complaint."""
    written = os.pwrite(descriptor, body, 0)
    if written < len(body):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class LockedSlots:
    """The slots in one folder of a graph on a local disk."""

    def __init__(self, folder: str, syncer: Syncer) -> None:
        self._folder = folder
        self._syncer = syncer

    def take(self, name: str, body: bytes) -> LockedSlot | None:
        """Create a slot; None when the name is held."""
        count("slot_puts")
        for _attempt in range(TAKE_ATTEMPTS_MAX):
            try:
                return self._create_slot(name, body)
            except _Swept:
                continue
        raise StorageError(f"the slot {name} could not be made", hint="try again")

    def _create_slot(self, name: str, body: bytes) -> LockedSlot | None:
        temporary = os.path.join(self._folder, f".{secrets.token_hex(8)}")
        path = os.path.join(self._folder, name)
        try:
            os.makedirs(self._folder, exist_ok=True)
            descriptor = os.open(
                temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o644
            )
        except OSError as error:
            raise failure("create", name, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(descriptor, body)
            if self._syncer.enabled:
                count("syncs")
                os.fsync(descriptor)
            os.link(temporary, path)
        except FileExistsError:
            os.close(descriptor)
            return None
        except (BlockingIOError, FileNotFoundError) as error:
            # Between making the file and locking it, a process that clears up took it for left.
            os.close(descriptor)
            raise _Swept from error
        except OSError as error:
            os.close(descriptor)
            raise failure("create", name, error) from error
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        slot = LockedSlot(name, path, body, descriptor, self._syncer)
        try:
            self._syncer.sync_folder(self._folder)
        except OmniGraphError:
            # Kept, its lock would block the branch for as long as this process lives.
            slot.remove()
            raise
        return slot

    def seize(self, name: str) -> LockedSlot | None:
        """Take over the slot of a dead owner; None when it is gone or its owner lives."""
        path = os.path.join(self._folder, name)
        descriptor = self._opened(name, os.O_RDWR)
        if descriptor is None:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The name may have been removed and made anew between open and lock.
            if os.stat(path).st_ino != os.fstat(descriptor).st_ino:
                raise FileNotFoundError(path)
        except (BlockingIOError, FileNotFoundError):
            os.close(descriptor)
            return None
        except OSError as error:
            os.close(descriptor)
            raise failure("lock", name, error) from error
        size = os.fstat(descriptor).st_size
        body = os.pread(descriptor, size, 0)
        return LockedSlot(name, path, body, descriptor, self._syncer)

    def peek(self, name: str) -> tuple[bytes, bool] | None:
        """Return a slot's body and whether its owner lives, without touching it; None when gone."""
        try:
            descriptor = os.open(os.path.join(self._folder, name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failure("open", name, error) from error
        try:
            body = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return body, True
            return body, False
        except OSError as error:
            raise failure("lock", name, error) from error
        finally:
            os.close(descriptor)

    def exists(self, name: str) -> bool:
        """Whether a slot file of this name exists."""
        return os.path.exists(os.path.join(self._folder, name))

    def remove_unfinished(self) -> int:
        """Remove temporary files of owners that died before their slot had a name."""
        removed = 0
        for name in self._listing():
            if _TEMPORARY.fullmatch(name) is None:
                continue
            path = os.path.join(self._folder, name)
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                # Gone, or not ours to judge: it is in no writer's way.
                continue
            try:
                # A living owner locks its file right after creating it; one that had not come to
                # it yet makes another.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
                removed += 1
            except OSError:
                continue
            finally:
                os.close(descriptor)
        return removed

    def names(self) -> list[str]:
        """List every slot; unfinished temporary files stay invisible."""
        count("slot_lists")
        return [name for name in self._listing() if not name.startswith(".")]

    def _listing(self) -> list[str]:
        try:
            return sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise failure("list", os.path.basename(self._folder), error) from error

    def wait_until_known(self, names: Iterable[str]) -> None:
        """Return at once: a lock tells right away whether its owner lives."""

    def wait(self, name: str, *, timeout_s: float) -> bool:
        """Wait until a slot is gone or its owner is; False when it is still held."""
        deadline = elapsed_s() + timeout_s
        pause_s = 0.0005
        while elapsed_s() < deadline:
            descriptor = self._opened(name, os.O_RDONLY)
            if descriptor is None:
                return True
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                sleep(pause_s)
                pause_s = min(pause_s * 1.5, 0.01)
            except OSError as error:
                raise failure("lock", name, error) from error
            finally:
                os.close(descriptor)
        return False

    def _opened(self, name: str, mode: int) -> int | None:
        """Return a descriptor of a slot's file, None when there is none."""
        try:
            return os.open(os.path.join(self._folder, name), mode | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failure("open", name, error) from error
