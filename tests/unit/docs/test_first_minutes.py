"""What a newcomer types first, README and quickstart, works literally in a fresh home."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.docs.examples import blocks_of, examples_of, run

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "docs" / "quickstart.md"]
# What the pages promise, for all steps of one together.
SECONDS_MAX = 300


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_step_works_in_a_fresh_home(
    page: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    env = {"HOME": str(home), "LANG": "C.UTF-8"}
    total = 0.0
    for example in examples_of(page):
        block = example.block
        if (name := block.options.get("file")) is not None:
            (folder / name).write_text(block.text, encoding="utf-8")
        if block.tag == "run":
            begun = time.perf_counter()
            run(example, folder, env)
            seconds = time.perf_counter() - begun
            total += seconds
            record_property(block.place, round(seconds, 1))
    assert total < SECONDS_MAX
    assert list(home.iterdir()) == [], "the steps left something in the home folder"


def test_the_first_page_ends_in_an_answer_and_a_merge() -> None:
    shown = "\n".join(block.text for block in blocks_of(PAGES[1]))
    order = ["omnigraph init", "omnigraph load", "rows from branch", "branch create", "diff main"]
    places = [shown.index(word) for word in [*order, "--preview", "merged spring into main"]]
    assert places == sorted(places)
