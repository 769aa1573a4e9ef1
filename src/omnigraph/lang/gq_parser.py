"""Recursive-descent parser of `.gq` text.

A syntax error ends its query, not the file: the parser goes on at the next `query`, so one run
reports a problem in each.
"""

from __future__ import annotations

from omnigraph.catalog import PropertyType, Scalar
from omnigraph.errors import CompileError
from omnigraph.lang.gq_ast import (
    AllPropertiesNode,
    AssignmentNode,
    CallNode,
    ExpressionNode,
    OrderNode,
    ParameterNode,
    ProjectionNode,
    QueryNode,
    ReadNode,
    StatementNode,
    VariableNode,
)
from omnigraph.lang.gq_expressions import parse_clauses, parse_expression
from omnigraph.lang.gq_literals import parse_literal
from omnigraph.lang.lexer import Kind, Token, TokenStream, fail
from omnigraph.lang.pg_parser import SCALAR_NAMES
from omnigraph.lang.source import Diagnostics, SourceText
from omnigraph.limits import VECTOR_DIM_MAX

STAR = (".", "*")
VERBS = ("insert", "upsert", "update", "delete")


def parse_queries(source: SourceText, diagnostics: Diagnostics) -> tuple[QueryNode, ...]:
    """Parse a file; syntax errors go to `diagnostics`, what could be read is returned."""
    queries: list[QueryNode] = []
    try:
        stream = TokenStream(source)
    except CompileError as error:
        diagnostics.extend(error.diagnostics)
        return ()
    while stream.current.kind is not Kind.END and not diagnostics.is_full():
        start = stream.index
        try:
            queries.append(_query(stream))
        except CompileError as error:
            diagnostics.extend(error.diagnostics)
            stream.depth = 0
            stream.index = max(stream.index, start + 1)
            _skip_to_query(stream)
    return tuple(queries)


def _skip_to_query(stream: TokenStream) -> None:
    while stream.current.kind is not Kind.END:
        if (
            stream.at_word("query")
            and stream.peek().kind in (Kind.IDENT, Kind.TYPE_NAME)
            and stream.peek(2).text == "("
        ):
            return
        stream.advance()


def _query(stream: TokenStream) -> QueryNode:
    if not stream.at_word("query"):
        stream.unexpected("`query`", "", words=("query",))
    first = stream.advance()
    name = stream.expect(Kind.IDENT, "a query name", "after `query`")
    stream.expect_punct("(", f"after `query {name.text}`")
    parameters: list[ParameterNode] = []
    if not stream.at_punct(")"):
        parameters.append(_parameter(stream))
        while stream.take_punct(","):
            parameters.append(_parameter(stream))
    stream.expect_punct(")", "to close the parameters")
    notes = _annotations(stream)
    stream.expect_punct("{", f"to open query `{name.text}`")
    read: ReadNode | None = None
    statements: tuple[StatementNode, ...] = ()
    if stream.at_word("match"):
        read = _read(stream)
    elif stream.current.kind is Kind.IDENT and stream.current.text in VERBS:
        statements = _statements(stream)
    else:
        stream.unexpected(
            "`match` or `insert`, `upsert`, `update`, `delete`",
            f"in query `{name.text}`",
            words=("match", *VERBS),
        )
    last = stream.expect_punct("}", f"to close query `{name.text}`")
    return QueryNode(
        name=name.text,
        name_span=name.span,
        parameters=tuple(parameters),
        description=notes.get("description"),
        instruction=notes.get("instruction"),
        read=read,
        statements=statements,
        span=first.span.to(last.span),
    )


def _annotations(stream: TokenStream) -> dict[str, str]:
    texts: dict[str, str] = {}
    while at := stream.take_punct("@"):
        word = stream.expect(Kind.IDENT, "an annotation name", "after `@`")
        span = at.span.to(word.span)
        if word.text not in ("description", "instruction"):
            hint = "a query takes @description and @instruction"
            fail(stream.source, span, f"unknown query annotation `@{word.text}`", hint)
        if word.text in texts:
            fail(stream.source, span, f"`@{word.text}` is given twice")
        stream.expect_punct("(", f"after `@{word.text}`")
        text = stream.expect(Kind.STRING, "a string", f"in `@{word.text}(...)`")
        stream.expect_punct(")", f"to close `@{word.text}`")
        texts[word.text] = text.text
    return texts


def _parameter(stream: TokenStream) -> ParameterNode:
    name = stream.expect(Kind.VARIABLE, "a parameter such as `$name: String`", "")
    stream.expect_punct(":", f"after `${name.text}`")
    context = f"for parameter `${name.text}`"
    if stream.take_punct("["):
        scalar = _scalar(stream, "as list element")
        stream.expect_punct("]", "to close the list type")
        parameter_type = PropertyType(scalar=scalar, is_list=True)
    elif stream.current.kind is Kind.TYPE_NAME and stream.current.text == "Vector":
        stream.advance()
        stream.expect_punct("(", "after `Vector`")
        size = stream.expect(Kind.INTEGER, "the number of dimensions", "in `Vector(...)`")
        stream.expect_punct(")", "to close `Vector`")
        dim = stream.integer(size)
        if not 1 <= dim <= VECTOR_DIM_MAX:
            fail(stream.source, size.span, f"Vector dimension {dim} is out of range")
        parameter_type = PropertyType(scalar=Scalar.VECTOR, vector_dim=dim)
    else:
        parameter_type = PropertyType(scalar=_scalar(stream, context))
    parameter_type = parameter_type.as_nullable(nullable=bool(stream.take_punct("?")))
    return ParameterNode(name=name.text, type=parameter_type, span=name.span)


