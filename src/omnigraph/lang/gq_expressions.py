"""Parses expressions of `.gq` text.

From loosest to tightest: `or`, `and`, `not`, comparison, `+ -`, `* / %`, unary minus,
primary. Comparisons do not chain. Clauses and projections follow each other without separators,
so an expression takes every operator it can.
"""

from __future__ import annotations

from omnigraph.catalog.model import LiteralValue
from omnigraph.catalog.temporal import parse_date, parse_datetime
from omnigraph.lang.gq_ast import (
    BinaryNode,
    CallNode,
    ExpressionNode,
    LiteralKind,
    LiteralNode,
    NullTestNode,
    PropertyNode,
    UnaryNode,
    VariableNode,
    WordNode,
)
from omnigraph.lang.lexer import Kind, Token, TokenStream, fail
from omnigraph.lang.source import Span, did_you_mean
from omnigraph.limits import EXPRESSION_DEPTH_MAX, I64_MAX

AGGREGATES = ("count", "sum", "avg", "min", "max")
TEXT_PREDICATES = ("search", "fuzzy", "match_text")
RANKINGS = ("nearest", "bm25", "rrf")
TEMPORAL = ("date", "datetime")
ARITY = {
    "now": (0, 0),
    "nearest": (2, 2),
    "bm25": (2, 2),
    "rrf": (2, 3),
    "search": (2, 2),
    "fuzzy": (2, 3),
    "match_text": (2, 2),
    **dict.fromkeys(AGGREGATES, (1, 1)),
}
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
WORD_OPERATORS = ("contains", "starts_with", "in")


def is_condition(node: ExpressionNode) -> bool:
    """Whether an expression is written as a condition, not as a value."""
    if isinstance(node, NullTestNode):
        return True
    if isinstance(node, BinaryNode):
        return node.op in (*COMPARISONS, *WORD_OPERATORS, "and", "or")
    if isinstance(node, UnaryNode):
        return node.op == "not"
    return isinstance(node, CallNode) and node.function in TEXT_PREDICATES


def parse_expression(stream: TokenStream) -> ExpressionNode:
    """Parse any expression, conditions included."""
    left = _and(stream)
    while stream.at_word("or"):
        word = stream.advance()
        left = _binary(stream, word, left, _and(stream))
    return left


def _and(stream: TokenStream) -> ExpressionNode:
    left = _not(stream)
    while stream.at_word("and"):
        word = stream.advance()
        left = _binary(stream, word, left, _not(stream))
    return left


def _not(stream: TokenStream) -> ExpressionNode:
    if not stream.at_word("not"):
        return _comparison(stream)
    word = stream.advance()
    if stream.at_punct("{"):
        hint = "`not { ... }` is a clause; in a condition write `not exists { ... }`"
        stream.unexpected("a condition", "after `not`", hint=hint)
    stream.enter()
    operand = _not(stream)
    stream.leave()
    return UnaryNode(op="not", operand=operand, span=word.span.to(_last(stream)))


def _last(stream: TokenStream) -> Span:
    return stream.peek(-1).span


def _comparison(stream: TokenStream) -> ExpressionNode:
    left = parse_value(stream)
    token = stream.current
    symbol = token.kind is Kind.PUNCT and token.text in COMPARISONS
    if symbol or (token.kind is Kind.IDENT and token.text in WORD_OPERATORS):
        stream.advance()
    elif stream.take_word("is"):
        negated = stream.take_word("not") is not None
        last = stream.expect_word("null", "after `is`")
        return NullTestNode(operand=left, negated=negated, span=left.span.to(last.span))
    else:
        return left
    right = parse_value(stream)
    following = stream.current
    if following.kind is Kind.PUNCT and following.text in COMPARISONS:
        stream.unexpected("the end of the comparison", "", hint="join comparisons with `and`")
    return _binary(stream, token, left, right)


def parse_value(stream: TokenStream) -> ExpressionNode:
    """Parse an expression without comparison or logic on its top level."""
    left = _product(stream)
    while stream.at_punct("+") or stream.at_punct("-"):
        op = stream.advance()
        left = _binary(stream, op, left, _product(stream))
    return left


def _product(stream: TokenStream) -> ExpressionNode:
    left = _unary(stream)
    while stream.at_punct("*") or stream.at_punct("/") or stream.at_punct("%"):
        op = stream.advance()
        left = _binary(stream, op, left, _unary(stream))
    return left


def _binary(
    stream: TokenStream, op: Token, left: ExpressionNode, right: ExpressionNode
) -> ExpressionNode:
    depth = max(_depth(left), _depth(right)) + (op.text not in ("and", "or"))
    if depth > EXPRESSION_DEPTH_MAX:
        fail(
            stream.source,
            op.span,
            f"expression has more than {EXPRESSION_DEPTH_MAX} chained operators",
        )
    return BinaryNode(
        op=op.text,
        left=left,
        right=right,
        span=left.span.to(right.span),
        depth=depth,
    )


