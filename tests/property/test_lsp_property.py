"""Help for editors on texts nobody wrote: it never fails, and renaming changes names only."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import BadRequestError
from omnigraph.lang.queries import compile_query
from omnigraph.lang.schema import compile_schema
from omnigraph.lsp.query_completion import completions
from omnigraph.lsp.query_file import QueryFile
from omnigraph.lsp.schema_file import SchemaFile
from omnigraph.lsp.symbols import SymbolKind, symbols_of
from omnigraph.plan import ReadPlan, explain
from omnigraph.plan.read import Expand, NodeScan
from tests.golden.loader import load_cases
from tests.property.query_worlds import SCHEMA
from tests.property.query_writer import Writer
from tests.property.schema_strategies import schemas
from tests.property.test_gq_property import mutants

EXAMPLES = settings().max_examples
FILE = SchemaFile("s.pg", SCHEMA)
CATALOG = compile_schema(SCHEMA).catalog
SCHEMAS = sorted({case.source for case in load_cases("pg")})
written = st.randoms(use_true_random=False).map(lambda r: Writer(r).query())


@st.composite
def half_typed(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> tuple[str, int]:
    """A text that ends somewhere, or has a hole, and a place in it."""
    text = draw(texts)
    start = draw(st.integers(0, len(text)))
    end = draw(st.sampled_from([start, start, min(len(text), start + 3), len(text)]))
    return text[:start] + text[end:], start


@given(half_typed(st.one_of(written, mutants())))
@settings(max_examples=EXAMPLES)
def test_questions_about_any_query_text_are_answered(asked: tuple[str, int]) -> None:
    text, offset = asked
    file = QueryFile("q.gq", text, FILE)
    assert all(0 <= p.span.start <= p.span.end <= len(text) for p in file.problems)
    found = completions(file, offset)
    assert found.span.end == offset
    file.hover(offset)
    file.definition(offset)
    try:
        assert file.rename(offset, "fresh_name")
    except BadRequestError as error:
        assert error.message  # noqa: PT017 -- whether it is refused depends on the text


@given(half_typed(st.one_of(schemas(), st.sampled_from(SCHEMAS))))
@settings(max_examples=EXAMPLES // 2)
def test_questions_about_any_schema_text_are_answered(asked: tuple[str, int]) -> None:
    text, offset = asked
    file = SchemaFile("s.pg", text)
    assert all(0 <= p.span.start <= p.span.end <= len(text) for p in file.problems)
    assert file.completions(offset).span.end == offset
    file.hover(offset)
    file.definition(offset)
    query = QueryFile("q.gq", "query q() { match { $p: Person  $p.a } return { $p } }", file)
    assert query.problems is not None
    query.hover(33)
    query.definition(24)


@given(written)
@settings(max_examples=EXAMPLES // 2)
def test_a_rename_changes_the_name_and_nothing_else(text: str) -> None:
    before = explain(compile_query(text, CATALOG).plan)
    file = QueryFile("q.gq", text, FILE)
    (query,) = file.queries
    for symbol in symbols_of(query, CATALOG):
        # It sorts as the old one does: plans list variables by name.
        fresh, after = f"{symbol.name}_new", text
        for edit in reversed(file.rename(symbol.spans[-1].start, fresh)):
            after = after[: edit.span.start] + edit.text + after[edit.span.end :]
        renamed = explain(compile_query(after, CATALOG).plan)
        assert re.sub(rf"\b{fresh}\b", symbol.name, renamed) == before


@given(written)
@settings(max_examples=EXAMPLES // 2)
def test_variables_have_the_types_the_compiler_gives_them(text: str) -> None:
    plan = compile_query(text, CATALOG).plan
    assert isinstance(plan, ReadPlan)
    (query,) = QueryFile("q.gq", text, FILE).queries
    symbols = symbols_of(query, CATALOG)
    kinds = {(s.name, s.type_name) for s in symbols if s.kind is SymbolKind.NODE}
    for step in plan.steps:
        if isinstance(step, NodeScan):
            assert step.variable.startswith("#") or (step.variable, step.type_name) in kinds
        elif isinstance(step, Expand) and not step.target.startswith("#"):
            assert (step.target, step.target_type) in kinds
