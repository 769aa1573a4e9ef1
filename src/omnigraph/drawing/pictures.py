"""Nodes and the edges between them as a picture."""

from __future__ import annotations

from collections import Counter

from omnigraph.drawing.layout import Point, spread
from omnigraph.drawing.svg import (
    HALO,
    LETTER,
    MUTED,
    Drawing,
    arrow,
    document,
    mark,
    number,
    text_at,
    written,
)
from omnigraph.limits import DRAWN_NODES_MAX
from omnigraph.values.inspection import PictureEdge, PictureNode, Subgraph
from omnigraph.wording import counted

_MARGIN, _LEGEND, _RADIUS, _WIDTH_MIN = 90, 10, 9, 360
_LABEL_CHARS = 24
_NAMED_EDGES_MAX, _NAMED_NODES_MAX = 60, 100


def draw_subgraph(picture: Subgraph) -> Drawing:
    """Return nodes and edges as a picture: at most `DRAWN_NODES_MAX` nodes, and it says so."""
    nodes = picture.nodes[:DRAWN_NODES_MAX]
    numbers = {(item.type, item.id): place for place, item in enumerate(nodes)}
    edges = [
        (item, numbers[item.source_type, item.from_], numbers[item.target_type, item.to])
        for item in picture.edges
        if (item.source_type, item.from_) in numbers and (item.target_type, item.to) in numbers
    ]
    places = spread(len(nodes), [(start, end) for _item, start, end in edges])
    moved = [(x + _MARGIN, y + _MARGIN + _LEGEND) for x, y in places]
    counts = Counter(item.type for item in nodes)
    kinds = {name: place for place, name in enumerate(sorted(counts))}
    told = f"{counted(len(nodes), 'node')} and {counted(len(edges), 'edge')}"
    left_out = _left_out(picture, len(nodes))
    width = max(max((x for x, _y in moved), default=0) + _MARGIN, _WIDTH_MIN)
    height = max((y for _x, y in moved), default=_LEGEND) + _MARGIN
    parts = [_edge(item, moved[start], moved[end]) for item, start, end in edges]
    if len(edges) <= _NAMED_EDGES_MAX:
        parts += [_edge_name(item, moved[start], moved[end]) for item, start, end in edges]
    named = _named_nodes(len(nodes), [(start, end) for _item, start, end in edges])
    parts += [
        _node(item, kinds[item.type], place, is_named=number_ in named)
        for number_, (item, place) in enumerate(zip(nodes, moved, strict=True))
    ]
    parts += _legend(kinds, counts, width)
    if left_out:
        parts.append(text_at(12, height - 12, written(left_out), fill=MUTED))
    told = f"{told}; {left_out}" if left_out else told
    return Drawing(document(width, height, parts, told), told)


def _left_out(picture: Subgraph, drawn: int) -> str:
    if len(picture.nodes) > drawn:
        more = "more than " if picture.truncated else ""
        return f"{drawn} of {more}{len(picture.nodes)} nodes are drawn"
    return "there are more than these" if picture.truncated else ""


def _edge(item: PictureEdge, start: Point, end: Point) -> str:
    name = f"<title>{written(f'{item.edge} {item.from_} -> {item.to}')}</title>"
    if start == end:
        x, y = start
        loop = f"M{number(x - 5)} {number(y - 8)}c-22 -34 32 -34 10 0"
        return f'<path d="{loop}" fill="none" stroke="#9aa5b4">{name}</path>'
    return f"<g>{name}{arrow(*start, *end, gap=_RADIUS + 3)}</g>"


def _edge_name(item: PictureEdge, start: Point, end: Point) -> str:
    lift = -30.0 if start == end else 0.0
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + lift
    return text_at(x, y + 3, written(item.edge, _LABEL_CHARS), size=10, fill=MUTED, more=HALO)


def _named_nodes(count: int, ends: list[tuple[int, int]]) -> set[int]:
    """Return the nodes whose names are to be read: in a crowd those with the most edges."""
    degrees = Counter(number_ for pair in ends for number_ in pair)
    return set(sorted(range(count), key=lambda item: (-degrees[item], item))[:_NAMED_NODES_MAX])


def _node(item: PictureNode, kind: int, place: Point, *, is_named: bool) -> str:
    title = f"<title>{written(f'{item.type} {item.id}')}</title>"
    if not is_named:
        return f"<g>{title}{mark(kind, *place, _RADIUS)}</g>"
    label = text_at(
        place[0], place[1] + 2.4 * _RADIUS, written(item.label, _LABEL_CHARS), more=HALO
    )
    return f"<g>{title}{mark(kind, *place, _RADIUS)}{label}</g>"


def _legend(kinds: dict[str, int], counts: Counter[str], width: float) -> list[str]:
    parts, x, y = [], 18.0, 20.0
    for name, kind in kinds.items():
        text = f"{written(name, _LABEL_CHARS)} ({counts[name]})"
        needed = 24 + LETTER * 12 * len(text)
        if x + needed > width and x > 18:
            break  # What does not fit is told by the nodes themselves.
        parts += [mark(kind, x, y - 4, 5), text_at(x + 10, y, text)]
        x += needed
    return parts