def _depth(node: ExpressionNode) -> int:
    if isinstance(node, BinaryNode):
        return node.depth
    if isinstance(node, UnaryNode | NullTestNode):
        return _depth(node.operand)
    return max(map(_depth, node.arguments), default=0) if isinstance(node, CallNode) else 0


def _unary(stream: TokenStream) -> ExpressionNode:
    if not stream.at_punct("-"):
        return _primary(stream)
    minus = stream.advance()
    if stream.current.kind is Kind.INTEGER:
        return _negative_integer(stream, minus)
    stream.enter()
    operand = _unary(stream)
    stream.leave()
    span = minus.span.to(operand.span)
    if isinstance(operand, LiteralNode) and operand.kind in (
        LiteralKind.INTEGER,
        LiteralKind.FLOAT,
    ):
        value = operand.value
        if isinstance(value, int | float):
            return LiteralNode(kind=operand.kind, value=-value, span=span)
    return UnaryNode(op="-", operand=operand, span=span)


def _negative_integer(stream: TokenStream, minus: Token) -> LiteralNode:
    # Read with its sign: the least 64-bit integer has no positive counterpart.
    token = stream.advance()
    value = -stream.integer(token, limit=I64_MAX + 1)
    return LiteralNode(kind=LiteralKind.INTEGER, value=value, span=minus.span.to(token.span))


def _primary(stream: TokenStream) -> ExpressionNode:
    token = stream.current
    if token.kind is Kind.VARIABLE:
        return _variable(stream)
    if token.kind is Kind.IDENT:
        if token.text in ("true", "false", "null"):
            return parse_literal(stream)
        if stream.peek().kind is Kind.PUNCT and stream.peek().text == "(":
            return _call(stream)
        stream.advance()
        return WordNode(name=token.text, span=token.span)
    if stream.at_punct("("):
        return _parenthesised(stream, stream.advance())
    if stream.at_punct("[") or token.kind in (Kind.STRING, Kind.INTEGER, Kind.FLOAT):
        return parse_literal(stream)
    stream.unexpected("a value", "")


def _parenthesised(stream: TokenStream, opening: Token) -> ExpressionNode:
    stream.enter()
    node = parse_expression(stream)
    stream.expect_punct(")", f"to close the `(` at column {_column(stream, opening)}")
    stream.leave()
    return node


def _column(stream: TokenStream, token: Token) -> int:
    return stream.source.position(token.start)[1]


def _variable(stream: TokenStream) -> ExpressionNode:
    token = stream.advance()
    if stream.at_punct("."):
        stream.advance()
        name = stream.expect(Kind.IDENT, "a property name", f"after `${token.text}.`")
        return PropertyNode(
            variable=token.text,
            property=name.text,
            span=token.span.to(name.span),
            property_span=name.span,
        )
    if mark := stream.take_punct("?"):
        return VariableNode(name=token.text, span=token.span.to(mark.span), vanishing=True)
    return VariableNode(name=token.text, span=token.span)


def _call(stream: TokenStream) -> ExpressionNode:
    word = stream.advance()
    function = word.text
    if function in TEMPORAL:
        return _temporal(stream, word)
    if function not in ARITY:
        fail(
            stream.source,
            word.span,
            f"unknown function `{function}`",
            did_you_mean(function, (*ARITY, *TEMPORAL)),
        )
    stream.advance()
    stream.enter()
    distinct = star = False
    arguments: list[ExpressionNode] = []
    if function in AGGREGATES:
        distinct = stream.take_word("distinct") is not None
        star = not distinct and stream.take_punct("*") is not None
        if (distinct or star) and function != "count":
            fail(
                stream.source,
                _last(stream),
                f"`{'distinct' if distinct else '*'}` is only for `count`",
            )
    if not star and not stream.at_punct(")"):
        arguments.append(parse_value(stream))
        while stream.take_punct(","):
            arguments.append(parse_value(stream))
    stream.leave()
    last = stream.expect_punct(")", f"to close `{function}(`")
    span = word.span.to(last.span)
    least, most = ARITY[function]
    if not star and not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} or {most}"
        fail(
            stream.source,
            span,
            f"`{function}` takes {wanted} argument{'' if wanted == '1' else 's'}, "
            f"got {len(arguments)}",
        )
    return CallNode(
        function=function, arguments=tuple(arguments), span=span, distinct=distinct, star=star
    )


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
        return _temporal(stream, stream.advance())
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
            return _negative_integer(stream, minus)
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


def _temporal(stream: TokenStream, word: Token) -> LiteralNode:
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
