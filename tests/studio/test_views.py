"""Every view of the studio, in a browser, on a graph that nobody changes meanwhile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.studio.conftest import MakeDesk, serving
from tests.studio.worlds import HOSTILE_ID, HOSTILE_NAME, HOSTILE_TEXT

if TYPE_CHECKING:
    from playwright.sync_api import Page

VIEWS = {
    "overview": ("overview", {}, "Branches"),
    "types": ("schema", {}, "node Person"),
    "diagram": ("schema", {"tab": "diagram"}, "Knows"),
    "schema-change": ("schema", {"tab": "change"}, "Change the schema"),
    "query": ("query", {}, "Explain"),
    "explore": ("explore", {"type": "Person", "id": "ada"}, "Grace Hopper"),
    "history": ("history", {}, "agent-7"),
    "compare": ("compare", {"source": "review", "target": "main"}, "Edgar Codd"),
    "picture": ("compare", {"source": "review", "target": "main", "tab": "picture"}, "added"),
    "merge": ("compare", {"source": "review", "target": "main", "tab": "merge"}, "Theirs: review"),
    "data": ("data", {}, "Load into main"),
    "operations": ("operations", {}, "Tables of main"),
}


# Views that differ most from each other are judged in dark as well; all share one set of colours.
NARROW = ("overview", "query", "explore", "history", "merge", "operations")


@pytest.mark.parametrize(
    ("scheme", "width", "judged"), [("light", 1280, tuple(VIEWS)), ("dark", 800, NARROW)]
)
def test_every_view_opens_by_its_address_and_all_can_use_it(
    desk: MakeDesk, open_url: str, scheme: str, width: int, judged: tuple[str, ...]
) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed: it judges the views"
    ).Axe()
    found = desk(open_url, width=width, color_scheme=scheme)
    problems = []
    for name, (view, params, shown) in VIEWS.items():
        found.go(view, **params)
        found.page.get_by_text(shown).first.wait_for()
        wide = found.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        if wide > 0:
            problems.append(f"{name}: {wide} pixels are off the side")
        if name not in judged:
            continue
        report = axe.run(found.page)
        assert len(report.response["passes"]) > 10
        problems += [
            f"{name}: {item['id']}: {item['nodes'][0]['html'][:120]}"
            for item in report.response["violations"]
            if item["impact"] in ("serious", "critical")
        ]
    assert not problems, problems


def test_back_and_forward_go_through_the_views(desk: MakeDesk, open_url: str) -> None:
    page = desk(open_url).page
    page.goto(f"{open_url}/")
    page.get_by_role("heading", name="default").wait_for()
    assert page.url == f"{open_url}/studio/"
    rail = page.get_by_role("navigation", name="Views")
    rail.get_by_role("button", name="History").click()
    page.get_by_role("heading", name="History").wait_for()
    page.get_by_role("button", name=re.compile("load lena")).click()
    page.get_by_role("heading", name="Commit").wait_for()
    assert "commit=" in page.url
    page.go_back()
    page.get_by_text("Choose a commit").wait_for()
    page.go_back()
    page.get_by_role("heading", name="default").wait_for()
    page.go_forward()
    page.go_forward()
    page.get_by_role("heading", name="Commit").wait_for()


def test_one_of_several_graphs_is_chosen_in_the_bar(desk: MakeDesk, open_url: str) -> None:
    found = desk(open_url, "404")
    page = found.page
    known = httpx.get(f"{open_url}/whoami").json()
    other = {**known["graphs"][0], "graph_id": "other"}
    two = {**known, "graphs": [*known["graphs"], other]}
    page.route("**/whoami", lambda route: route.fulfill(json=two))
    found.go("overview")
    page.get_by_text(f"{known['version']}, serving").wait_for()
    page.get_by_role("combobox", name="Graph", exact=True).select_option("other")
    page.get_by_text("That did not work").wait_for()
    assert page.url == f"{open_url}/studio/g/other/overview"
    page.go_back()
    page.get_by_text("Last commits").wait_for()


def test_a_node_is_reached_and_read_by_keys_alone(desk: MakeDesk, open_url: str) -> None:
    page = desk(open_url).page
    page.goto(f"{open_url}/studio/g/default/overview")
    page.get_by_role("heading", name="default").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Skip to content"
    _press_until(page, "Explore")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Explore").wait_for()
    _press_until(page, "Search")
    page.keyboard.press("Enter")
    page.get_by_role("list", name="Found").wait_for()
    _press_until(page, "US Navy")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="US Navy").wait_for()
    _press_until(page, "Person \u2192 WorksAt (5)")
    page.keyboard.press("Enter")
    page.get_by_role("img", name=re.compile("6 nodes")).wait_for()


def _press_until(page: Page, text: str) -> None:
    """Press Tab until a control with this text has the focus."""
    for _step in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.textContent.trim()").startswith(text):
            return
    raise AssertionError(f"no key leads to {text}")


def _type(page: Page, text: str) -> None:
    """Replace the text of the editor as fast as a keyboard can."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.type(text, delay=0)


