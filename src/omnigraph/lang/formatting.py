"""The door to the formatters: one layout for each language, and proof that it is only layout."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from omnigraph.errors import InternalError
from omnigraph.lang.gq_format import format_queries
from omnigraph.lang.gq_parser import parse_queries
from omnigraph.lang.lexer import Kind, tokenize
from omnigraph.lang.pg_format import format_schema
from omnigraph.lang.pg_parser import parse_schema
from omnigraph.lang.source import Diagnostics, SourceText, Span


class Language(StrEnum):
    """The two languages, by the ending of their files."""

    SCHEMA = "pg"
    QUERY = "gq"

    @property
    def suffix(self) -> str:
        """How the name of a file in this language ends."""
        return f".{self}"


_FORMATTERS: dict[Language, Callable[..., str]] = {
    Language.SCHEMA: format_schema,
    Language.QUERY: format_queries,
}


def language_of(text: str, *, name: str) -> Language:
    """Return the language a text is written in, by its first word. Raises `CompileError`."""
    first = tokenize(SourceText(name, text))[0]
    is_query = first.kind is Kind.IDENT and first.text == "query"
    return Language.QUERY if is_query else Language.SCHEMA


def format_text(text: str, language: Language, *, name: str) -> str:
    """Return a text in the layout of its language. Raises `CompileError` with every syntax error.

    The result is parsed again and compared with the text, so that a file is never replaced by one
    that means something else.
    """
    formatted = _FORMATTERS[language](text, name=name)
    if formatted != text and not same_syntax(_parsed(text, language), _parsed(formatted, language)):
        raise InternalError(f"{name}: formatting would change what it means; it was left alone")
    return formatted


def _parsed(text: str, language: Language) -> object:
    source = SourceText("", text)
    diagnostics = Diagnostics(source)
    parse: Callable[[SourceText, Diagnostics], object] = (
        parse_schema if language is Language.SCHEMA else parse_queries
    )
    syntax = parse(source, diagnostics)
    return syntax, tuple(item.message for item in diagnostics.errors)


def same_syntax(one: object, other: object) -> bool:
    """Whether two syntax trees are equal but for the places things stand at."""
    # A chain of conditions may be longer than the interpreter's stack is deep.
    stack: list[tuple[object, object]] = [(one, other)]
    while stack:
        left, right = stack.pop()
        if type(left) is not type(right):
            return False
        if isinstance(left, Span):
            continue
        if isinstance(left, Struct):
            names = left.__struct_fields__
            stack += [(getattr(left, name), getattr(right, name)) for name in names]
        elif isinstance(left, tuple) and isinstance(right, tuple):
            if len(left) != len(right):
                return False
            stack += zip(left, right, strict=True)
        elif left != right:
            return False
    return True
