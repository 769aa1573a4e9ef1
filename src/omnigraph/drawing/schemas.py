"""A schema as a diagram: boxes for types of nodes, arrows for types of edges."""

from __future__ import annotations

import re
from collections.abc import Sequence

from omnigraph.drawing.svg import (
    HALO,
    LINE,
    MUTED,
    Drawing,
    arrow,
    document,
    number,
    text_at,
    written,
)
from omnigraph.values.inspection import PropertyInfo, SchemaDescription, TypeInfo
from omnigraph.wording import counted

_WIDTH, _ROW, _HEAD, _PROPERTIES_MAX = 200, 17, 26, 8
_GAP_X, _GAP_Y, _MARGIN, _PER_LAYER = 130, 46, 24, 6
_LOOP, _LETTER = 32, 6.5
# What Mermaid would take for a sign of its own.
_NOT_MERMAID = re.compile(r"[^\w \[\]().,?]")


def draw_schema(schema: SchemaDescription) -> Drawing:
    """Return types and what connects them."""
    nodes = [item for item in schema.types if item.kind == "node"]
    edges = [item for item in schema.types if item.kind == "edge"]
    links = [(str(item.source), str(item.target)) for item in edges]
    boxes = _boxes(nodes, _layers([item.name for item in nodes], links))
    parts = [
        part for number_, item in enumerate(edges) for part in _link(item, edges[:number_], boxes)
    ]
    parts += [_box(item, *boxes[item.name]) for item in nodes]
    loops = _loop_widths(edges)
    ends = (x + _WIDTH + loops.get(name, 0) for name, (x, _y, _h) in boxes.items())
    width = max(ends, default=0) + _MARGIN
    height = max((y + h for _x, y, h in boxes.values()), default=0) + _MARGIN
    told = f"{counted(len(nodes), 'node type')} and {counted(len(edges), 'edge type')}"
    return Drawing(document(width, height, parts, told), told, _mermaid(nodes, edges))


def _layers(names: Sequence[str], links: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Put types into columns, so that most edges lead to the right; a cycle is cut somewhere."""
    before: dict[str, set[str]] = {name: set() for name in names}
    for start, end in links:
        if start != end:
            before[end].add(start)
    depth: dict[str, int] = {}
    while len(depth) < len(names):
        left = [name for name in names if name not in depth]
        ready = [name for name in left if before[name] <= depth.keys()]
        for name in ready or left[:1]:
            known = [depth[start] for start in before[name] if start in depth]
            depth[name] = 1 + max(known, default=-1)
    columns: list[list[str]] = []
    for name in sorted(names, key=depth.__getitem__):
        place = depth[name]
        while place < len(columns) and len(columns[place]) >= _PER_LAYER:
            place += 1
        columns.extend([] for _ in range(place + 1 - len(columns)))
        columns[place].append(name)
    return [column for column in columns if column]


def _boxes(
    nodes: Sequence[TypeInfo], columns: list[list[str]]
) -> dict[str, tuple[float, float, float]]:
    """Return the left, the top and the height of each box."""
    shown = {item.name: len(_lines(item)) for item in nodes}
    boxes: dict[str, tuple[float, float, float]] = {}
    for place, column in enumerate(columns):
        y = float(_MARGIN)
        for name in column:
            height = _HEAD + _ROW * shown[name] + 8
            boxes[name] = (_MARGIN + place * (_WIDTH + _GAP_X), y, height)
            y += height + _GAP_Y
    return boxes


def _lines(item: TypeInfo) -> list[str]:
    lines = [f"{prop.name}: {_type(item, prop)}" for prop in item.properties[:_PROPERTIES_MAX]]
    more = len(item.properties) - _PROPERTIES_MAX
    return [*lines, f"and {more} more"] if more > 0 else lines


def _type(item: TypeInfo, prop: PropertyInfo) -> str:
    return f"{prop.type} @key" if prop.name in item.key else prop.type


def _box(item: TypeInfo, x: float, y: float, height: float) -> str:
    frame = (
        f'<rect x="{number(x)}" y="{number(y)}" width="{_WIDTH}" height="{number(height)}" '
        'rx="6" fill="#f5f7fa" stroke="#1f5fa8" stroke-width="1.5"/>'
    )
    name = text_at(x + 10, y + 18, written(item.name, 24), size=13, more='font-weight="600"')
    rows = "".join(
        text_at(x + 10, y + _HEAD + 12 + _ROW * place, written(line, 30), size=11, fill=MUTED)
        for place, line in enumerate(_lines(item))
    )
    return f"<g>{frame}{name}{rows}</g>"


def _link(
    item: TypeInfo, earlier: Sequence[TypeInfo], boxes: dict[str, tuple[float, float, float]]
) -> list[str]:
    """Return an arrow between two boxes; those of one box leave and reach it below each other."""
    leaving = sum(other.source == item.source for other in earlier)
    reaching = sum(other.target == item.target != other.source for other in earlier)
    (x1, y1, h1), (x2, y2, h2) = boxes[str(item.source)], boxes[str(item.target)]
    at1, at2 = y1 + 14 + 18 * leaving % h1, y2 + 14 + 18 * reaching % h2
    name = written(item.name, 24)
    if item.source == item.target:
        x = x1 + _WIDTH
        loop = f"M{number(x)} {number(at1 - 5)}c38 -8 38 18 0 10"
        return [
            f'<path d="{loop}" fill="none" stroke="{LINE}"/>',
            text_at(x + _LOOP, at1 + 4, name, size=11, fill=MUTED),
        ]
    if x1 == x2:
        x, below = x1 + 30 + 70 * leaving % (_WIDTH - 60), y2 > y1
        begin, end = (y1 + h1, y2) if below else (y1, y2 + h2)
        return [
            arrow(x, begin, x, end, gap=0),
            text_at(x + 6, (begin + end) / 2 + 4, name, size=11, fill=MUTED),
        ]
    right = x2 > x1
    a, b = (x1 + _WIDTH, x2) if right else (x1, x2 + _WIDTH)
    middle = text_at((a + b) / 2, (at1 + at2) / 2 - 4, name, size=11, fill=MUTED, more=HALO)
    return [arrow(a, at1, b, at2, gap=0), middle]


def _loop_widths(edges: Sequence[TypeInfo]) -> dict[str, float]:
    """Return how far the loops of each type, with their names, stand out to the right."""
    widths: dict[str, float] = {}
    for item in edges:
        if item.source == item.target:
            width = _LOOP + _LETTER * len(written(item.name, 24))
            widths[str(item.source)] = max(widths.get(str(item.source), 0), width)
    return widths


def _mermaid(nodes: Sequence[TypeInfo], edges: Sequence[TypeInfo]) -> str:
    lines = ["classDiagram"]
    for item in nodes:
        lines.append(f"    class {item.name} {{")
        lines += [
            f"        {prop.name} {_NOT_MERMAID.sub('', prop.type)}" for prop in item.properties
        ]
        lines.append("    }")
    lines += [f"    {item.source} --> {item.target} : {item.name}" for item in edges]
    return "\n".join(lines) + "\n"