LONG = (
    "query colleagues($who: String) { match { $me: Person { slug: $who } $me worksAt $c"
    " $other worksAt $c $other.id != $me.id } return { $other, $other.name, $c.name as company }"
    " order { company, $other.name } limit 20 }"
)


def test_typing_quickly_many_times_never_stops_the_page(desk: MakeDesk, open_url: str) -> None:
    found = desk(open_url)
    found.go("query")
    page = found.page
    for turn in range(5):
        _type(page, f"// {turn}\n{LONG}")
        page.keyboard.press("Escape")
        content = page.locator(".cm-content").inner_text()
        assert content.startswith(f"// {turn}")
        assert page.evaluate("() => 1 + 1") == 2
    page.get_by_label("$who").fill("ada")
    page.get_by_role("button", name="Run").click()
    page.get_by_test_id("row-count").wait_for()
    assert "4 rows" in page.get_by_test_id("row-count").inner_text()
    assert "US Navy" in found.text()


def test_a_mistake_is_marked_where_it_stands(desk: MakeDesk, open_url: str) -> None:
    found = desk(open_url)
    found.go("query")
    _type(found.page, "// \U0001f600\nquery q() { match { $p: Persn } return { $p.name } }")
    found.page.keyboard.press("Escape")
    found.page.locator(".cm-lintRange-error").first.wait_for()
    assert found.page.locator(".cm-lintRange-error").first.inner_text() == "Persn"


def test_names_of_the_schema_are_offered(desk: MakeDesk, open_url: str) -> None:
    found = desk(open_url)
    found.go("query")
    _type(found.page, "query q() { match { $p: Person } return { $p.")
    found.page.locator(".cm-tooltip-autocomplete").get_by_text("born").wait_for()
    assert "title" not in found.page.locator(".cm-tooltip-autocomplete").inner_text()


def test_an_answer_is_a_table_a_picture_and_a_plan(desk: MakeDesk, open_url: str) -> None:
    found = desk(open_url)
    found.go("query")
    page = found.page
    _type(page, "query q() { match { $p: Person $p knows $q } return { $p, $q, $q.born } }")
    page.keyboard.press("Control+Enter")
    page.get_by_test_id("row-count").wait_for()
    assert "6 rows" in page.get_by_test_id("row-count").inner_text()
    assert "1912-06-23" in found.text()
    page.get_by_role("tab", name="Graph").click()
    page.get_by_role("img", name=re.compile("6 nodes, 6 edges")).wait_for()
    page.wait_for_selector("canvas[data-settled=yes]")
    page.get_by_role("button", name="Explain").click()
    page.get_by_text("expand $p -Knows-> $q").first.wait_for()
    page.get_by_role("button", name="Run").click()
    for form, ending in (("CSV", "csv"), ("JSON", "json"), ("Parquet", "parquet")):
        with page.expect_download() as wanted:
            page.get_by_role("button", name=form).click()
        assert wanted.value.suggested_filename == f"q.{ending}"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("tab", name="Table").click()
    page.get_by_role("button", name="Copy").click()
    page.get_by_text("6 rows were copied").wait_for()
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied.splitlines()[0] == "p\tq\tq.born"
    page.get_by_role("button", name="q.born").click()
    page.get_by_role("columnheader", name=re.compile("q.born")).wait_for()
    assert page.locator("th[aria-sort=ascending]").inner_text().startswith("q.born")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.get_by_text("$p knows $q").wait_for()


def test_pages_of_an_answer_are_turned_and_back_leads_to_the_one_before(
    desk: MakeDesk, open_url: str
) -> None:
    found = desk(open_url)
    found.go("query")
    page = found.page
    _type(page, "query q() { match { $p: Person } return { $p.name } order { $p.name } limit 4 }")
    page.keyboard.press("Control+Enter")
    page.get_by_role("cell", name="Ada Lovelace").wait_for()
    assert page.get_by_role("button", name="Previous page").is_disabled()
    page.get_by_role("button", name="Next page").click()
    page.get_by_role("cell", name="Tony Hoare").wait_for()
    assert page.get_by_role("button", name="Next page").is_disabled()
    assert "limit 4 offset 4" in page.locator(".cm-content").inner_text()
    page.go_back()
    page.get_by_text("limit 4 }").wait_for()
    page.get_by_role("button", name="Run").click()
    page.get_by_role("cell", name="Ada Lovelace").wait_for()


