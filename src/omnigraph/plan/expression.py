"""Typed, resolved expressions of a plan.

Conditions are three-valued: a comparison with null is unknown, and a row passes a filter only when
its condition is true. Every expression knows its result type; `nullable` says whether it can be
null. The variable of a mutation predicate is `ROW`: the row under test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.catalog import PropertyType, Scalar
from omnigraph.catalog.languages import ENGLISH
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


class Metric(StrEnum):
    """How the distance of two vectors is measured."""

    L2 = "l2"
    COSINE = "cosine"
    DOT = "dot"


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


class PropertyOf(Struct, frozen=True, kw_only=True):
    """A property of a bound node or edge."""

    variable: str
    property: str
    type: PropertyType


class IdOf(Struct, frozen=True, kw_only=True):
    """The id of a bound node or edge."""

    variable: str
    type: PropertyType = TEXT


class EndpointOf(Struct, frozen=True, kw_only=True):
    """The id of the node an edge starts or ends at."""

    variable: str
    end: End
    type: PropertyType = TEXT


class Parameter(Struct, frozen=True, kw_only=True):
    """A declared parameter."""

    name: str
    type: PropertyType


class Constant(Struct, frozen=True, kw_only=True):
    """A literal. A null literal has the type of what it is assigned to."""

    value: LiteralValue
    type: PropertyType


class Now(Struct, frozen=True, kw_only=True):
    """The instant the operation started: one value per operation."""

    type: PropertyType = DATETIME


class Arithmetic(Struct, frozen=True, kw_only=True):
    """Two numbers combined. Integers stay exact in 64 bits; overflow is an error."""

    op: ArithmeticOp
    left: Expression
    right: Expression
    type: PropertyType


class Negate(Struct, frozen=True, kw_only=True):
    """A number with its sign changed."""

    operand: Expression
    type: PropertyType


class Compare(Struct, frozen=True, kw_only=True):
    """Two scalars compared by value: numbers of any width exactly, strings by code point."""

    op: CompareOp
    left: Expression
    right: Expression
    type: PropertyType = MAYBE


class Member(Struct, frozen=True, kw_only=True):
    """Whether a list holds a value."""

    item: Expression
    container: Expression
    type: PropertyType = MAYBE


class Substring(Struct, frozen=True, kw_only=True):
    """Whether a string holds another, or starts with it: exact, case-sensitive."""

    text: Expression
    part: Expression
    prefix: bool = False
    type: PropertyType = MAYBE


class IsNull(Struct, frozen=True, kw_only=True):
    """Null test: never unknown."""

    operand: Expression
    negated: bool = False
    type: PropertyType = BOOL


class And(Struct, frozen=True, kw_only=True):
    """All conditions hold."""

    operands: tuple[Expression, ...]
    type: PropertyType = MAYBE


class Or(Struct, frozen=True, kw_only=True):
    """At least one condition holds."""

    operands: tuple[Expression, ...]
    type: PropertyType = MAYBE


class Not(Struct, frozen=True, kw_only=True):
    """The condition does not hold; unknown stays unknown."""

    operand: Expression
    type: PropertyType = MAYBE


class Vanishing(Struct, frozen=True, kw_only=True):
    """A condition that is left out of its `and`, `or` or `not` when one parameter is null."""

    condition: Expression
    parameters: tuple[str, ...]
    type: PropertyType = MAYBE


class TextMatch(Struct, frozen=True, kw_only=True):
    """Full-text predicate on a String property of a node variable."""

    op: TextOp
    variable: str
    property: str
    query: Expression
    max_edits: Expression | None = None
    language: str = ENGLISH
    type: PropertyType = BOOL


class Nearest(Struct, frozen=True, kw_only=True):
    """Distance between a vector property and a query vector (or text to embed)."""

    variable: str
    property: str
    query: Expression
    model: str | None = None
    metric: Metric = Metric.L2
    type: PropertyType = SCORE


class Bm25(Struct, frozen=True, kw_only=True):
    """BM25 score of a String property for a text query; null when no token matches."""

    variable: str
    property: str
    query: Expression
    language: str = ENGLISH
    type: PropertyType = SCORE


class Rrf(Struct, frozen=True, kw_only=True):
    """Reciprocal rank fusion of two rankings: the sum of 1 / (k + rank + 1)."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Expression
    type: PropertyType = SCORE


class Aggregate(Struct, frozen=True, kw_only=True):
    """An aggregate over the rows of a group; `argument` None counts rows."""

    function: AggregateFunction
    argument: Expression | None
    type: PropertyType
    distinct: bool = False


class SubqueryValue(Struct, frozen=True, kw_only=True):
    """What an `Apply` step found for the row."""

    variable: str
    type: PropertyType


class PathPart(StrEnum):
    """What can be read of a path."""

    LENGTH = "length"
    NODES = "nodes"


class PathOf(Struct, frozen=True, kw_only=True):
    """The number of hops of a path, or the ids of its nodes."""

    variable: str
    part: PathPart
    type: PropertyType


class TypeOf(Struct, frozen=True, kw_only=True):
    """The name of the type of a node or edge."""

    variable: str
    type: PropertyType


class ObjectOf(Struct, frozen=True, kw_only=True):
    """A whole node or edge as one value, null if it is null. The fields of the type name its parts.

    The first part is the id.
    """

    parts: tuple[Expression, ...]
    type: PropertyType


class ColumnOf(Struct, frozen=True, kw_only=True):
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
    | TypeOf
    | PathOf
    | ObjectOf
    | ColumnOf
)


_OF_A_VARIABLE = (
    PropertyOf | IdOf | EndpointOf | TypeOf | PathOf | TextMatch | Nearest | Bm25 | SubqueryValue
)


def children(expression: Expression) -> Iterator[Expression]:
    """Yield the direct operands of an expression."""
    kind: type[Struct] = type(expression)
    for name in _operand_names(kind):
        value = getattr(expression, name)
        if isinstance(value, tuple):
            yield from (part for part in value if isinstance(part, Expression))
        elif isinstance(value, Expression):
            yield value


@cache
def _operand_names(kind: type[Struct]) -> tuple[str, ...]:
    """Return the fields of an expression class that can hold expressions."""
    plain = ("type", "variable", "property", "name", "op", "function", "index", "model")
    return tuple(name for name in kind.__struct_fields__ if name not in plain)


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
    kind: type[Struct] = type(expression)
    changes: dict[str, object] = {}
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
    return frozenset(p.variable for p in walk(expression) if isinstance(p, _OF_A_VARIABLE))


def can_overflow(expression: Expression) -> bool:
    """Return whether some rows may be an error, because their integers leave 64 bits."""
    parts = (part for part in walk(expression) if isinstance(part, Arithmetic | Negate))
    return any(part.type.is_integer and variables_of(part) for part in parts)


def conjunction(conditions: tuple[Expression, ...]) -> Expression | None:
    """Join conditions with `and`; None when there is none."""
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else And(operands=conditions)
