"""Lays a document out on lines: a group stands on one line if it fits, else all its lines break.

A document is text, places where a line may break, groups of these, and indented parts. What it
looks like follows from its parts alone, so laying out what was laid out changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

COLUMNS_MAX: Final = 100
"""Columns of a line that groups are broken for."""

INDENT_COLUMNS: Final = 4


class Line(Struct, frozen=True, kw_only=True):
    """A place where a line may break: `flat` stands there otherwise.

    A hard one always breaks. A `blank` one leaves an empty line behind where it breaks.
    """

    flat: str = ""
    hard: bool = False
    blank: bool = False


class Note(Struct, frozen=True, kw_only=True):
    """A comment. Further lines of a shifted one are indented like its first."""

    lines: tuple[str, ...]
    shifted: bool = False


class Group(Struct, frozen=True, kw_only=True):
    """Parts that stand on one line, or all break."""

    parts: tuple[Doc, ...]
    broken: bool


class Indent(Struct, frozen=True, kw_only=True):
    """Parts whose lines begin further right."""

    parts: tuple[Doc, ...]


Doc = str | Line | Note | Group | Indent


def group(parts: Iterable[Doc], *, broken: bool = False) -> Group:
    """Make a group, which breaks if it has to or if anything in it does."""
    docs = tuple(parts)
    return Group(parts=docs, broken=broken or any(map(_must_break, docs)))


def indent(parts: Iterable[Doc]) -> Indent:
    """Make an indented part."""
    return Indent(parts=tuple(parts))


def _must_break(part: Doc) -> bool:
    match part:
        case Line():
            return part.hard
        case Note():
            return len(part.lines) > 1
        case Group():
            return part.broken
        case Indent():
            return any(map(_must_break, part.parts))
        case _:
            return False


_Item = tuple[int, bool, Doc]
"""A part to print, the column its lines begin at, and whether its lines break."""


def render(parts: Sequence[Doc]) -> str:
    """Return the text of a document: no space at line ends, one newline at its end."""
    printer = _Printer()
    stack: list[_Item] = [(0, True, part) for part in reversed(parts)]
    while stack:
        margin, broken, part = stack.pop()
        match part:
            case str():
                printer.write(part)
            case Note():
                printer.note(part, margin)
            case Line():
                if broken or part.hard:
                    printer.new_line(margin, blank=part.blank)
                else:
                    printer.write(part.flat)
            case Indent():
                stack += [(margin + INDENT_COLUMNS, broken, p) for p in reversed(part.parts)]
            case Group():
                breaks = part.broken or not _fits(part, stack, COLUMNS_MAX - printer.column)
                stack += [(margin, breaks, inner) for inner in reversed(part.parts)]
    return printer.text()


def _fits(part: Group, rest: Sequence[_Item], room: int) -> bool:
    """Whether a group fits into the room with what follows up to the next possible break."""
    inner: list[tuple[bool, Doc]] = [(False, part)]
    following = len(rest)
    while room >= 0:
        if not inner:
            if following == 0:
                return True
            following -= 1
            _, broken, item = rest[following]
            # A group that was not looked at yet may break at its first line.
            inner.append((broken or isinstance(item, Group), item))
            continue
        breaks, current = inner.pop()
        match current:
            case str():
                room -= len(current)
            case Note():
                room -= len(current.lines[0])
            case Line():
                if breaks or current.hard:
                    return True
                room -= len(current.flat)
            case _:
                inner += [(breaks, p) for p in reversed(current.parts)]
    return False


class _Printer:
    def __init__(self) -> None:
        self.column = 0
        self._rows: list[str] = []
        self._row: list[str] = []
        self._margin = 0

    def write(self, text: str) -> None:
        if not text:
            return
        if not self._row:
            self._row.append(" " * self._margin)
        self._row.append(text)
        self.column += len(text)

    def note(self, note: Note, margin: int) -> None:
        self.write(note.lines[0])
        for line in note.lines[1:]:
            self.new_line(margin if note.shifted and line else 0, blank=False)
            self.write(line)

    def new_line(self, margin: int, *, blank: bool) -> None:
        self._rows.append("".join(self._row).rstrip(" "))
        if blank:
            self._rows.append("")
        self._row = []
        self.column = self._margin = margin

    def text(self) -> str:
        self.new_line(0, blank=False)
        return "\n".join(self._rows).strip("\n") + "\n"
