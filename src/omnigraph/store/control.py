"""Small control files beside the tables, created, replaced and removed as a whole."""

from __future__ import annotations

import errno
import os
import secrets

from omnigraph.errors import StorageError, StorageFailureKind
from omnigraph.store.counters import count
from omnigraph.store.durability import Syncer
from omnigraph.store.location import Location


class ControlFiles:
    """Control files of one graph on a local disk. Names are relative to the graph's root."""

    def __init__(self, location: Location, syncer: Syncer) -> None:
        self._location = location
        self._syncer = syncer

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, None when it does not exist."""
        count("control_reads")
        try:
            with open(self._location.path(name), "rb") as handle:
                return handle.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failure("read", name, error) from error

    def exists(self, name: str) -> bool:
        """Whether a file exists."""
        count("control_exists")
        return os.path.exists(self._location.path(name))

    def create(self, name: str, data: bytes) -> bool:
        """Create a file with its whole content; False when the name is taken."""
        temporary = self._write_temporary(name, data)
        try:
            os.link(temporary, self._location.path(name))
        except FileExistsError:
            return False
        except OSError as error:
            raise failure("create", name, error) from error
        finally:
            os.unlink(temporary)
        self._syncer.sync_folder(os.path.dirname(self._location.path(name)))
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Write a file as a whole, whether it exists or not."""
        temporary = self._write_temporary(name, data)
        try:
            os.replace(temporary, self._location.path(name))
        except OSError as error:
            raise failure("replace", name, error) from error
        self._syncer.sync_folder(os.path.dirname(self._location.path(name)))

    def delete(self, name: str) -> None:
        """Remove a file; absent is fine."""
        count("control_deletes")
        try:
            os.unlink(self._location.path(name))
        except FileNotFoundError:
            return
        except OSError as error:
            raise failure("delete", name, error) from error

    def names(self, folder: str = "") -> list[str]:
        """List file names in a folder; half-written temporary files stay invisible."""
        count("control_lists")
        try:
            found = os.listdir(self._location.path(folder) if folder else self._location.root)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise failure("list", folder or ".", error) from error
        return sorted(name for name in found if not name.startswith("."))

    def _write_temporary(self, name: str, data: bytes) -> str:
        count("control_writes")
        target = self._location.path(name)
        folder = os.path.dirname(target)
        temporary = os.path.join(folder, f".{os.path.basename(name)}.{secrets.token_hex(6)}")
        try:
            os.makedirs(folder, exist_ok=True)
            with open(temporary, "xb") as handle:
                handle.write(data)
                handle.flush()
                if self._syncer.enabled:
                    count("syncs")
                    os.fsync(handle.fileno())
        except OSError as error:
            raise failure("write", name, error) from error
        return temporary


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