STORED = (
    "query knows_of($who: String) { match { $p: Person { slug: $who } $p knows $q }"
    " return { $q.name } order { $q.name } }"
)


def test_a_stored_query_is_run_by_its_name(desk: MakeDesk, world: Path, tmp_path: Path) -> None:
    (tmp_path / "people.gq").write_text(STORED, encoding="utf-8")
    with serving(world, queries=tmp_path) as url:
        found = desk(url)
        page = found.page
        found.go("query")
        page.get_by_role("form", name="Stored queries").get_by_role("combobox").select_option(
            "knows_of"
        )
        page.get_by_label("$who").fill("grace")
        page.get_by_role("button", name="Run stored").click()
        page.get_by_test_id("row-count").wait_for()
        assert "Alan Turing" in found.text()
        with page.expect_download() as wanted:
            page.get_by_role("button", name="Parquet").click()
        assert wanted.value.suggested_filename == "knows_of.parquet"
        page.goto("about:blank")


def test_a_node_is_explored_step_by_step_and_at_any_time(desk: MakeDesk, open_url: str) -> None:
    found = desk(open_url)
    found.go("explore", type="Person", id="ada")
    page = found.page
    page.get_by_role("img", name=re.compile("6 nodes, 5 edges")).wait_for()
    page.get_by_role("button", name="Grace Hopper Person").click()
    page.get_by_role("heading", name="Grace Hopper").wait_for()
    page.get_by_role("button", name="Wrote → Paper (1)").click()
    page.get_by_role("img", name=re.compile("7 nodes")).wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("img", name=re.compile("6 nodes")).wait_for()
    page.get_by_label("State").select_option("review")
    page.get_by_role("button", name="Ada Lovelace Person").click()
    page.get_by_text("mathematician").wait_for()
    page.get_by_label("State").select_option("tag:v1")
    page.get_by_text("looking at the past").wait_for()
    page.get_by_role("button", name="Show").click()
    page.get_by_text("insert by lena").wait_for()


def test_a_node_is_found_by_words_or_by_a_vector(desk: MakeDesk, open_url: str) -> None:
    found = desk(open_url)
    found.go("explore", type="Paper", id="Paper 0")
    page = found.page
    results = page.get_by_role("list", name="Found")
    page.get_by_label("Type").select_option("Person")
    page.get_by_label("By").select_option("words name")
    page.get_by_role("textbox", name="Words in name").fill("HOPPER ada")
    page.get_by_role("button", name="Search").click()
    results.get_by_role("button", name="Ada Lovelace").wait_for()
    assert results.get_by_role("listitem").count() == 2
    page.get_by_label("Type").select_option("Paper")
    page.get_by_label("By").select_option("near embedding")
    page.get_by_role("textbox", name="A text, or 4 numbers").fill("[1]")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("embedding has 4 numbers, not 1").wait_for()
    page.get_by_role("button", name="Like Paper 0").click()
    results.get_by_role("button", name="Paper 3").wait_for()
    page.get_by_label("Type").select_option("")
    page.get_by_role("textbox", name="Words, or a part").fill("navy")
    page.get_by_role("button", name="Search").click()
    results.get_by_role("button", name="US Navy Company").click()
    page.get_by_role("heading", name="US Navy").wait_for()


def test_text_of_the_graph_is_never_markup(desk: MakeDesk, open_url: str) -> None:
    found = desk(open_url)
    found.go("explore", type="Person", id="%3Cscript%3Ealert(1)%3C%2Fscript%3E")
    found.page.get_by_role("heading", name=HOSTILE_NAME).wait_for()
    for text in (HOSTILE_ID, HOSTILE_NAME, HOSTILE_TEXT):
        assert text in found.text()
    found.go("query")
    _type(found.page, "query q() { match { $p: Person } return { $p, $p.name, $p.bio } }")
    found.page.keyboard.press("Control+Enter")
    found.page.get_by_text(HOSTILE_NAME).first.wait_for()
    assert "OmniGraph Studio" in found.page.title()
    assert found.page.locator("main img, main script").count() == 0
