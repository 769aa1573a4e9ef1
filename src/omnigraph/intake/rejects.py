"""Rows that are left out of a load because something is wrong with them, within a stated number."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence

from omnigraph.errors import BadRequestError, DataError, StorageError
from omnigraph.limits import PROBLEMS_MAX
from omnigraph.store import is_object, new_file

Place = Callable[[str | None, int], Sequence[int]]
"""Returns the numbers, through all inputs, of a line of a file: once for each use of it."""


class Rejects:
    """Collects the reasons, and says when there are too many.

    A row without a problem of its own can get one because another was left out, so a load
    tries again until nothing is wrong any more, or too much.
    """

    def __init__(self, allowed: int = 0, path: str | os.PathLike[str] | None = None) -> None:
        if allowed < 0:
            raise BadRequestError("the number of allowed rejects cannot be negative")
        self.allowed = allowed
        self._path = path
        self._reasons: list[dict[str, object]] = []
        self._rows: set[tuple[str | None, int]] = set()
        self.lines: set[int] = set()

    @property
    def count(self) -> int:
        """How many rows are left out."""
        return len(self._rows)

    @property
    def problems_max(self) -> int:
        """Problems worth collecting: one more than allowed tells that there are too many."""
        return max(PROBLEMS_MAX, self.allowed + 1)

    def take(self, error: DataError, place: Place, source: str | None) -> None:
        """Leave out the rows an error names. Raises it if they are too many, or not rows."""
        self._reasons += [{"file": source, **item} if source else {**item} for item in _all(error)]
        rows: set[tuple[str | None, int]] = set()
        for item in _all(error):
            line = item.get("line")
            if not isinstance(line, int):
                raise error
            file = item.get("file")
            element = item.get("element")
            number = element if isinstance(element, int) else line
            rows.add((None if file is None else str(file), number))
        if rows <= self._rows or len(self._rows | rows) > self.allowed:
            raise error
        self._rows |= rows
        self.lines |= {number for row in rows for number in place(*row)}

    def check_path(self) -> None:
        """Make sure that the reasons can be written down. Raises `BadRequestError`."""
        if self._path is None:
            return
        path = os.fspath(self._path)
        try:
            if is_object(path):
                with new_file(path):
                    pass
            else:
                with open(path, "a", encoding="utf-8"):
                    pass
        except (OSError, ValueError, StorageError) as error:
            raise BadRequestError(f"cannot write {path}: {_told(error)}") from error

    def write(self) -> str | None:
        """Write the reasons down, if a file was asked for; return why they could not be.

        The load has happened by then, or has failed for a reason of its own: neither may be hidden
        by what becomes of this file.
        """
        if self._path is None:
            return None
        path = os.fspath(self._path)
        text = "".join(f"{json.dumps(item, ensure_ascii=False)}\n" for item in self._reasons)
        try:
            with new_file(path) if is_object(path) else open(path, "wb") as out:
                out.write(text.encode())
        except (OSError, ValueError, StorageError) as error:
            return f"the rejected rows could not be written to {path}: {_told(error)}"
        return None


def _told(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or getattr(error, "message", None) or error)


def _all(error: DataError) -> list[Mapping[str, object]]:
    return list(error.problems)
