"""The page of invariants names tests that exist; boundaries are constants that only tests arm."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.arch.project import PACKAGE, ROOT, files_under, place, report, tree_of

PAGE = ROOT / "docs" / "invariants.md"
RULE = re.compile(r"- \*\*(\d+)\.\*\* ([^`]+?)\n  `(tests/[\w/]+\.py)`\n  `(test_\w+)`\n")


def test_every_invariant_names_a_test_that_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rules = RULE.findall(text)
    assert len(rules) == text.count("- **"), "a rule without a test"
    problems = [
        f"{number}: {path} {name}"
        for number, _rule, path, name in rules
        if name not in _functions(ROOT / path)
    ]
    assert not problems, report("tests that do not exist", problems)
    numbers = [int(number) for number, *_rest in rules]
    assert numbers == sorted(set(numbers))


def _functions(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    return {node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef)}


def _calls(name: str) -> Iterator[tuple[Path, ast.Call]]:
    for path in files_under(PACKAGE, "*.py"):
        if path.name == "failpoints.py":
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == name:
                yield path, node


def test_boundaries_are_named_constants() -> None:
    problems = [
        f"{place(path, call.lineno)}: {ast.unparse(call)}"
        for path, call in _calls("fire")
        if not re.fullmatch(r"fire\(Failpoint\.[A-Z_]+\)", ast.unparse(call))
    ]
    assert not problems, report("boundaries without a constant", problems)


def test_every_boundary_is_somewhere() -> None:
    from omnigraph.failpoints import Failpoint

    fired = {ast.unparse(call.args[0]) for _path, call in _calls("fire")}
    assert fired == {f"Failpoint.{point.name}" for point in Failpoint}


def test_the_engine_arms_nothing() -> None:
    problems = [
        place(path, call.lineno) for name in ("arm", "armed") for path, call in _calls(name)
    ]
    assert not problems, report("boundaries armed by the engine", problems)
