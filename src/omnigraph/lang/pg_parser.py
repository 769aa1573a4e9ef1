"""Recursive-descent parser of `.pg` text.

A syntax error ends its declaration, not the file: the parser goes on at the next `node`, `edge` or
`interface`, so one run reports a problem in each, up to the maximum of diagnostics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from omnigraph.catalog import PropertyType, Scalar, TypeKind
from omnigraph.errors import CompileError
from omnigraph.lang.lexer import Kind, Token, TokenStream, fail, quote
from omnigraph.lang.pg_ast import (
    AnnotationSyntax,
    Argument,
    Bounds,
    ConstraintSyntax,
    DeclarationSyntax,
    Name,
    PropertySyntax,
    SchemaSyntax,
    Value,
    Word,
)
from omnigraph.lang.source import Diagnostics, SourceText
from omnigraph.limits import U64_MAX, VECTOR_DIM_MAX

CONSTRAINT_NAMES = ("key", "unique", "index", "range", "check")
DECLARATION_WORDS = ("node", "edge", "interface")
SCALAR_NAMES = tuple(str(item) for item in Scalar if item not in (Scalar.VECTOR, Scalar.OBJECT))
TYPE_WORDS = (*SCALAR_NAMES, "Vector", "enum")
_ENUM_VALUE = re.compile(r"[A-Za-z0-9_-]+")


def parse_schema(source: SourceText, diagnostics: Diagnostics) -> SchemaSyntax:
    """Parse a file; syntax errors go to `diagnostics`, what could be read is returned."""
    try:
        stream = TokenStream(source)
    except CompileError as error:
        diagnostics.extend(error.diagnostics)
        return SchemaSyntax(declarations=())
    declarations: list[DeclarationSyntax] = []
    while stream.current.kind is not Kind.END and not diagnostics.is_full():
        start = stream.index
        try:
            declarations.append(_declaration(stream))
        except CompileError as error:
            diagnostics.extend(error.diagnostics)
            stream.depth = 0
            stream.index = max(stream.index, start + 1)
            _skip_to_declaration(stream)
    return SchemaSyntax(declarations=tuple(declarations))


def _skip_to_declaration(stream: TokenStream) -> None:
    while stream.current.kind is not Kind.END:
        token = stream.current
        starts = token.kind is Kind.IDENT and token.text in DECLARATION_WORDS
        if starts and stream.peek().kind is Kind.TYPE_NAME:
            return
        stream.advance()


def _name(token: Token) -> Name:
    return Name(text=token.text, span=token.span)


def _type_name(stream: TokenStream, context: str) -> Name:
    token = stream.current
    if token.kind is Kind.IDENT:
        fail(
            stream.source,
            token.span,
            f"expected a type name {context}, found `{token.text}`",
            f"type names start with an upper-case letter: `{token.text[:1].upper()}"
            f"{token.text[1:]}`",
        )
    return _name(stream.expect(Kind.TYPE_NAME, "a type name", context))


def _declaration(stream: TokenStream) -> DeclarationSyntax:
    token = stream.current
    if token.kind is Kind.IDENT and token.text in DECLARATION_WORDS:
        stream.advance()
        if token.text == "interface":
            return _interface(stream, token)
        return _node(stream, token) if token.text == "node" else _edge(stream, token)
    stream.unexpected("`node`, `edge` or `interface`", "", words=DECLARATION_WORDS)


def _interface(stream: TokenStream, first: Token) -> DeclarationSyntax:
    name = _type_name(stream, "after `interface`")
    stream.expect_punct("{", f"after `interface {name.text}`")
    members, last = _body(stream, f"interface {name.text}")
    constraint = next((m for m in members if isinstance(m, ConstraintSyntax)), None)
    if constraint is not None:
        fail(
            stream.source,
            constraint.span,
            "an interface cannot have body constraints",
            "put the constraint into the node types, or annotate the property",
        )
    properties = tuple(m for m in members if isinstance(m, PropertySyntax))
    return DeclarationSyntax(
        kind=TypeKind.INTERFACE,
        name=name,
        properties=properties,
        members=members,
        span=first.span.to(last.span),
    )


def _node(stream: TokenStream, first: Token) -> DeclarationSyntax:
    name = _type_name(stream, "after `node`")
    annotations: list[AnnotationSyntax] = []
    implements: list[Name] = []
    while not stream.at_punct("{"):
        if stream.at_punct("@"):
            annotations.append(_annotation(stream))
        elif stream.take_word("implements"):
            implements.append(_type_name(stream, "after `implements`"))
            while stream.take_punct(","):
                implements.append(_type_name(stream, "after `,`"))
        else:
            stream.unexpected("`{`", f"after `node {name.text}`", words=("implements",))
    stream.advance()
    members, last = _body(stream, f"node {name.text}")
    return DeclarationSyntax(
        kind=TypeKind.NODE,
        name=name,
        annotations=tuple(annotations),
        implements=tuple(implements),
        properties=tuple(m for m in members if isinstance(m, PropertySyntax)),
        constraints=tuple(m for m in members if isinstance(m, ConstraintSyntax)),
        members=members,
        span=first.span.to(last.span),
    )


def _edge(stream: TokenStream, first: Token) -> DeclarationSyntax:
    name = _type_name(stream, "after `edge`")
    stream.expect_punct(":", f"after `edge {name.text}`")
    source = _type_name(stream, "as the source of the edge")
    stream.expect_punct("->", f"after `{source.text}`")
    target = _type_name(stream, "as the target of the edge")
    annotations: list[AnnotationSyntax] = []
    cardinality: Bounds | None = None
    last = target.span
    while stream.at_punct("@"):
        if stream.peek().text == "card" and stream.peek().kind is Kind.IDENT:
            if cardinality is not None:
                stream.unexpected("one `@card`", "on an edge")
            cardinality = _cardinality(stream)
            last = cardinality.span
        else:
            annotations.append(_annotation(stream))
            last = annotations[-1].span
    members: tuple[PropertySyntax | ConstraintSyntax, ...] = ()
    if stream.take_punct("{"):
        members, closing = _body(stream, f"edge {name.text}")
        last = closing.span
    return DeclarationSyntax(
        kind=TypeKind.EDGE,
        name=name,
        annotations=tuple(annotations),
        source=source,
        target=target,
        cardinality=cardinality,
        properties=tuple(m for m in members if isinstance(m, PropertySyntax)),
        constraints=tuple(m for m in members if isinstance(m, ConstraintSyntax)),
        members=members,
        span=first.span.to(last),
    )


def _cardinality(stream: TokenStream) -> Bounds:
    start = stream.advance()
    stream.advance()
    stream.expect_punct("(", "after `@card`")
    low = stream.integer(stream.expect(Kind.INTEGER, "a number", "in `@card`"))
    stream.expect_punct("..", "in `@card`")
    high: int | None = None
    if stream.current.kind is Kind.INTEGER:
        high = stream.integer(stream.advance())
    elif stream.at_punct("*"):
        fail(
            stream.source,
            stream.current.span,
            "`*` is not an upper bound",
            f"leave it open: `@card({low}..)`",
        )
    last = stream.expect_punct(")", "to close `@card`")
    return Bounds(low=low, high=high, span=start.span.to(last.span))


def _body(
    stream: TokenStream, context: str
) -> tuple[tuple[PropertySyntax | ConstraintSyntax, ...], Token]:
    members: list[PropertySyntax | ConstraintSyntax] = []
    while True:
        if closing := stream.take_punct("}"):
            return tuple(members), closing
        if stream.at_punct("@"):
            members.append(_constraint(stream))
        elif stream.current.kind is Kind.IDENT:
            members.append(_property(stream))
        elif stream.current.kind is Kind.TYPE_NAME and stream.peek().text == ":":
            token = stream.current
            lowered = token.text[:1].lower() + token.text[1:]
            fail(
                stream.source,
                token.span,
                f"property name `{token.text}` starts with an upper-case letter",
                f"write `{lowered}`",
            )
        else:
            stream.unexpected("a property, a constraint or `}`", f"in {context}")
        stream.take_punct(",")


def _constraint(stream: TokenStream) -> ConstraintSyntax:
    start = stream.advance()
    token = stream.expect(Kind.IDENT, "a constraint name", "after `@`")
    if token.text not in CONSTRAINT_NAMES:
        fail(
            stream.source,
            start.span.to(token.span),
            f"`@{token.text}` cannot stand alone in a body",
            "an annotation follows the property it belongs to; constraints are "
            + ", ".join(f"@{name}(...)" for name in CONSTRAINT_NAMES),
        )
    stream.expect_punct("(", f"after `@{token.text}`")
    arguments: list[Argument | Bounds] = [_constraint_argument(stream)]
    while stream.take_punct(","):
        arguments.append(_constraint_argument(stream))
    last = stream.expect_punct(")", f"to close `@{token.text}`")
    return ConstraintSyntax(
        name=_name(token), arguments=tuple(arguments), span=start.span.to(last.span)
    )


def _constraint_argument(stream: TokenStream) -> Argument | Bounds:
    start, first = stream.current, stream.index
    low: int | float | None = None
    if stream.current.kind in (Kind.INTEGER, Kind.FLOAT) or stream.at_punct("-"):
        low = _number(stream)
        if not stream.at_punct(".."):
            return _as_argument(stream, first, low)
    if dots := stream.take_punct(".."):
        high: int | float | None = None
        if stream.current.kind in (Kind.INTEGER, Kind.FLOAT) or stream.at_punct("-"):
            high = _number(stream)
        elif low is None:
            stream.unexpected("a number", "after `..`")
        last = stream.peek(-1) if high is not None else dots
        return Bounds(low=low, high=high, span=start.span.to(last.span))
    return _argument(stream)


def _number(stream: TokenStream) -> int | float:
    sign = -1 if stream.take_punct("-") else 1
    token = stream.current
    if token.kind is Kind.INTEGER:
        return sign * stream.integer(stream.advance(), limit=U64_MAX)
    if token.kind is Kind.FLOAT:
        return sign * stream.decimal(stream.advance())
    stream.unexpected("a number", "after `-`")


def _property(stream: TokenStream) -> PropertySyntax:
    name = stream.advance()
    stream.expect_punct(":", f"after property name `{name.text}`")
    start = stream.current
    declared, order = _type(stream, name.text)
    type_span = start.span.to(stream.peek(-1).span)
    annotations: list[AnnotationSyntax] = []
    while stream.at_punct("@") and not _at_constraint(stream):
        annotations.append(_annotation(stream))
    return PropertySyntax(
        name=_name(name),
        type=declared,
        type_span=type_span,
        annotations=tuple(annotations),
        enum_order=order,
    )


def _at_constraint(stream: TokenStream) -> bool:
    return stream.peek().text in CONSTRAINT_NAMES and stream.peek(2).text == "("


def _type(stream: TokenStream, owner: str) -> tuple[PropertyType, tuple[str, ...]]:
    context = f"for property `{owner}`"
    order: tuple[str, ...] = ()
    if stream.take_punct("["):
        scalar = _list_element(stream)
        stream.expect_punct("]", "to close the list type")
        property_type = PropertyType(scalar=scalar, is_list=True)
    elif stream.at_word("enum"):
        property_type, order = _enum(stream)
    elif stream.current.kind is Kind.TYPE_NAME and stream.current.text == "Vector":
        stream.advance()
        stream.expect_punct("(", "after `Vector`")
        size = stream.expect(Kind.INTEGER, "the number of dimensions", "in `Vector(...)`")
        stream.expect_punct(")", "to close `Vector`")
        property_type = PropertyType(scalar=Scalar.VECTOR, vector_dim=_dimension(stream, size))
    else:
        property_type = PropertyType(scalar=_scalar(stream, context))
    return property_type.as_nullable(nullable=bool(stream.take_punct("?"))), order


def _dimension(stream: TokenStream, size: Token) -> int:
    dim = stream.integer(size)
    if not 1 <= dim <= VECTOR_DIM_MAX:
        fail(
            stream.source,
            size.span,
            f"Vector dimension {dim} is out of range",
            f"it must lie between 1 and {VECTOR_DIM_MAX}",
        )
    return dim


def _enum(stream: TokenStream) -> tuple[PropertyType, tuple[str, ...]]:
    stream.advance()
    stream.expect_punct("(", "after `enum`")
    values: list[str] = []
    while True:
        token = stream.scan(_ENUM_VALUE, "an enum value", "in `enum(...)`")
        if token.text in values:
            fail(stream.source, token.span, f"duplicate enum value `{token.text}`")
        values.append(token.text)
        if not stream.take_punct(","):
            break
    stream.expect_punct(")", "to close `enum`")
    return PropertyType(scalar=Scalar.STRING, enum_values=tuple(sorted(values))), tuple(values)


def _list_element(stream: TokenStream) -> Scalar:
    compound = stream.current.text.lower() in ("[", "enum", "vector")
    hint = "lists hold scalars such as String or I64" if compound else None
    return _scalar(stream, "as list element", hint=hint, words=SCALAR_NAMES)


def _scalar(
    stream: TokenStream,
    context: str,
    *,
    hint: str | None = None,
    words: tuple[str, ...] = TYPE_WORDS,
) -> Scalar:
    token = stream.current
    if token.kind is Kind.TYPE_NAME and token.text in SCALAR_NAMES:
        stream.advance()
        return Scalar(token.text)
    stream.unexpected("a type", context, hint=hint, words=words)


def _annotation(stream: TokenStream) -> AnnotationSyntax:
    start = stream.expect_punct("@", "before an annotation")
    name = stream.expect(Kind.IDENT, "an annotation name", "after `@`")
    argument: Argument | None = None
    keywords: list[tuple[Name, Argument]] = []
    last = name
    if stream.take_punct("("):
        argument = _argument(stream)
        while stream.take_punct(","):
            key = stream.expect(Kind.IDENT, "a keyword argument", f"in `@{name.text}`")
            stream.expect_punct("=", f"after `{key.text}`")
            keywords.append((_name(key), _argument(stream)))
        last = stream.expect_punct(")", f"to close `@{name.text}`")
    return AnnotationSyntax(
        name=_name(name),
        argument=argument,
        keywords=tuple(keywords),
        span=start.span.to(last.span),
    )


def _argument(stream: TokenStream) -> Argument:
    first = stream.index
    return _as_argument(stream, first, _value(stream))


def _as_argument(stream: TokenStream, first: int, value: Value) -> Argument:
    tokens = stream.tokens[first : stream.index]
    text = value if isinstance(value, str) else spell(tokens)
    return Argument(value=value, text=text, span=tokens[0].span.to(tokens[-1].span))


def spell(tokens: Iterable[Token]) -> str:
    """Return a literal or word in canonical spelling: `"text"`, `-5`, `[1, 2]`."""
    words: list[str] = []
    for token in tokens:
        if token.kind is Kind.STRING:
            words.append(quote(token.text))
        elif token.kind is Kind.PUNCT and token.text == ",":
            words.append(", ")
        elif token.kind is Kind.PUNCT and token.text == "]" and words[-1] == ", ":
            words[-1] = "]"
        else:
            words.append(token.text)
    return "".join(words)


def _value(stream: TokenStream) -> Value:
    token = stream.current
    if token.kind is Kind.STRING:
        return stream.advance().text
    if token.kind in (Kind.INTEGER, Kind.FLOAT) or stream.at_punct("-"):
        return _number(stream)
    if token.kind in (Kind.IDENT, Kind.TYPE_NAME):
        stream.advance()
        if token.text in ("true", "false"):
            return token.text == "true"
        return Word(text=token.text)
    if stream.take_punct("["):
        stream.enter()
        items: list[Value] = []
        while not stream.at_punct("]"):
            items.append(_value(stream))
            if not stream.take_punct(","):
                break
        stream.expect_punct("]", "to close the list")
        stream.leave()
        return tuple(items)
    stream.unexpected("a literal or a name", "as an argument")
