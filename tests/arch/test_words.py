"""Messages and pages use plain, standard terms and name who acts; variables say what they hold.

A message is any text in the source that is not a docstring. Names of programs, types and test data
may be anything; the patterns below are whole phrases that a reader would have to puzzle over.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from tests.arch.project import PACKAGE, ROOT, files_under, lines_of, place, report, tree_of

UNPLAIN = {
    "an actor without a name": r"\b(?:nobody|somebody|whoever|anybody|everybody)\b",
    "'is no X' for 'is not an X'": r"(?<!there )\bis no (?!longer\b|such\b|room\b)\w+",
    "'shall'": r"\bshall\b",
    "'mend' for 'fix'": r"\bmend(?:s|ed)?\b",
    "a number with a wrong noun": r"\b1 (?:nodes|edges|rows|types|commits|changes|conflicts)\b",
    "an article before a vowel": r"\ba (?:int|integer|edge|id|object|array|index|actor)\b",
    "'all the time' for 'kept'": r"\b(?:all the time|again and again)\b",
}
VAGUE = {"found", "res", "ret", "tmp", "val", "obj"}
"""Names of variables that fit any value."""
# The version that was found, beside the one that is supported.
_MEANT = {("errors.py", "found")}
_PATTERNS = {why: re.compile(pattern, re.IGNORECASE) for why, pattern in UNPLAIN.items()}
_CODE_SPAN = re.compile(r"(`+).+?\1")
# Words of other people, and the record of what was said before.
_QUOTED = {"CHANGELOG.md"}


def unplain(text: str) -> list[str]:
    return [why for why, pattern in _PATTERNS.items() if pattern.search(text)]


def test_messages_are_plain() -> None:
    problems = [
        f"{place(path, line)}: {why}: {text.strip()[:80]}"
        for path in files_under(PACKAGE, "*.py")
        for line, text in _messages(path)
        for why in unplain(text)
    ]
    assert not problems, report("messages to reword", problems)


def test_variables_say_what_they_hold() -> None:
    problems = [
        f"{place(path, line)}: {name}"
        for path in files_under(PACKAGE, "*.py")
        for line, name in _variables(path)
        if name in VAGUE and (path.name, name) not in _MEANT
    ]
    assert not problems, report("variables to rename", problems)


def _variables(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def test_pages_are_plain() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *files_under(ROOT / "docs", "*.md")]
    problems = [
        f"{place(page, number)}: {why}: {line.strip()[:80]}"
        for page in pages
        if page.name not in _QUOTED
        for number, line in _prose(page)
        for why in unplain(line)
    ]
    assert not problems, report("sentences to reword", problems)


def test_the_reference_of_the_api_is_plain() -> None:
    problems = [
        f"{name}: {why}: {line.strip()[:80]}"
        for name, text in _published()
        for line in text.splitlines()
        for why in unplain(line)
    ]
    assert not problems, report("docstrings to reword", problems)


@pytest.mark.parametrize(
    "text",
    [
        "a state nobody else can move",
        "'x' is no cluster",
        "has no mail, which shall be required",
        "cannot load a int",
        "loaded 1 nodes",
        "mend the input",
        "the branch is written to all the time",
    ],
)
def test_the_patterns_find_what_they_are_for(text: str) -> None:
    assert unplain(text)


@pytest.mark.parametrize("text", ["there is no branch 'x'", "it is no longer kept", "11 rows"])
def test_the_patterns_leave_plain_text_alone(text: str) -> None:
    assert not unplain(text)


def _messages(path: Path) -> Iterator[tuple[int, str]]:
    tree = tree_of(path)
    notes = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.lineno, node.value


def _published() -> Iterator[tuple[str, str]]:
    """Yield the docstrings that the site publishes: public names, and their public members."""
    for name in og.__all__:
        found = getattr(og, name)
        members = inspect.getmembers(found) if inspect.isclass(found) else []
        named = [(f"{name}.{key}", value) for key, value in members if not key.startswith("_")]
        for place_, value in [(name, found), *named]:
            if isinstance(text := getattr(value, "__doc__", None), str):
                yield place_, text


def _prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yield numbered lines outside code."""
    fence = ""
    for number, line in enumerate(lines_of(page), start=1):
        mark = line.lstrip()[:3]
        if fence:
            fence = "" if mark == fence else fence
        elif mark in ("```", "~~~"):
            fence = mark
        else:
            yield number, _CODE_SPAN.sub("`code`", line)