def _scalar(stream: TokenStream, context: str) -> Scalar:
    token = stream.current
    if token.kind is Kind.TYPE_NAME and token.text in SCALAR_NAMES:
        stream.advance()
        return Scalar(token.text)
    if stream.at_word("enum"):
        stream.unexpected("a parameter type", context, hint="use String for enum values")
    stream.unexpected("a parameter type", context, words=(*SCALAR_NAMES, "Vector"))


def _read(stream: TokenStream) -> ReadNode:
    stream.advance()
    clauses = parse_clauses(stream, "match")
    stream.expect_word("return", "after the `match` block")
    distinct = stream.take_word("distinct") is not None
    stream.expect_punct("{", "after `return`")
    projections = [_projection(stream)]
    while not stream.at_punct("}"):
        projections.append(_projection(stream))
    stream.advance()
    order: list[OrderNode] = []
    if stream.take_word("order"):
        stream.expect_punct("{", "after `order`")
        order.append(_order(stream))
        while stream.take_punct(","):
            order.append(_order(stream))
        stream.expect_punct(
            "}",
            "to close `order`",
        )
    cuts: dict[str, ExpressionNode] = {}
    while stream.at_word("limit") or stream.at_word("offset"):
        word = stream.advance()
        if word.text in cuts:
            fail(stream.source, word.span, f"`{word.text}` is given twice")
        cuts[word.text] = _cut(stream, word)
    return ReadNode(
        clauses=clauses,
        projections=tuple(projections),
        distinct=distinct,
        order=tuple(order),
        limit=cuts.get("limit"),
        offset=cuts.get("offset"),
    )


def _cut(stream: TokenStream, word: Token) -> ExpressionNode:
    token = stream.current
    if token.kind is Kind.VARIABLE:
        stream.advance()
        return VariableNode(name=token.text, span=token.span)
    if token.kind is Kind.INTEGER:
        return parse_literal(stream)
    stream.unexpected("a number or a parameter", f"after `{word.text}`")


def _projection(stream: TokenStream) -> ProjectionNode | AllPropertiesNode:
    if stream.at_punct("}"):
        stream.unexpected("an expression", "in `return { ... }`")
    if stream.current.kind is Kind.VARIABLE and (stream.peek().text, stream.peek(2).text) == STAR:
        return _all_properties(stream)
    expression = parse_expression(stream)
    alias: str | None = None
    span = expression.span
    if stream.take_word("as"):
        token = stream.expect(Kind.IDENT, "a column name", "after `as`")
        alias, span = token.text, span.to(token.span)
    stream.take_punct(",")
    return ProjectionNode(expression=expression, alias=alias, span=span)


def _all_properties(stream: TokenStream) -> AllPropertiesNode:
    variable = stream.advance()
    stream.advance()
    star = stream.advance()
    if stream.at_word("as"):
        hint = "its columns are named after the properties; list them to name them yourself"
        stream.unexpected("a column", f"after `${variable.text}.*`", hint=hint)
    stream.take_punct(",")
    return AllPropertiesNode(variable=variable.text, span=variable.span.to(star.span))


def _order(stream: TokenStream) -> OrderNode:
    expression = parse_expression(stream)
    direction: str | None = None
    span = expression.span
    if stream.at_word("asc") or stream.at_word("desc"):
        word = stream.advance()
        if isinstance(expression, CallNode) and expression.function == "nearest":
            fail(
                stream.source,
                word.span,
                f"`nearest` takes no `{word.text}`",
                "it always ranks the nearest first",
            )
        direction, span = word.text, span.to(word.span)
    return OrderNode(expression=expression, direction=direction, span=span)


def _statements(stream: TokenStream) -> tuple[StatementNode, ...]:
    statements: list[StatementNode] = []
    while stream.current.kind is Kind.IDENT and stream.current.text in VERBS:
        statements.append(_statement(stream))
    if not stream.at_punct("}"):
        stream.unexpected("a statement or `}`", "", words=VERBS)
    return tuple(statements)


def _statement(stream: TokenStream) -> StatementNode:
    verb = stream.advance()
    must_be_new = verb.text == "insert" and stream.take_word("new") is not None
    type_name = stream.expect(Kind.TYPE_NAME, "a type name", f"after `{verb.text}`")
    assignments: tuple[AssignmentNode, ...] = ()
    predicate: ExpressionNode | None = None
    if verb.text == "update":
        stream.expect_word("set", f"after `update {type_name.text}`")
    if verb.text != "delete":
        assignments = _assignments(stream, verb.text)
    if verb.text in ("update", "delete"):
        stream.expect_word("where", f"in `{verb.text} {type_name.text}`")
        predicate = parse_expression(stream)
    return StatementNode(
        verb=verb.text,
        must_be_new=must_be_new,
        type_name=type_name.text,
        type_span=type_name.span,
        assignments=assignments,
        predicate=predicate,
        span=verb.span.to(stream.peek(-1).span),
    )


def _assignments(stream: TokenStream, verb: str) -> tuple[AssignmentNode, ...]:
    stream.expect_punct("{", f"in `{verb}`")
    assignments: list[AssignmentNode] = []
    while not assignments or not stream.at_punct("}"):
        name = stream.expect(Kind.IDENT, "a property name", f"in `{verb} {{ ... }}`")
        stream.expect_punct(":", f"after `{name.text}`")
        value = parse_expression(stream)
        assignments.append(AssignmentNode(property=name.text, property_span=name.span, value=value))
        stream.take_punct(",")
    stream.advance()
    return tuple(assignments)
