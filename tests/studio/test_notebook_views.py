"""What a notebook shows, rendered by a real browser: tables and drawings, and text as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph as og

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCHEMA = "node Person { name: String @key  note: String? }\nedge Knows: Person -> Person"
NOTE = "<img src=x onerror=\"document.title='ran'\"> 漢字"
ALL = "query q() { match { $p: Person } return { $p.name, $p.note } order { $p.name } }"


@pytest.fixture(scope="module")
def page_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("notebook") / "g"
    with og.init(place, SCHEMA, durability="none") as graph:
        rows: list[dict[str, object]] = [
            {"type": "Person", "data": {"name": "ann", "note": NOTE}},
            {"type": "Person", "data": {"name": "bob"}},
            {"edge": "Knows", "from": "ann", "to": "bob"},
        ]
        graph.load(rows, mode="append")
        tables = [graph._repr_html_(), graph.query(ALL)._repr_html_()]
        drawings = [graph.schema.draw(), graph.draw([("Person", "ann"), ("Person", "bob")])]
        shown = [*tables, *(drawing._repr_svg_() for drawing in drawings)]
    parts = [f"<div class='output'>{text}</div>" for text in shown]
    return f"<!doctype html><meta charset=utf-8><title>quiet</title>{''.join(parts)}"


def test_tables_and_drawings_are_rendered(browser: Browser, page_text: str, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 900, "height": 900})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.set_content(page_text)
    cells = page.locator(".output").nth(1).locator("td").all_inner_texts()
    assert cells[:2] == ["ann", NOTE]
    assert page.title() == "quiet"
    for number, names in ((2, ["Person", "Knows"]), (3, ["ann", "bob"])):
        drawing = page.locator(".output").nth(number).locator("svg").first
        box = drawing.bounding_box()
        assert box is not None
        assert 40 < box["width"] <= 900
        assert box["height"] > 40
        text = drawing.inner_html()
        assert all(name in text for name in names)
    assert problems == []
    shot = tmp_path / "views.png"
    page.screenshot(path=shot, full_page=True)
    assert shot.stat().st_size > 5_000
    page.close()
