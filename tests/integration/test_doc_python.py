"""The Python examples of the documentation run as they stand, page by page, in order."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import omnigraph as og
from tests.unit.docs.examples import Block, blocks_of

# Internal errors, and names of features that have no calls of their own yet.
ELSEWHERE = {
    "AlreadyExistsError",
    "INTERNAL_SCHEMA_VERSION",
    "InternalError",
    "ReadSetConflictError",
    "RecoveryRequiredError",
    "ResourceLimitError",
    "__version__",
}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "python-api.md"


def examples() -> list[Block]:
    return [block for block in blocks_of(PAGE) if block.language == "python"]


def test_every_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = examples()
    assert len(found) >= 5
    for block in found:
        assert block.tag == "run", f"{block.place}: tag it `python run`"
        # Keep the page's line numbers, so that a failure points into it.
        tree = ast.increment_lineno(ast.parse(block.text), block.line)
        code = compile(tree, str(PAGE), "exec")
        exec(code, {"__name__": "example"})  # noqa: S102 - our own documentation


def test_every_public_name_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = set(og.__all__) - ELSEWHERE
    assert not [name for name in sorted(names) if name not in text]
