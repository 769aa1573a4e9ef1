"""Syntax of a `.pg` file, as written: nothing resolved, every part with its span."""

from __future__ import annotations

from msgspec import Struct

from omnigraph.catalog import PropertyType, TypeKind
from omnigraph.lang.source import Span


class Name(Struct, frozen=True, kw_only=True):
    """A word and where it stands."""

    text: str
    span: Span


class Word(Struct, frozen=True, kw_only=True):
    """A bare identifier used as a value (`@embed(body)`, `@default(fresh)`, `@default(null)`)."""

    text: str


Value = str | int | float | bool | Word | tuple["Value", ...]
"""A literal in annotation arguments; tuples are lists."""


class Argument(Struct, frozen=True, kw_only=True):
    """One argument: a literal or word, with its text.

    The text of a string is the string; that of anything else is its spelling without the layout:
    `007`, `-5`, `[1, "a"]`.
    """

    value: Value
    text: str
    span: Span


class Bounds(Struct, frozen=True, kw_only=True):
    """A `low..high` pair, either side open."""

    low: int | float | None
    high: int | float | None
    span: Span


class AnnotationSyntax(Struct, frozen=True, kw_only=True):
    """`@name`, `@name(arg)` or `@name(arg, key=literal)`."""

    name: Name
    argument: Argument | None
    keywords: tuple[tuple[Name, Argument], ...]
    span: Span


class ConstraintSyntax(Struct, frozen=True, kw_only=True):
    """`@key|unique|index|range|check(...)` in a body."""

    name: Name
    arguments: tuple[Argument | Bounds, ...]
    span: Span


class PropertySyntax(Struct, frozen=True, kw_only=True):
    """`name: Type @annotation...`."""

    name: Name
    type: PropertyType
    type_span: Span
    annotations: tuple[AnnotationSyntax, ...]
    enum_order: tuple[str, ...] = ()


class DeclarationSyntax(Struct, frozen=True, kw_only=True):
    """An interface, node or edge declaration."""

    kind: TypeKind
    name: Name
    annotations: tuple[AnnotationSyntax, ...] = ()
    implements: tuple[Name, ...] = ()
    source: Name | None = None
    target: Name | None = None
    cardinality: Bounds | None = None
    properties: tuple[PropertySyntax, ...] = ()
    constraints: tuple[ConstraintSyntax, ...] = ()
    members: tuple[PropertySyntax | ConstraintSyntax, ...] = ()
    span: Span


class SchemaSyntax(Struct, frozen=True, kw_only=True):
    """A whole file, declarations in source order."""

    declarations: tuple[DeclarationSyntax, ...]
