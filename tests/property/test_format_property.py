"""Formatting on texts nobody wrote: it changes layout only, keeps comments, and is done at once."""

from __future__ import annotations

import re

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from omnigraph.errors import CompileError
from omnigraph.lang.comments import gap_comments
from omnigraph.lang.formatting import Language, format_text, same_syntax
from omnigraph.lang.gq_parser import parse_queries
from omnigraph.lang.lexer import tokenize
from omnigraph.lang.pg_parser import parse_schema
from omnigraph.lang.queries import compile_query
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.source import Diagnostics, SourceText
from omnigraph.plan import explain
from tests.golden.loader import load_cases
from tests.property.query_worlds import SCHEMA
from tests.property.query_writer import Writer
from tests.property.schema_strategies import schemas
from tests.property.test_gq_property import mutants, reads, writes

EXAMPLES = settings().max_examples
QUERIES = sorted({case.source for case in load_cases("gq")})
SCHEMAS = sorted({case.source for case in load_cases("pg")})
# A comment is a word that is nowhere else, so that each can be found again.
SEPARATORS = [*[" "] * 6, "\n", "\n\n\n", "\t", " // c{}\n", " /* c{} */ ", "\n// c{}\n"]
SEPARATORS += ["\n\n/* c{}\n   more */\n", " /* c{}\n more\n\n*/", "\n  // c{}\n\n"]


def syntax(text: str, language: Language) -> object | None:
    """Parse a text; None if it does not parse."""
    source = SourceText("t", text)
    diagnostics = Diagnostics(source)
    found: object
    if language is Language.SCHEMA:
        found = parse_schema(source, diagnostics)
    else:
        found = parse_queries(source, diagnostics)
    return None if diagnostics.items else found


def comments(text: str) -> list[str]:
    found = gap_comments(text, tokenize(SourceText("t", text)))
    return [re.sub(r"\s+", " ", text[span.start : span.end]).strip() for _, span in found]


@st.composite
def spaced(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A text whose tokens stand apart in other ways, with comments in odd places."""
    text = draw(texts)
    try:
        tokens = tokenize(SourceText("t", text))
    except CompileError:
        return text
    choices = draw(st.lists(st.integers(0, len(SEPARATORS) - 1), max_size=60))
    pieces: list[str] = []
    for number, token in enumerate(tokens):
        pieces.append(text[token.start : token.end])
        separator = SEPARATORS[choices[number]] if number < len(choices) else " "
        pieces.append(separator.format(number))
    return "".join(pieces)


def check(text: str, language: Language) -> str:
    """Format a text that parses and check that only its layout changed; skip other texts."""
    before = syntax(text, language)
    assume(before is not None)
    once = format_text(text, language, name="t")
    assert same_syntax(before, syntax(once, language))
    assert format_text(once, language, name="t") == once
    assert not re.search(r"[ \t\r]$|\n\n\n|\A\n", once, re.MULTILINE)
    assert once == "" or once.endswith("\n")
    return once


written_queries = st.randoms(use_true_random=False).map(lambda r: Writer(r).query())
query_texts = st.one_of(written_queries, reads(), writes(), mutants(), st.sampled_from(QUERIES))


@given(spaced(query_texts))
@settings(max_examples=EXAMPLES)
@example("query q() { match { $p: A { a: - -1, b: [-1, -2,], } } return { $p.a -1, ((1)) } }")
@example("query q() { match { $p: A (($p.a)) = 1 (1 = 2) } return { x (1) $p.count ($p.a) } }")
@example("query q() { insert A { and: 1 or: a and b or c, in: $x is: y } delete A where (a) or b }")
@example('query q() { match { $p.a = date ("x") } return { 1 } }')
@example("// only a comment")
@example("query q($a: I32 // one\n, // two\n $b: I32) { match { $p: A } return { $p } }")
def test_formatting_queries_changes_layout_only(text: str) -> None:
    once = check(text, Language.QUERY)
    assert comments(once) == comments(text)


@given(st.one_of(schemas(), st.sampled_from(SCHEMAS)))
@settings(max_examples=EXAMPLES // 2)
def test_formatting_schemas_changes_layout_only(text: str) -> None:
    once = check(text, Language.SCHEMA)
    # A comment inside a line moves to its begin or end, so their order may change there.
    assert sorted(comments(once)) == sorted(comments(text))


CATALOG = compile_schema(SCHEMA).catalog


@given(spaced(written_queries))
@settings(max_examples=EXAMPLES // 4)
def test_a_formatted_query_compiles_to_the_same_plan(text: str) -> None:
    once = check(text, Language.QUERY)
    assert explain(compile_query(once, CATALOG).plan) == explain(compile_query(text, CATALOG).plan)


@given(st.text(alphabet='query pP$:{}()[]<>@,.?=!+-*/%"\\#\t\r\n019_', max_size=60))
def test_any_text_is_formatted_or_refused(text: str) -> None:
    for language in Language:
        try:
            format_text(text, language, name="t")
        except CompileError as error:
            assert error.diagnostics  # noqa: PT017 -- which it is depends on the text
