"""Small control files beside the tables, created, replaced and removed as a whole."""

from __future__ import annotations

from omnigraph.store.files.counters import count
from omnigraph.store.files.durability import Syncer
from omnigraph.store.files.location import Location


class ControlFiles:
    """Control files of one graph. Names are relative to the graph's root."""

    def __init__(self, location: Location, syncer: Syncer) -> None:
        self._location = location
        self._files = location.files
        self._syncer = syncer
        self.calls_at_once = location.files.calls_at_once

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, None when it does not exist."""
        count("control_reads")
        return self._files.read(self._location.path(name))

    def read_tagged(self, name: str) -> tuple[bytes, str | None] | None:
        """Return a file's bytes and their tag, if there are tags; None when it does not exist."""
        count("control_reads")
        return self._files.read_tagged(self._location.path(name))

    def exists(self, name: str) -> bool:
        """Whether a file exists."""
        count("control_exists")
        return self._files.exists(self._location.path(name))

    def create(self, name: str, data: bytes) -> bool:
        """Create a file with its whole content; False when the name is taken."""
        count("control_writes")
        return self._files.create(self._location.path(name), data, sync=self._syncer.enabled)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file as a whole, whether it exists or not."""
        count("control_writes")
        self._files.replace(self._location.path(name), data, sync=self._syncer.enabled)

    def replace_if(self, name: str, before: bytes | None, data: bytes) -> bool:
        """Write a file if it still is what it was, None for absent; False when it is not."""
        count("control_writes")
        path = self._location.path(name)
        return self._files.replace_if(path, before, data, sync=self._syncer.enabled)

    def delete(self, name: str) -> None:
        """Remove a file; absent is fine."""
        count("control_deletes")
        self._files.delete(self._location.path(name))

    def tags(self) -> dict[str, str] | None:
        """Return what tells each file's content at the root from another, if that is cheap."""
        tags = self._files.tags(self._location.root)
        if tags is not None:
            count("control_lists")
        return tags

    def names(self, folder: str = "") -> list[str]:
        """List file names in a folder; half-written temporary files stay invisible."""
        count("control_lists")
        names = self._files.names(self._location.path(folder) if folder else self._location.root)
        return sorted(name for name in names if not name.startswith("."))
