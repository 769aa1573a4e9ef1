"""SVG as text. What a graph holds is never markup, and each picture stands alone.

Pictures have no ids and no styles of their own: several on one page do not disturb each other.
"""

from __future__ import annotations

import os
import re
from html import escape
from pathlib import Path

FONT = "system-ui, sans-serif"
INK, MUTED, LINE, PAPER = "#1c2430", "#566072", "#9aa5b4", "#ffffff"
COLOURS = (
    *("#2b6cb0", "#b7791f", "#2f855a", "#b83280"),
    *("#6b46c1", "#c05621", "#2c7a7b", "#718096"),
)
LETTER = 0.56
"""Width of a mean letter, as a share of the size of the font."""
# XML has no way to write these, and lone surrogates are no text at all.
_UNWRITABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Drawing:
    """A picture. Notebooks show it; `save` writes it to a file.

    >>> picture = graph.draw([("Person", "ann"), ("Task", "t1")])
    >>> picture.summary
    '2 nodes and 1 edge'
    >>> picture.svg.startswith("<svg")
    True
    """

    def __init__(self, svg: str, summary: str, mermaid: str | None = None) -> None:
        self.svg = svg
        """The picture as the text of an SVG file."""
        self.summary = summary
        """What is to be seen, in words."""
        self.mermaid = mermaid
        """The same as Mermaid text, which many pages and editors draw; None except for schemas."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file: Mermaid if its name ends in `.mmd`, else SVG.

        >>> graph.schema.draw().save("tasks.svg")
        """
        wanted = Path(path)
        is_mermaid = wanted.suffix == ".mmd" and self.mermaid is not None
        wanted.write_text(str(self.mermaid) if is_mermaid else self.svg, encoding="utf-8")

    def __repr__(self) -> str:
        return f"Drawing({self.summary})"

    def _repr_svg_(self) -> str:
        return self.svg


def written(text: str, most: int | None = None) -> str:
    """Return text as it stands in SVG, shortened if it is long."""
    shown = " ".join(_UNWRITABLE.sub("\ufffd", text).split())
    if most is not None and len(shown) > most:
        shown = shown[: most - 1] + "…"
    return escape(shown)


def number(value: float) -> str:
    """Return a coordinate, as short as it can be told."""
    return f"{round(value, 1):g}"


def document(width: float, height: float, parts: list[str], told: str) -> str:
    """Return the parts of a picture as a whole one, with what it shows in words."""
    size = f'width="{number(width)}" height="{number(height)}"'
    box = f'viewBox="0 0 {number(width)} {number(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="img" '
        f'aria-label="{written(told)}" font-family="{FONT}">'
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>{"".join(parts)}</svg>'
    )


def text_at(
    x: float, y: float, text: str, *, size: int = 12, fill: str = INK, more: str = ""
) -> str:
    """Return a line of text; `text` is written already."""
    return (
        f'<text x="{number(x)}" y="{number(y)}" font-size="{size}" fill="{fill}" {more}>'
        f"{text}</text>"
    )


HALO = f'text-anchor="middle" paint-order="stroke" stroke="{PAPER}" stroke-width="3"'


def mark(kind: int, x: float, y: float, radius: float) -> str:
    """Return the shape that stands for a type; types differ by shape as well as by colour."""
    fill = f'fill="{COLOURS[kind % len(COLOURS)]}"'
    shape, r = kind % 4, radius
    if shape == 0:
        return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(r)}" {fill}/>'
    corners = {
        1: ((-r, -r), (r, -r), (r, r), (-r, r)),
        2: ((0, -1.3 * r), (1.3 * r, 0), (0, 1.3 * r), (-1.3 * r, 0)),
        3: ((0, -1.2 * r), (1.2 * r, r), (-1.2 * r, r)),
    }[shape]
    points = " ".join(f"{number(x + a)},{number(y + b)}" for a, b in corners)
    return f'<polygon points="{points}" {fill}/>'


def arrow(x1: float, y1: float, x2: float, y2: float, *, gap: float) -> str:
    """Return a line with a tip, which ends so far before its target."""
    dx, dy = x2 - x1, y2 - y1
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    ux, uy = dx / length, dy / length
    tx, ty = x2 - ux * gap, y2 - uy * gap
    left = (tx - 8 * ux + 4 * uy, ty - 8 * uy - 4 * ux)
    right = (tx - 8 * ux - 4 * uy, ty - 8 * uy + 4 * ux)
    corners = " ".join(f"{number(a)},{number(b)}" for a, b in ((tx, ty), left, right))
    return (
        f'<path d="M{number(x1)} {number(y1)}L{number(tx)} {number(ty)}" stroke="{LINE}" '
        f'fill="none"/><polygon points="{corners}" fill="{LINE}"/>'
    )
