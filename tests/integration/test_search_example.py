"""The example of search runs without a network, whatever is installed."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/search/meaning.py"


def test_the_example_finds_notes_by_words_and_by_both(tmp_path: Path) -> None:
    lines = runpy.run_path(str(EXAMPLE))["main"](str(tmp_path))
    assert len(lines) == 6
    assert lines[1] == "'a warm drink from leaves' by_words: nothing"
    assert lines[4] == "'commits after a power failure' by_words: wal"
