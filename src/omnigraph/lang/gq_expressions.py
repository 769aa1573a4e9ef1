"""Parses expressions of `.gq` text, and the patterns that stand in them.

From loosest to tightest: `or`, `and`, `not`, comparison, `+ -`, `* / %`, unary minus,
primary. Comparisons do not chain. Clauses and projections follow each other without separators,
so an expression takes every operator it can.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.lang.gq_ast import (
    BinaryNode,
    BindingNode,
    BlockNode,
    CallNode,
    ClauseNode,
    EdgeWord,
    ExpressionNode,
    FilterNode,
    LiteralKind,
    LiteralNode,
    MatchNode,
    NullTestNode,
    PropertyNode,
    SubqueryNode,
    TraversalNode,
    UnaryNode,
    VariableNode,
    WordNode,
)
from omnigraph.lang.gq_literals import TEMPORAL, negative_integer, parse_literal, parse_temporal
from omnigraph.lang.lexer import Kind, Token, TokenStream, fail
from omnigraph.lang.source import Span, did_you_mean
from omnigraph.limits import EXPRESSION_DEPTH_MAX

AGGREGATES = ("count", "sum", "avg", "min", "max")
TEXT_PREDICATES = ("search", "fuzzy", "match_text")
RANKINGS = ("nearest", "bm25", "rrf")
ARITY = {
    "now": (0, 0),
    "nearest": (2, 3),
    "bm25": (2, 2),
    "rrf": (2, 3),
    "search": (2, 2),
    "fuzzy": (2, 3),
    "match_text": (2, 2),
    "object": (1, 1),
    "type": (1, 1),
    "length": (1, 1),
    "nodes": (1, 1),
    **dict.fromkeys(AGGREGATES, (1, 1)),
}
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
WORD_OPERATORS = ("contains", "starts_with", "in")
NO_EDGES = ("not", "and", "or")
"""Words that join conditions, and so never name the edge of a traversal."""
BLOCKS = ("optional", "exists", "count")
"""Words that open a block after a condition, unless hop bounds follow."""


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
    while _at_operator(stream, "or"):
        word = stream.advance()
        left = _binary(stream, word, left, _and(stream))
    return left


def _and(stream: TokenStream) -> ExpressionNode:
    left = _not(stream)
    while _at_operator(stream, "and"):
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


def _at_operator(stream: TokenStream, *words: str) -> bool:
    """Whether a word continues an expression: not where it is a property that gets a value."""
    token, following = stream.current, stream.peek()
    assigned = following.kind is Kind.PUNCT and following.text == ":"
    return token.kind is Kind.IDENT and token.text in words and not assigned


def _last(stream: TokenStream) -> Span:
    return stream.peek(-1).span


def _comparison(stream: TokenStream) -> ExpressionNode:
    left = parse_value(stream)
    token = stream.current
    symbol = token.kind is Kind.PUNCT and token.text in COMPARISONS
    if symbol or _at_operator(stream, *WORD_OPERATORS):
        stream.advance()
    elif _at_operator(stream, "is"):
        stream.advance()
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
        return negative_integer(stream, minus)
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


def _primary(stream: TokenStream) -> ExpressionNode:
    token = stream.current
    if token.kind is Kind.VARIABLE:
        return _variable(stream)
    if token.kind is Kind.TYPE_NAME and stream.functions is not None:
        stream.advance()
        return WordNode(name=token.text, span=token.span)
    if token.kind is Kind.IDENT:
        if token.text in ("true", "false", "null"):
            return parse_literal(stream)
        following = stream.peek().text if stream.peek().kind is Kind.PUNCT else ""
        if following == "(":
            return _call(stream)
        if following == "{" and token.text in ("exists", "count"):
            return _subquery(stream, stream.advance(), None)
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
    if stream.functions is not None:
        return _column_call(stream, word, stream.functions)
    if function in TEMPORAL:
        return parse_temporal(stream, word)
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
    if not star:
        _check_arity(stream, function, ARITY[function], len(arguments), span)
    call = CallNode(
        function=function, arguments=tuple(arguments), span=span, distinct=distinct, star=star
    )
    if function in AGGREGATES and stream.at_punct("{"):
        return _subquery(stream, word, call)
    return call


def _check_arity(
    stream: TokenStream, function: str, arity: tuple[int, int], given: int, span: Span
) -> None:
    least, most = arity
    if least <= given <= most:
        return
    wanted = str(least) if least == most else f"{least} to {most}"
    if most == least + 1:
        wanted = f"{least} or {most}"
    noun = "argument" if wanted == "1" else "arguments"
    fail(stream.source, span, f"`{function}` takes {wanted} {noun}, got {given}")


def _column_call(
    stream: TokenStream, word: Token, functions: Mapping[str, tuple[int, int]]
) -> ExpressionNode:
    """Parse a call of a function of columns; its arguments are any expressions."""
    if word.text not in functions:
        hint = did_you_mean(word.text, tuple(functions))
        fail(stream.source, word.span, f"unknown function `{word.text}`", hint)
    stream.advance()
    stream.enter()
    arguments: list[ExpressionNode] = []
    if not stream.at_punct(")"):
        arguments.append(parse_expression(stream))
        while stream.take_punct(","):
            arguments.append(parse_expression(stream))
    stream.leave()
    last = stream.expect_punct(")", f"to close `{word.text}(`")
    span = word.span.to(last.span)
    _check_arity(stream, word.text, functions[word.text], len(arguments), span)
    return CallNode(function=word.text, arguments=tuple(arguments), span=span)


def _subquery(stream: TokenStream, word: Token, call: CallNode | None) -> SubqueryNode:
    clauses = parse_clauses(stream, word.text)
    span = word.span.to(_last(stream))
    return SubqueryNode(function=word.text, call=call, clauses=clauses, span=span)


# ---- clauses ------------------------------------------------------------------------------


def parse_clauses(stream: TokenStream, context: str) -> tuple[ClauseNode, ...]:
    """Parse the clauses of a block, braces included."""
    stream.expect_punct("{", f"after `{context}`")
    stream.enter()
    if stream.at_punct("}"):
        stream.unexpected("a clause", f"in `{context} {{ ... }}`")
    clauses = [_clause(stream)]
    while not stream.at_punct("}"):
        if stream.current.kind is Kind.END:
            stream.unexpected("`}`", f"to close `{context}`")
        clauses.append(_clause(stream))
    stream.advance()
    stream.leave()
    return tuple(clauses)


def _clause(stream: TokenStream) -> ClauseNode:
    token, following = stream.current, stream.peek()
    if token.kind is Kind.IDENT and token.text in ("not", "optional") and following.text == "{":
        stream.advance()
        clauses = parse_clauses(stream, token.text)
        span = token.span.to(stream.peek(-1).span)
        return BlockNode(optional=token.text == "optional", clauses=clauses, span=span)
    if token.kind is Kind.VARIABLE:
        if following.kind is Kind.PUNCT and following.text == ":":
            return _binding(stream)
        if _at_traversal(stream):
            return _traversal(stream)
    if stream.at_punct(","):
        stream.unexpected("a clause", "", hint="clauses are not separated by commas")
    condition = parse_expression(stream)
    return FilterNode(condition=condition, span=condition.span)


def _at_traversal(stream: TokenStream) -> bool:
    """Whether a variable starts a traversal: an edge leads from it to another variable."""
    first, second = stream.peek(), stream.peek(2)
    if first.kind is Kind.VARIABLE:
        return second.text == ":"
    if first.kind is Kind.PUNCT and second.kind is Kind.IDENT:
        # No expression has a bare word between these.
        return (first.text, stream.peek(3).text) in (("<", ">"), ("<", "|"), ("(", "|"))
    if first.kind is Kind.PUNCT and first.text == "->":
        return True
    if first.kind is not Kind.IDENT or first.text in NO_EDGES:
        return False
    if second.kind is Kind.VARIABLE:
        return True
    opens = second.kind is Kind.PUNCT and second.text == "{"
    return opens and (first.text not in BLOCKS or stream.peek(3).kind is Kind.INTEGER)


def _binding(stream: TokenStream) -> BindingNode:
    variable = stream.advance()
    stream.advance()
    type_name = stream.expect(Kind.TYPE_NAME, "a node type", f"after `${variable.text}:`")
    matches: list[MatchNode] = []
    last: Token = type_name
    if stream.take_punct("{"):
        if stream.at_punct("}"):
            hint = f"without conditions write `${variable.text}: {type_name.text}`"
            stream.unexpected("a condition", "in the braces", hint=hint)
        while not stream.at_punct("}"):
            name = stream.expect(Kind.IDENT, "a property name", "in the braces")
            stream.expect_punct(":", f"after `{name.text}`")
            value = parse_value(stream)
            matches.append(MatchNode(property=name.text, property_span=name.span, value=value))
            if not stream.take_punct(","):
                break
        last = stream.expect_punct("}", "to close the braces")
    return BindingNode(
        variable=variable.text,
        variable_span=variable.span,
        type_name=type_name.text,
        type_span=type_name.span,
        matches=tuple(matches),
        span=variable.span.to(last.span),
    )


def _traversal(stream: TokenStream) -> TraversalNode:
    left = stream.advance()
    edge_variable: Token | None = None
    if stream.current.kind is Kind.VARIABLE:
        edge_variable = stream.advance()
        stream.expect_punct(":", f"after `${edge_variable.text}`")
    undirected = stream.at_punct("<")
    words, edge_span = _edge_words(stream)
    hops: tuple[int, int | None] | None = None
    hops_span: Span | None = None
    if opening := stream.take_punct("{"):
        low = stream.integer(stream.expect(Kind.INTEGER, "the least number of hops", "after `{`"))
        stream.expect_punct(",", "between the hop bounds")
        high: int | None = None
        if stream.current.kind is Kind.INTEGER:
            high = stream.integer(stream.advance())
        closing = stream.expect_punct("}", "to close the hop bounds")
        hops, hops_span = (low, high), opening.span.to(closing.span)
    last = words[-1].text if words else "->"
    right = stream.expect(Kind.VARIABLE, "a variable", f"after `{last}`")
    if last == "in" and stream.at_punct("."):
        hint = f"to test membership write `(${left.text}) in ${right.text}.property`"
        stream.unexpected("a clause", "after the traversal", hint=hint)
    return TraversalNode(
        left=left.text,
        left_span=left.span,
        right=right.text,
        right_span=right.span,
        edge_words=words,
        edge_span=edge_span,
        undirected=undirected,
        edge_variable=None if edge_variable is None else edge_variable.text,
        edge_variable_span=None if edge_variable is None else edge_variable.span,
        hops=hops,
        hops_span=hops_span,
        span=left.span.to(right.span),
    )


def _edge_words(stream: TokenStream) -> tuple[tuple[EdgeWord, ...], Span]:
    """Parse what a traversal follows: `word`, `<word>`, `(one|two)`, `<one|two>`, or `->`."""
    if arrow := stream.take_punct("->"):
        return (), arrow.span
    opening = stream.take_punct("<") or stream.take_punct("(")
    words = [_edge_word(stream)]
    while opening is not None and stream.take_punct("|"):
        words.append(_edge_word(stream))
    if opening is not None:
        closing = ">" if opening.text == "<" else ")"
        stream.expect_punct(closing, f"after `{opening.text}{'|'.join(w.text for w in words)}`")
    return tuple(words), words[0].span.to(words[-1].span)


def _edge_word(stream: TokenStream) -> EdgeWord:
    word = stream.expect(Kind.IDENT, "an edge", "in the traversal")
    if word.text in NO_EDGES:
        fail(stream.source, word.span, f"`{word.text}` cannot be an edge")
    return EdgeWord(text=word.text, span=word.span)
