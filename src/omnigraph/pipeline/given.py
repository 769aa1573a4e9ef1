"""The input of a run: told in words, and by a mark that changes when its files do.

The messages of a load and of its merge end with a line that has both. People read from it what was
loaded; a run that is started again finds out by the mark whether it is given something else.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence

from msgspec import Struct

from omnigraph.intake.mapping import MAPPING_FILE
from omnigraph.limits import COMMIT_MESSAGE_BYTES_MAX
from omnigraph.store import FoundFile
from omnigraph.wording import counted

_LINE = re.compile(r"Input: .+ \(([0-9a-f]{16})\)")
_NAME_MAX = 60


class Given(Struct, frozen=True, kw_only=True):
    """Files that a run was given."""

    words: str
    mark: str

    @classmethod
    def of(cls, files: Sequence[FoundFile]) -> Given:
        """Return what tells files from others; what they hold is not read.

        Files count by name, size and time of change, objects in a bucket by name, size and ETag.
        """
        digest = hashlib.sha256()
        for file in files:
            digest.update(f"{file.name}\0{file.size_bytes}\0{file.mark}\n".encode())
        return cls(words=_words(files), mark=digest.hexdigest()[:16])

    def told(self, message: str) -> str:
        """Return a message that ends with what was loaded, unless that makes it too long."""
        full_message = f"{message}\n\nInput: {self.words} ({self.mark})"
        return full_message if len(full_message.encode()) <= COMMIT_MESSAGE_BYTES_MAX else message


def mark_in(message: str | None) -> str | None:
    """Return the mark of the input that a message tells of, if it does."""
    match = _LINE.fullmatch((message or "").rpartition("\n")[2])
    return None if match is None else match[1]


def _words(files: Sequence[FoundFile]) -> str:
    """Return names and size of files: `people.csv, 24 bytes`."""
    data = [file for file in files if os.path.basename(file.name) != MAPPING_FILE]
    names = [_name(file) for file in data]
    size = counted(sum(file.size_bytes for file in data), "byte")
    if len(names) < 3:
        return f"{' and '.join(names) or 'no files'}, {size}"
    return f"{counted(len(names), 'file')} from {names[0]} to {names[-1]}, {size}"


def _name(file: FoundFile) -> str:
    """Return the last part of a name, on one line."""
    shown = "".join(c if c.isprintable() else "?" for c in os.path.basename(file.name))
    return shown if len(shown) <= _NAME_MAX else f"{shown[:_NAME_MAX]}..."
