"""Parses literals of `.gq` text."""

from __future__ import annotations

from omnigraph.catalog.model import LiteralValue
from omnigraph.catalog.temporal import parse_date, parse_datetime
from omnigraph.lang.gq_ast import LiteralKind, LiteralNode
from omnigraph.lang.lexer import Kind, Token, TokenStream, fail
from omnigraph.limits import I64_MAX

TEMPORAL = ("date", "datetime")


def negative_integer(stream: TokenStream, minus: Token) -> LiteralNode:
    """Parse an integer after its sign."""
    # Read with its sign: the least 64-bit integer has no positive counterpart.
    token = stream.advance()
    value = -stream.integer(token, limit=I64_MAX + 1)
    return LiteralNode(kind=LiteralKind.INTEGER, value=value, span=minus.span.to(token.span))


def parse_literal(stream: TokenStream) -> LiteralNode:
    """Parse a literal (lists included, variables not)."""
    token = stream.current
    if token.kind is Kind.STRING:
        stream.advance()
        return LiteralNode(kind=LiteralKind.STRING, value=token.text, span=token.span)
    if token.kind is Kind.INTEGER:
        value = stream.integer(stream.advance())
        return LiteralNode(kind=LiteralKind.INTEGER, value=value, span=token.span)
    if token.kind is Kind.FLOAT:
        number = stream.decimal(stream.advance())
        return LiteralNode(kind=LiteralKind.FLOAT, value=number, span=token.span)
    if token.kind is Kind.IDENT and token.text in TEMPORAL:
        return parse_temporal(stream, stream.advance())
    if token.kind is Kind.IDENT and token.text in ("true", "false", "null"):
        stream.advance()
        if token.text == "null":
            return LiteralNode(kind=LiteralKind.NULL, value=None, span=token.span)
        return LiteralNode(kind=LiteralKind.BOOL, value=token.text == "true", span=token.span)
    if stream.at_punct("["):
        return _list(stream)
    if stream.at_punct("-"):
        minus = stream.advance()
        if stream.current.kind is Kind.INTEGER:
            return negative_integer(stream, minus)
        number_token = stream.expect(Kind.FLOAT, "a number", "after `-`")
        return LiteralNode(
            kind=LiteralKind.FLOAT,
            value=-stream.decimal(number_token),
            span=minus.span.to(number_token.span),
        )
    if token.kind is Kind.VARIABLE:
        fail(
            stream.source,
            token.span,
            "a list literal cannot hold variables",
            "declare a list parameter instead: `$xs: [String]`",
        )
    stream.unexpected("a literal", "")


def _list(stream: TokenStream) -> LiteralNode:
    opening = stream.advance()
    stream.enter()
    items: list[LiteralNode] = []
    while not stream.at_punct("]"):
        items.append(parse_literal(stream))
        if not stream.take_punct(","):
            break
    stream.leave()
    last = stream.expect_punct("]", "to close the list")
    values: tuple[LiteralValue, ...] = tuple(item.value for item in items)
    return LiteralNode(
        kind=LiteralKind.LIST, value=values, span=opening.span.to(last.span), items=tuple(items)
    )


def parse_temporal(stream: TokenStream, word: Token) -> LiteralNode:
    """Parse what follows `date` or `datetime`."""
    stream.expect_punct("(", f"after `{word.text}`")
    text = stream.expect(Kind.STRING, "a string", f"in `{word.text}(...)`")
    last = stream.expect_punct(")", f"to close `{word.text}(`")
    # The text is checked with the types: a bad date must not make the whole file unreadable.
    kind = LiteralKind.DATE if word.text == "date" else LiteralKind.DATETIME
    parse = parse_date if kind is LiteralKind.DATE else parse_datetime
    try:
        return LiteralNode(kind=kind, value=parse(text.text), span=word.span.to(last.span))
    except ValueError as error:
        return LiteralNode(kind=kind, value=None, span=text.span, problem=str(error))
