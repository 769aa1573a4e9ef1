"""Every example of the documentation does what the page says, and every code is documented."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.unit.docs.examples import Example, blocks_of, check, examples_of, run

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANG = ROOT / "src" / "omnigraph" / "lang"

# Generated from the program, or about rules and tests: there is nothing to type in.
WITHOUT_EXAMPLE = {"cli.md", "commit-protocol.md", "invariants.md", "scale.md", "studio.md"}
COLUMNS_MAX = 100

_CODE = re.compile(r"(?:[PSWT]\d{1,2}|D2|Q\d{3}|L\d{3}|OG-[A-Z]{2}-\d{3})")
_CODE_ROW = re.compile(rf"\| `({_CODE.pattern})` \|")

CHECKED = [example for page in PAGES for example in examples_of(page) if example.block.tag != "run"]
# Run beside the other tests on Spark, which have a session.
ON_SPARK = {"bulk-load.md", "spark-queries.md", "tutorial-data-engineer.md"}
# Runs on a server of its own, which the environment names.
IN_A_BUCKET = "object-stores.md"
# What a newcomer types first runs in a fresh home, step by step (test_first_minutes.py).
FIRST = {"README.md", "quickstart.md"}
RUN = [
    page
    for page in PAGES
    if page.name not in {*ON_SPARK, *FIRST}
    and any(item.block.tag == "run" for item in examples_of(page))
]


@pytest.mark.parametrize("example", CHECKED, ids=lambda example: example.block.place)
def test_example_does_what_its_tag_says(example: Example) -> None:
    check(example)


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_commands_of_a_page_work_in_order(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if page.name == IN_A_BUCKET:
        request.getfixturevalue("s3")
    for example in examples_of(page):
        block = example.block
        if (name := block.options.get("file")) is not None:
            (tmp_path / name).write_text(block.text, encoding="utf-8")
        if block.tag == "run":
            run(example, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_has_an_example(page: Path) -> None:
    assert page.name in WITHOUT_EXAMPLE or examples_of(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_has_a_known_tag(page: Path) -> None:
    unknown = [
        f"{block.place}: {block.language} {' '.join(block.words)}"
        for block in blocks_of(page)
        if not block.is_known
    ]
    assert not unknown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_are_narrow(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").split("\n")
    wide = [number for number, line in enumerate(lines, start=1) if len(line) > COLUMNS_MAX]
    assert not wide


def _raised() -> set[str]:
    """Return the codes that stand as string literals in the compiler."""
    return {
        node.value
        for path in LANG.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if _CODE.fullmatch(node.value)
    }


def _documented() -> set[str]:
    return {
        found.group(1)
        for page in PAGES
        for line in page.read_text(encoding="utf-8").split("\n")
        if (found := _CODE_ROW.match(line))
    }


def test_the_search_for_codes_finds_the_codes() -> None:
    assert {"P00", "S01", "S16", "W01", "T00", "T28", "D2", "Q000", "L203"} <= _raised()


def test_every_code_is_in_a_table() -> None:
    assert not _raised() - _documented()


def test_no_table_names_a_code_that_is_never_raised() -> None:
    assert not _documented() - _raised()
