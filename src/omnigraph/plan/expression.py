"""Typed, resolved expressions of a plan.

Conditions are three-valued: a comparison with null is unknown, and a row passes a filter only when
its condition is true. Every expression knows its result type; `nullable` says whether it can be
null. The variable of a mutation predicate is `ROW`: the row under test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache
from typing import Any, Final

from omnigraph.catalog import PropertyType, Scalar
from omnigraph.catalog.model import LiteralValue

ROW: Final = ""
"""Stands for the row under test where a predicate has no variables."""

BOOL = PropertyType(scalar=Scalar.BOOL)
MAYBE = PropertyType(scalar=Scalar.BOOL, nullable=True)
TEXT = PropertyType(scalar=Scalar.STRING)
INT = PropertyType(scalar=Scalar.I64)
FLOAT = PropertyType(scalar=Scalar.F64)
DATETIME = PropertyType(scalar=Scalar.DATETIME)
SCORE = PropertyType(scalar=Scalar.F64, nullable=True)


class CompareOp(StrEnum):
    """Comparison of two scalars."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class ArithmeticOp(StrEnum):
    """Arithmetic on two numbers. `/` is always a float; `/` and `%` by zero are null."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    MOD = "%"


class TextOp(StrEnum):
    """Full-text predicates."""

    SEARCH = "search"
    FUZZY = "fuzzy"
    PHRASE = "match_text"


class AggregateFunction(StrEnum):
    """Aggregates over the rows of a group."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


class End(StrEnum):
    """Endpoint of an edge."""

    FROM = "from"
    TO = "to"


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyOf:
    """A property of a bound node or edge."""

    variable: str
    property: str
    type: PropertyType


@dataclass(frozen=True, slots=True, kw_only=True)
class IdOf:
    """The id of a bound node or edge."""

    variable: str
    type: PropertyType = TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOf:
    """The id of the node an edge starts or ends at."""

    variable: str
    end: End
    type: PropertyType = TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A declared parameter."""

    name: str
    type: PropertyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A literal. A null literal has the type of what it is assigned to."""

    value: LiteralValue
    type: PropertyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The instant the operation started: one value per operation."""

    type: PropertyType = DATETIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """Two numbers combined. Integers stay exact in 64 bits; overflow is an error."""

    op: ArithmeticOp
    left: Expression
    right: Expression
    type: PropertyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Negate:
    """A number with its sign changed."""

    operand: Expression
    type: PropertyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """Two scalars compared by value: numbers of any width exactly, strings by code point."""

    op: CompareOp
    left: Expression
    right: Expression
    type: PropertyType = MAYBE


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Whether a list holds a value."""

    item: Expression
    container: Expression
    type: PropertyType = MAYBE


@dataclass(frozen=True, slots=True, kw_only=True)
class Substring:
    """Whether a string holds another, or starts with it: exact, case-sensitive."""

    text: Expression
    part: Expression
    prefix: bool = False
    type: PropertyType = MAYBE


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """Null test: never unknown."""

    operand: Expression
    negated: bool = False
    type: PropertyType = BOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class And:
    """All conditions hold."""

    operands: tuple[Expression, ...]
    type: PropertyType = MAYBE


@dataclass(frozen=True, slots=True, kw_only=True)
class Or:
    """At least one condition holds."""

    operands: tuple[Expression, ...]
    type: PropertyType = MAYBE


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """The condition does not hold; unknown stays unknown."""

    operand: Expression
    type: PropertyType = MAYBE


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanishing:
    """A condition that is left out of its `and`, `or` or `not` when one parameter is null."""

    condition: Expression
    parameters: tuple[str, ...]
    type: PropertyType = MAYBE


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatch:
    """Full-text predicate on a String property of a node variable."""

    op: TextOp
    variable: str
    property: str
    query: Expression
    max_edits: Expression | None = None
    type: PropertyType = BOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """L2 distance between a vector property and a query vector (or text to embed)."""

    variable: str
    property: str
    query: Expression
    model: str | None = None
    type: PropertyType = SCORE


