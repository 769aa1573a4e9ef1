"""The comments of a text, which the lexer skips."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from omnigraph.lang.lexer import Token
from omnigraph.lang.source import Span

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def gap_comments(text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, Span]]:
    """Yield the comments of a text, each with the index of the token after it."""
    position = 0
    for index, token in enumerate(tokens):
        for comment in _COMMENT.finditer(text, position, token.start):
            yield index, Span(comment.start(), comment.end())
        position = token.end


def comment_lines(span: Span, text: str) -> list[str]:
    """Return the lines of a comment as they stand, without space at their ends."""
    return [line.rstrip() for line in text[span.start : span.end].split("\n")]


def shifted_lines(span: Span, text: str) -> list[str]:
    """Return the lines of a comment, further ones moved left as far as its first stood right."""
    first, *others = comment_lines(span, text)
    column = span.start - (text.rfind("\n", 0, span.start) + 1)
    margins = [min(column, len(line) - len(line.lstrip(" \t"))) for line in others]
    return [first, *(line[cut:] for line, cut in zip(others, margins, strict=True))]
