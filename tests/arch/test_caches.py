"""What a process remembers has a limit: caches are `omnigraph.bounded.BoundedCache`, or say why."""

from __future__ import annotations

import ast

from tests.arch.project import PACKAGE, files_under, place, report, tree_of

# Functions whose arguments come from a closed set: classes of expressions or values, yes or no.
CLOSED = {
    "plan/expression.py:_operand_names",
    "server/app.py:_published",
    "values/schemas.py:shape",
    "values/value.py:members",
    "values/value.py:_writer",
}


def _is_boundless(decorator: ast.expr) -> bool:
    """Whether a decorator remembers every result."""
    match decorator:
        case ast.Name(id="cache") | ast.Attribute(value=ast.Name(id="functools"), attr="cache"):
            return True
        case ast.Call(func=ast.Name(id="lru_cache") | ast.Attribute(attr="lru_cache")):
            values = [*decorator.args[:1], *(k.value for k in decorator.keywords)]
            return any(isinstance(item, ast.Constant) and item.value is None for item in values)
        case _:
            return False


def _decorated(source: str) -> list[str]:
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and any(map(_is_boundless, node.decorator_list))
    ]


def test_every_way_to_remember_all_results_is_known() -> None:
    assert _decorated("@cache\ndef f(x): ...") == ["f"]
    assert _decorated("@functools.cache\ndef f(x): ...") == ["f"]
    assert _decorated("@lru_cache(None)\ndef f(x): ...") == ["f"]
    assert _decorated("@functools.lru_cache(maxsize=None)\ndef f(x): ...") == ["f"]
    assert _decorated("@lru_cache(maxsize=LIMIT)\ndef f(x): ...") == []


def test_no_function_remembers_every_result() -> None:
    problems = [
        f"{place(path, node.lineno)}: {node.name}"
        for path in files_under(PACKAGE, "*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) and any(map(_is_boundless, node.decorator_list))
        if f"{path.relative_to(PACKAGE).as_posix()}:{node.name}" not in CLOSED
    ]
    assert not problems, report("give the cache a limit of omnigraph.limits", problems)


def test_recency_is_kept_by_one_class() -> None:
    problems = [
        place(path, node.lineno)
        for path in files_under(PACKAGE, "*.py")
        if path.name != "bounded.py"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Name) and node.id == "OrderedDict"
    ]
    assert not problems, report("use omnigraph.bounded.BoundedCache", problems)
