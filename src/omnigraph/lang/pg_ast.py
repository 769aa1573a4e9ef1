"""Syntax of a `.pg` file, as written: nothing resolved, every part with its span."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.catalog import PropertyType, TypeKind
from omnigraph.lang.source import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A word and where it stands."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A bare identifier used as a value (`@embed(body)`, `@default(fresh)`, `@default(null)`)."""

    text: str


Value = str | int | float | bool | Word | tuple["Value", ...]
"""A literal in annotation arguments; tuples are lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument: a literal or word, with its text.

    The text of a string is the string; that of anything else is its spelling without the layout:
    `007`, `-5`, `[1, "a"]`.
    """

    value: Value
    text: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A `low..high` pair, either side open."""

    low: int | float | None
    high: int | float | None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationSyntax:
    """`@name`, `@name(arg)` or `@name(arg, key=literal)`."""

    name: Name
    argument: Argument | None
    keywords: tuple[tuple[Name, Argument], ...]
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintSyntax:
    """`@key|unique|index|range|check(...)` in a body."""

    name: Name
    arguments: tuple[Argument | Bounds, ...]
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertySyntax:
    """`name: Type @annotation...`."""

    name: Name
    type: PropertyType
    type_span: Span
    annotations: tuple[AnnotationSyntax, ...]
    enum_order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationSyntax:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSyntax:
    """A whole file, declarations in source order."""

    declarations: tuple[DeclarationSyntax, ...]
