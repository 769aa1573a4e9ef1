"""Rows as a table for people: aligned by what a terminal shows, not by characters.

Piped output is plain and as wide as its values. At a terminal a table fits its width, numbers stand
to the right, and column names are bold.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

CELL_WIDTH_MAX = 80
COLUMN_WIDTH_MIN = 6
SEPARATOR = " | "


class Layout(NamedTuple):
    """How wide a cell may be, what becomes of wider ones, and how wide the screen is."""

    width_max: int = CELL_WIDTH_MAX
    wraps: bool = False
    screen: int | None = None
    """Columns of the terminal; None where none is looked at."""


def screen_width() -> int | None:
    """Return how wide the terminal is; None when output goes elsewhere."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def shown_width(text: str) -> int:
    """Return how many columns a text takes: wide letters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def draw_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool], layout: Layout
) -> list[str]:
    """Return the lines of a table; `numbers` says which columns hold numbers only."""
    limits = _limits(names, rows, layout)
    cells = [
        [_lines(text, limit, wraps=layout.wraps) for text, limit in zip(row, limits, strict=True)]
        for row in rows
    ]
    heads = list(names)
    if layout.screen is not None:
        heads = [_cut(name, limit) for name, limit in zip(names, limits, strict=True)]
    widths = [
        max([shown_width(head), *(shown_width(line) for row in cells for line in row[index])])
        for index, head in enumerate(heads)
    ]
    right = [layout.screen is not None and is_number for is_number in numbers]
    columns = list(zip(widths, right, strict=True))
    title = _joined(heads, columns)
    if layout.screen is not None:
        import click

        title = click.style(title, bold=True)
    lines = [title, "-+-".join("-" * width for width in widths)]
    for row in cells:
        lines += [_joined(parts, columns) for parts in zip_longest(*row, fillvalue="")]
    return lines


def _joined(parts: Sequence[str], columns: Sequence[tuple[int, bool]]) -> str:
    padded = []
    for part, (width, right) in zip(parts, columns, strict=True):
        space = " " * (width - shown_width(part))
        padded.append(space + part if right else part + space)
    return SEPARATOR.join(padded).rstrip()


def _limits(names: Sequence[str], rows: Sequence[Sequence[str]], layout: Layout) -> list[int]:
    """Return how wide each column may be: the widest give way until the screen holds them all."""
    if layout.screen is None:
        return [layout.width_max] * len(names)
    limits = [
        min(max([shown_width(name), *(shown_width(row[i]) for row in rows)]), layout.width_max)
        for i, name in enumerate(names)
    ]
    free = layout.screen - len(SEPARATOR) * (len(names) - 1)
    while sum(limits) > free and max(limits) > COLUMN_WIDTH_MIN:
        widest = max(limits)
        after = max([limit for limit in limits if limit < widest], default=COLUMN_WIDTH_MIN)
        many = limits.count(widest)
        # Down to the next widest ones, but not further than needed.
        fits = widest - -(-(sum(limits) - free) // many)
        limit = max(after, fits, COLUMN_WIDTH_MIN)
        limits = [min(known, limit) for known in limits]
    return limits


def _lines(text: str, width: int, *, wraps: bool) -> list[str]:
    """Return a cell as the lines it takes."""
    if shown_width(text) <= width:
        return [text]
    if not wraps:
        return [_cut(text, width)]
    lines, line, used = [], "", 0
    for char in text:
        taken = _char_width(char)
        if line and used + taken > width:
            lines.append(line)
            line, used = "", 0
        line, used = line + char, used + taken
    return [*lines, line]


def _cut(text: str, width: int) -> str:
    """Return how a text begins, with a mark if it goes on."""
    if shown_width(text) <= width:
        return text
    used, end = 0, 0
    while end < len(text) and used + _char_width(text[end]) <= width - 1:
        used += _char_width(text[end])
        end += 1
    return text[:end] + "…"
