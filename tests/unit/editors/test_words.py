"""The words that editors highlight and explain are the words of the compilers."""

from __future__ import annotations

import ast
from pathlib import Path

from omnigraph.lang import gq_expressions, gq_literals, gq_parser, pg_parser, pg_properties, words

LANG = Path(gq_parser.__file__).parent
METHODS = {"at_word", "take_word", "expect_word"}


def asked_for(*names: str) -> set[str]:
    """Return the words that the parsers in some files ask for by name."""
    return {
        call.args[0].value
        for name in names
        for call in ast.walk(ast.parse((LANG / name).read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in METHODS
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    }


def test_the_words_of_queries_are_those_the_parser_knows() -> None:
    parsed = asked_for("gq_parser.py", "gq_expressions.py", "gq_literals.py") - {"enum"}
    known = parsed | {*gq_parser.VERBS, *gq_expressions.WORD_OPERATORS, *gq_expressions.NO_EDGES}
    known |= {*gq_expressions.BLOCKS, "is", "true", "false"}
    described = {*words.QUERY_KEYWORDS, *words.QUERY_CONSTANTS}
    assert described == known - set(gq_expressions.AGGREGATES)
    functions = {*gq_expressions.ARITY, *gq_literals.TEMPORAL}
    assert set(words.QUERY_FUNCTIONS) == functions


def test_the_words_of_schemas_are_those_the_parser_knows() -> None:
    parsed = asked_for("pg_parser.py") | set(pg_parser.DECLARATION_WORDS)
    assert set(words.SCHEMA_KEYWORDS) == parsed
    assert set(words.SCHEMA_CONSTRAINTS) == set(pg_parser.CONSTRAINT_NAMES)
    annotations = {*pg_properties.PROPERTY_ANNOTATIONS, *pg_properties.TYPE_ANNOTATIONS, "card"}
    assert set(words.SCHEMA_ANNOTATIONS) == annotations - set(pg_parser.CONSTRAINT_NAMES)
    assert set(words.SCALARS) == {*pg_parser.SCALAR_NAMES, "Vector"}


def test_every_word_is_explained_in_a_sentence() -> None:
    for name, found in vars(words).items():
        if name.isupper():
            assert all(text.endswith(".") and len(text) <= 100 for text in found.values()), name