@dataclass(frozen=True, slots=True, kw_only=True)
class Bm25:
    """BM25 score of a String property for a text query; null when no token matches."""

    variable: str
    property: str
    query: Expression
    type: PropertyType = SCORE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rrf:
    """Reciprocal rank fusion of two rankings: the sum of 1 / (k + rank + 1)."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Expression
    type: PropertyType = SCORE


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """An aggregate over the rows of a group; `argument` None counts rows."""

    function: AggregateFunction
    argument: Expression | None
    type: PropertyType
    distinct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubqueryValue:
    """What an `Apply` step found for the row."""

    variable: str
    type: PropertyType


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectOf:
    """A whole node or edge as one value, null if it is null. The fields of the type name its parts.

    The first part is the id.
    """

    parts: tuple[Expression, ...]
    type: PropertyType


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOf:
    """The value of an output column, by position."""

    index: int
    type: PropertyType


Ranking = Nearest | Bm25 | Rrf
Expression = (
    PropertyOf
    | IdOf
    | EndpointOf
    | Parameter
    | Constant
    | Now
    | Arithmetic
    | Negate
    | Compare
    | Member
    | Substring
    | IsNull
    | And
    | Or
    | Not
    | Vanishing
    | TextMatch
    | Nearest
    | Bm25
    | Rrf
    | Aggregate
    | SubqueryValue
    | ObjectOf
    | ColumnOf
)


def children(expression: Expression) -> Iterator[Expression]:
    """Yield the direct operands of an expression."""
    kind: type = type(expression)
    for name in _operand_names(kind):
        value = getattr(expression, name)
        if isinstance(value, tuple):
            yield from (part for part in value if isinstance(part, Expression))
        elif isinstance(value, Expression):
            yield value


@cache
def _operand_names(kind: type) -> tuple[str, ...]:
    """Return the fields of an expression class that can hold expressions."""
    plain = ("type", "variable", "property", "name", "op", "function", "index", "model")
    return tuple(item.name for item in fields(kind) if item.name not in plain)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and everything below it, parents first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


Change = Callable[[Expression], Expression | None]
"""Returns what stands for a part of an expression; None to look at its operands instead."""


def transform(expression: Expression, change: Change) -> Expression:
    """Return an expression in which `change` has replaced the parts it has an answer for.

    Parents are asked first, and a replacement is not looked into. What does not change is kept.
    """
    replacement = change(expression)
    if replacement is not None:
        return replacement
    kind: type = type(expression)
    changes: dict[str, Any] = {}
    for name in _operand_names(kind):
        value = getattr(expression, name)
        new = _transformed(value, change)
        if new is not value:
            changes[name] = new
    return replace(expression, **changes) if changes else expression


def _transformed(value: object, change: Change) -> object:
    """Return the value of a field with the expressions in it transformed."""
    if isinstance(value, Expression):
        return transform(value, change)
    if not isinstance(value, tuple):
        return value
    parts = tuple(_transformed(part, change) for part in value)
    return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value


def variables_of(expression: Expression) -> frozenset[str]:
    """Return the variables an expression reads."""
    with_variable = PropertyOf | IdOf | EndpointOf | TextMatch | Nearest | Bm25 | SubqueryValue
    return frozenset(p.variable for p in walk(expression) if isinstance(p, with_variable))


def can_overflow(expression: Expression) -> bool:
    """Return whether some rows may be an error, because their integers leave 64 bits."""
    parts = (part for part in walk(expression) if isinstance(part, Arithmetic | Negate))
    return any(part.type.is_integer and variables_of(part) for part in parts)


def conjunction(conditions: tuple[Expression, ...]) -> Expression | None:
    """Join conditions with `and`; None when there is none."""
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else And(operands=conditions)
