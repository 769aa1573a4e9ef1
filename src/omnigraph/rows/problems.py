"""Problems found in rows: collected, bounded, and raised together."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from omnigraph.compute.types import Column
from omnigraph.errors import DataError
from omnigraph.limits import PROBLEMS_MAX
from omnigraph.values.failures import Problem as Problem

SHOWN_ROWS = 1000
"""Rows looked at per check: more than are ever reported."""


class LinePlace(NamedTuple):
    """Where something stands; the file is None when the input is one file."""

    file: str | None
    line: int
    element: int | None = None


_ENVELOPE = 'a line is {"type": "Person", "data": {...}}; rows of one type: Person=FILE'
_HINTS = (
    ("not valid UTF-8", "save the file as UTF-8"),
    ("unknown top-level graph batch field", _ENVELOPE),
    ("expected a JSON object", f"one JSON object on each line, no array; {_ENVELOPE}"),
    ("not valid JSON", "one JSON object on each line, without line breaks inside"),
)


class Problems:
    """Collects problems up to a limit and counts the rest."""

    def __init__(self, *, source: str | None = None, limit: int = PROBLEMS_MAX) -> None:
        self._source = source
        self.limit = limit
        self.items: list[Problem] = []
        self.count = 0
        self.line_of: Callable[[str, str], int | None] = _no_line
        self.place_of: Callable[[int], LinePlace] | None = None

    def add(self, problem: Problem) -> None:
        """Take in one problem; if the input is several files, its line becomes one of a file."""
        self.count += 1
        if len(self.items) < self.limit:
            if self.place_of is not None and problem.line is not None and problem.file is None:
                file, line, element = self.place_of(problem.line)
                problem = replace(problem, file=file, line=line, element=element)
            self.items.append(problem)

    def take(self, other: Problems, *, file: str | None) -> None:
        """Take over what was found in one file, or in the only one.

        Lines that are numbered through all files tell the file themselves.
        """
        for item in other.items:
            told = item.line is not None and self.place_of is not None
            self.add(replace(item, file=None if told else file))
        self.count += other.count - len(other.items)

    @property
    def full(self) -> bool:
        """Whether the limit is reached, so that looking further does not help."""
        return len(self.items) >= self.limit

    def raise_any(self) -> None:
        """Raise `DataError` with everything found, if anything was."""
        if not self.items:
            return
        shown = sorted(self.items, key=lambda item: (item.file or "", item.line or 0))
        texts = [self._text(item) for item in shown[:10]]
        hidden = self.count - len(texts)
        if hidden > 0:
            texts.append(f"... and {hidden} more")
        noun = "problem" if self.count == 1 else "problems"
        head = f"{self.count} {noun} in {self._source}" if self._source else ""
        message = "\n".join([f"{head}; nothing was written:", *texts]) if head else texts[0]
        if not head and len(texts) > 1:
            message = "\n".join(texts)
        raise DataError(
            message, problems=[item.to_json() for item in shown], hint=_hint(shown[0].message)
        )

    def _text(self, item: Problem) -> str:
        return f"{place_text(item.file, item.line)}{item.message}"


def place_text(file: str | None, line: int | None) -> str:
    """Return where something stands, to put before a message; empty when that is unknown."""
    words = [word for word in (file, None if line is None else f"line {line}") if word]
    return f"{' '.join(words)}: " if words else ""


def _hint(message: str) -> str | None:
    """Return help for a file of another kind than it was taken for."""
    return next((help_ for words, help_ in _HINTS if words in message), None)


def some_rows(rows: pa.Table, wrong: Column, column: str) -> pa.Table:
    """Return id and one column of the first rows a mask names, as many as are worth a look."""
    places = pc.indices_nonzero(wrong)
    shown = min(len(places), SHOWN_ROWS)
    end = places[shown - 1].as_py() + 1 if shown else 0
    # All rows up to the last one shown: a mask of everything must not copy everything.
    return rows.select(["id", column]).slice(0, end).filter(wrong.slice(0, end))


def _no_line(_table_key: str, _entity_id: str) -> int | None:
    return None
