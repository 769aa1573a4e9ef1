"""Rows that are left out of a load because something is wrong with them, within a stated number."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping

from omnigraph.errors import BadRequestError, DataError
from omnigraph.limits import PROBLEMS_MAX

Place = Callable[[str | None, int], int]


class Rejects:
    """Collects the reasons, and says when there are too many.

    A row without a problem of its own can get one because another was left out, so whoever loads
    tries again until nothing is wrong any more, or too much.
    """

    def __init__(self, allowed: int = 0, path: str | os.PathLike[str] | None = None) -> None:
        if allowed < 0:
            raise BadRequestError("the number of allowed rejects cannot be negative")
        self.allowed = allowed
        self._path = path
        self._reasons: list[dict[str, object]] = []
        self.lines: set[int] = set()

    @property
    def problems_max(self) -> int:
        """Problems worth collecting: one more than allowed tells that there are too many."""
        return max(PROBLEMS_MAX, self.allowed + 1)

    def take(self, error: DataError, place: Place, source: str | None) -> None:
        """Leave out the rows an error names. Raises it if they are too many, or not rows."""
        self._reasons += [{"file": source, **item} if source else {**item} for item in _all(error)]
        found: set[int] = set()
        for item in _all(error):
            line = item.get("line")
            if not isinstance(line, int):
                raise error
            file = item.get("file")
            found.add(place(None if file is None else str(file), line))
        if found <= self.lines or len(self.lines | found) > self.allowed:
            raise error
        self.lines |= found

    def write(self) -> None:
        """Write the reasons down, if somebody asked for a file."""
        if self._path is None:
            return
        try:
            with open(self._path, "w", encoding="utf-8") as out:
                for item in self._reasons:
                    out.write(json.dumps(item, ensure_ascii=False) + "\n")
        except OSError as error:
            raise BadRequestError(
                f"cannot write {os.fspath(self._path)}: {error.strerror or error}"
            ) from error


def _all(error: DataError) -> list[Mapping[str, object]]:
    return list(error.problems)
