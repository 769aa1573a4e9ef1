"""Offsets in a text as lines and columns of an editor, which counts in units of an encoding."""

from __future__ import annotations

import re
from bisect import bisect_right

from omnigraph.lang.source import Span

_LINE_END = re.compile(r"\r\n|\n|\r")
_UNIT_BYTES = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
_CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}

Position = tuple[int, int]
"""Line and column, both from 0; the column in units of the encoding."""


class Positions:
    """Converts between offsets and positions of one text."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self._text = text
        self._encoding = encoding if encoding in _CODECS else "utf-16"
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def position(self, offset: int) -> Position:
        """Return the position of an offset."""
        line = bisect_right(self._starts, offset) - 1
        return line, self._units(self._text[self._starts[line] : offset])

    def range(self, span: Span) -> tuple[Position, Position]:
        """Return the positions of both ends of a span."""
        return self.position(span.start), self.position(span.end)

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a position; one behind a line means its end."""
        if line >= len(self._starts):
            return len(self._text)
        start = self._starts[line]
        match = _LINE_END.search(self._text, start)
        end = len(self._text) if match is None else match.start()
        units = 0
        for offset in range(start, end):
            if units >= column:
                return offset
            units += self._units(self._text[offset])
        return end

    def _units(self, text: str) -> int:
        if text.isascii():
            return len(text)
        encoded = text.encode(_CODECS[self._encoding], errors="surrogatepass")
        return len(encoded) // _UNIT_BYTES[self._encoding]
