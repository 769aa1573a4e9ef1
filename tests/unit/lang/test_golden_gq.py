"""Runs every `.gq` fixture: the plan a query compiles to, or what is wrong with it."""

from __future__ import annotations

from functools import cache

import pytest

from omnigraph.catalog import Catalog
from omnigraph.errors import CompileError
from omnigraph.lang.queries import compile_queries
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.source import Diagnostic
from omnigraph.plan import MutationPlan, ReadPlan, explain
from tests.golden.loader import Case, assert_diagnostics, load_cases, read_schema

CASES = load_cases("gq")


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_query_compiles_as_written_down(case: Case) -> None:
    verdict = case.expectation.partition(" ")[0]
    line, found = _outcome(case)
    if verdict not in ("ok", "read", "mutation"):
        assert line is None, f"compiled, but should not: {line}"
        assert_diagnostics(found, case.expectation)
    elif verdict == "ok":
        assert line is not None, "\n".join(item.render() for item in found)
    else:
        assert line == case.expectation, "\n".join(item.render() for item in found)


def test_no_two_cases_have_the_same_source() -> None:
    seen: dict[tuple[str | None, str], str] = {}
    repeats = [
        f"{case.id} repeats {seen[case.schema, case.source]}"
        for case in CASES
        if seen.setdefault((case.schema, case.source), case.id) != case.id
    ]
    assert not repeats, "\n".join(repeats)


def _outcome(case: Case) -> tuple[str | None, list[Diagnostic]]:
    """Return the plans of a source on one line, or None and what was reported."""
    try:
        compiled = compile_queries(case.source, _catalog(read_schema(case)))
    except CompileError as error:
        return None, [item for item in error.diagnostics if isinstance(item, Diagnostic)]
    return " ; ".join(plan_line(query.plan) for query in compiled), []


@cache
def _catalog(schema: str) -> Catalog:
    return compile_schema(schema).catalog


def plan_line(plan: ReadPlan | MutationPlan) -> str:
    """Return a plan on one line; steps of a nested pattern stand in braces."""
    line = ""
    depth = 0
    for row in explain(plan).split("\n"):
        text = row.lstrip(" ")
        level = max(0, (len(row) - len(text)) // 2 - 1)
        if level > depth:
            line += " {" * (level - depth) + " "
        else:
            line += " }" * (depth - level) + (" ; " if line else "")
        line += text
        depth = level
    return line + " }" * depth
