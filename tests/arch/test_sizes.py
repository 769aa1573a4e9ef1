"""Files, functions and classes stay small enough to be read in one go."""

from __future__ import annotations

import ast

import pytest

from tests.arch.project import (
    PACKAGE,
    ROOT,
    files_under,
    line_count,
    lines_of,
    place,
    report,
    tree_of,
)

FUNCTION_LINES_MAX = 70
PUBLIC_METHODS_MAX = 27
COLUMNS_MAX = 100

TYPED = ("cluster", "embed", "identity", "lang", "limits", "lsp", "plan", "policy", "resolve")
"""Rooms that touch no library without types, so that nothing in them may be anything."""

TESTS = ROOT / "tests"
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.mark.parametrize(("folder", "lines_max"), [("src", 600), ("tests", 900)])
def test_files_are_short(folder: str, lines_max: int) -> None:
    problems = [
        f"{place(path)}: {lines} lines"
        for path in files_under(ROOT / folder, "*.py")
        if (lines := line_count(path)) > lines_max
    ]
    assert not problems, report(f"split these by concept, above {lines_max} lines", problems)


def test_functions_are_short() -> None:
    problems = [
        f"{place(path, node.lineno)}: {node.name} has {lines} lines"
        for folder in (PACKAGE, TESTS)
        for path in files_under(folder, "*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, FUNCTION)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert not problems, report(f"functions above {FUNCTION_LINES_MAX} lines", problems)


def test_classes_have_few_public_methods() -> None:
    problems = [
        f"{place(path, node.lineno)}: {node.name} has {len(names)} public methods"
        for path in files_under(PACKAGE, "*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
        if len(names := _public_methods(node)) > PUBLIC_METHODS_MAX
    ]
    assert not problems, report(f"classes above {PUBLIC_METHODS_MAX} methods", problems)


def test_lines_are_narrow() -> None:
    problems = [
        f"{place(path, number)}: {len(line)} columns"
        for folder in (PACKAGE, TESTS)
        for path in files_under(folder, "*.py")
        for number, line in enumerate(lines_of(path), start=1)
        if len(line) > COLUMNS_MAX
    ]
    assert not problems, report(f"lines above {COLUMNS_MAX} columns", problems)


@pytest.mark.parametrize("room", TYPED)
def test_rooms_within_say_what_everything_is(room: str) -> None:
    problems = [
        place(path, node.lineno)
        for path in files_under(PACKAGE / room, "*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Name) and node.id == "Any"
    ]
    assert not problems, report("say `object`, or what it is, instead of `Any`", problems)


def _public_methods(node: ast.ClassDef) -> set[str]:
    # A set of names, so that overloads and property setters count once.
    methods = (item for item in node.body if isinstance(item, FUNCTION))
    return {method.name for method in methods if not method.name.startswith("_")}
