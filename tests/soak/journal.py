"""What every process of a soak writes down, so that it outlives the process.

A journal belongs to one worker and grows by whole lines. An operation is noted before it is tried
and again when it was answered; what was tried and not answered may or may not have happened.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


class Journal:
    """A worker's own file, opened for appending."""

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_CREAT | os.O_APPEND | os.O_RDWR
        self._descriptor = os.open(path, flags, 0o644)
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            # The worker before this one was killed inside its last line.
            os.write(self._descriptor, b"\n")

    def add(self, **entry: Any) -> None:
        """Add one entry with the time; it is complete when the call returns.

        The clock is the machine's monotonic one, which all processes share.
        """
        line = json.dumps({"at": time.monotonic(), **entry}, separators=(",", ":"))
        os.write(self._descriptor, line.encode() + b"\n")


def entries(path: Path) -> Iterator[Entry]:
    """Yield what a journal holds, oldest first; half a line of a killed worker is left out."""
    if not path.exists():
        return
    with path.open("rb") as handle:
        for line in handle:
            found = parsed(line)
            if found is not None:
                yield found


def parsed(line: bytes) -> Entry | None:
    """Return the entry on a line; None for half a line."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if line.endswith(b"\n") and isinstance(found, dict) else None


class Tail:
    """Reads what was added to a journal since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def new(self) -> list[Entry]:
        """Return the entries that were completed since the last call."""
        try:
            with self._path.open("rb") as handle:
                handle.seek(self._position)
                data = handle.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        found = (parsed(line) for line in whole.splitlines(keepends=True))
        return [entry for entry in found if entry is not None]
