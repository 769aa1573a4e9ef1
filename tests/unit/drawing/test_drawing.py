"""Pictures for notebooks: the same every time, well-formed whatever names there are, bounded."""

from __future__ import annotations

import random
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from omnigraph.drawing import draw_schema, draw_subgraph
from omnigraph.drawing.layout import SIDE_MAX, spread
from omnigraph.limits import DRAWN_NODES_MAX
from omnigraph.values.inspection import (
    PictureEdge,
    PictureNode,
    PropertyInfo,
    SchemaDescription,
    Subgraph,
    TypeInfo,
)

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "]]>&amp;&lt;",
    "a\x00b\x1b\ud800c",
    "x" * 500,
)


def node(name: str, kind: str = "P") -> PictureNode:
    return PictureNode(type=kind, id=name, label=name, data={})


def edge(start: str, end: str, kind: str = "E") -> PictureEdge:
    return PictureEdge(
        edge=kind, id=f"{start} {end}", source_type="P", from_=start, target_type="P", to=end
    )


def picture(names: list[str], pairs: list[tuple[str, str]], *, more: bool = False) -> Subgraph:
    return Subgraph(
        graph_commit_id="c",
        nodes=tuple(map(node, names)),
        edges=tuple(edge(*pair) for pair in pairs),
        truncated=more,
    )


def drawn(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - it was written here


def test_a_picture_is_the_same_in_every_process() -> None:
    program = (
        "from tests.unit.drawing.test_drawing import picture, draw_subgraph;"
        "print(draw_subgraph(picture(list('abcdef'), [('a', 'b'), ('b', 'c'), ('a', 'f')])).svg)"
    )
    found = {
        subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(found) == 1
    assert found.pop().startswith("<svg")


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_are_text_and_never_markup(name: str) -> None:
    kinds = picture([], [])
    both = Subgraph(
        graph_commit_id="c",
        nodes=(node(name, name), node("b")),
        edges=(
            PictureEdge(edge=name, id="1", source_type=name, from_=name, target_type="P", to="b"),
        ),
        truncated=False,
    )
    for shown in (draw_subgraph(both), draw_subgraph(kinds)):
        tags = {item.tag.removeprefix(SVG) for item in drawn(shown.svg).iter()}
        assert tags <= {"svg", "rect", "g", "title", "text", "path", "polygon", "circle"}
        assert "\x00" not in shown.svg
    texts = [item.text or "" for item in drawn(draw_subgraph(both).svg).iter(f"{SVG}text")]
    assert all(len(text) < 40 for text in texts)
    if name.isprintable() and len(name) < 20:
        assert name in texts


def test_a_picture_has_room_for_so_many_nodes_and_says_so() -> None:
    names = [str(number) for number in range(DRAWN_NODES_MAX + 5)]
    found = draw_subgraph(picture(names, list(pairwise(names))))
    assert f"{DRAWN_NODES_MAX} of {len(names)} nodes are drawn" in found.summary
    assert found.summary.split(";")[1].strip() in found.svg
    shapes = list(drawn(found.svg).iter(f"{SVG}circle"))
    assert len(shapes) == DRAWN_NODES_MAX + 1  # and one in the legend
    part = draw_subgraph(picture(["a"], [], more=True))
    assert "there are more than these" in part.summary


def test_nodes_lie_apart_and_inside_the_picture() -> None:
    seed = random.Random(7)  # noqa: S311 - a picture, no secret
    for count in (0, 1, 2, 40, 150):
        ends = [(seed.randrange(count), seed.randrange(count)) for _ in range(count)]
        places = spread(count, ends)
        assert len(places) == count
        assert all(0 <= x <= SIDE_MAX and 0 <= y <= SIDE_MAX for x, y in places)
        assert len(set(places)) == count
        near = min(
            (
                (a - c) ** 2 + (b - d) ** 2
                for index, (a, b) in enumerate(places)
                for c, d in places[index + 1 :]
            ),
            default=400,
        )
        assert near > 100, count


def test_neighbours_are_nearer_than_others() -> None:
    places = spread(9, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)])

    def gap(a: int, b: int) -> float:
        (x1, y1), (x2, y2) = places[a], places[b]
        return float(((x1 - x2) ** 2 + (y1 - y2) ** 2) ** 0.5)

    assert gap(0, 1) < gap(0, 4)
    assert gap(3, 4) < gap(1, 5)


def property_(name: str, kind: str = "String") -> PropertyInfo:
    return PropertyInfo(name=name, type=kind, scalar="String", nullable=False, is_list=False)


def schema(*edges: tuple[str, str, str], nodes: Sequence[str] = "ABC") -> SchemaDescription:
    types = [
        TypeInfo(
            name=name,
            kind="node",
            key=("slug",),
            label="slug",
            properties=(property_("slug"), property_("state", 'enum("a}", <b>)?')),
        )
        for name in nodes
    ]
    types += [
        TypeInfo(name=name, kind="edge", label="id", properties=(), source=start, target=end)
        for name, start, end in edges
    ]
    return SchemaDescription(
        graph_commit_id="c", schema_hash="h", schema_source=None, types=tuple(types)
    )


def test_a_schema_is_a_diagram_whatever_leads_where() -> None:
    found = draw_schema(
        schema(("Own", "A", "A"), ("To", "A", "B"), ("Back", "B", "A"), ("Up", "C", "B"))
    )
    texts = [item.text for item in drawn(found.svg).iter(f"{SVG}text")]
    assert {"A", "B", "C", "Own", "To", "Back", "Up", "slug: String @key"} <= set(texts)
    assert found.summary == "3 node types and 4 edge types"
    assert draw_schema(schema(nodes="")).summary == "0 node types and 0 edge types"
    assert draw_schema(schema(nodes="ABCDEFGHIJKLMNOP")).svg.count("<rect") == 17


def test_a_schema_as_mermaid_has_no_signs_of_its_own(tmp_path: Path) -> None:
    found = draw_schema(schema(("Own", "A", "B"), nodes="AB"))
    assert found.mermaid is not None
    assert found.mermaid.splitlines()[:4] == [
        "classDiagram",
        "    class A {",
        "        slug String",
        "        state enum(a, b)?",
    ]
    assert found.mermaid.endswith("    A --> B : Own\n")
    found.save(tmp_path / "s.mmd")
    found.save(tmp_path / "s.svg")
    assert (tmp_path / "s.mmd").read_text(encoding="utf-8") == found.mermaid
    assert (tmp_path / "s.svg").read_text(encoding="utf-8") == found.svg


def test_a_loop_on_the_rightmost_type_is_inside_the_picture() -> None:
    picture = drawn(draw_schema(schema(("Acquainted", "A", "A"), nodes="A")).svg)
    (label,) = [item for item in picture.iter(f"{SVG}text") if item.text == "Acquainted"]
    width = float(picture.attrib["viewBox"].split()[2])
    assert float(label.attrib["x"]) + 6 * len("Acquainted") < width


def test_a_long_chain_of_types_is_drawn() -> None:
    names = [f"T{number}" for number in range(600)]
    links = [(f"E{number}", names[number], names[number + 1]) for number in range(599)]
    assert draw_schema(schema(*links, nodes=names)).svg.count("<rect") == 601
