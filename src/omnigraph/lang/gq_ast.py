"""Syntax of a `.gq` file, as written: nothing resolved, every part with its span."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from omnigraph.catalog import PropertyType
from omnigraph.catalog.model import LiteralValue
from omnigraph.lang.source import Span


class LiteralKind(StrEnum):
    """What a literal was written as."""

    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BOOL = "bool"
    NULL = "null"
    DATE = "date"
    DATETIME = "datetime"
    LIST = "list"


class LiteralNode(Struct, frozen=True, kw_only=True):
    """A constant. Lists keep their items as nodes; `problem` says why a date is none."""

    kind: LiteralKind
    value: LiteralValue
    span: Span
    items: tuple[LiteralNode, ...] = ()
    problem: str | None = None


class VariableNode(Struct, frozen=True, kw_only=True):
    """`$name`, or `$name?`: the condition it stands in vanishes when the parameter is null."""

    name: str
    span: Span
    vanishing: bool = False


class PropertyNode(Struct, frozen=True, kw_only=True):
    """`$variable.property`."""

    variable: str
    property: str
    span: Span
    property_span: Span


class WordNode(Struct, frozen=True, kw_only=True):
    """A bare word: an alias in `order`, a property in a mutation's `where`."""

    name: str
    span: Span


class CallNode(Struct, frozen=True, kw_only=True):
    """`function(argument, ...)`; `star` for `count(*)`, `distinct` for `count(distinct x)`."""

    function: str
    arguments: tuple[ExpressionNode, ...]
    span: Span
    distinct: bool = False
    star: bool = False


class UnaryNode(Struct, frozen=True, kw_only=True):
    """`-x` or `not (x)`."""

    op: str
    operand: ExpressionNode
    span: Span


class BinaryNode(Struct, frozen=True, kw_only=True):
    """Two operands and an operator: arithmetic, comparison, word operator, `and`, `or`.

    `depth` counts the operators below; `and`/`or` chains do not add to it, they are flattened.
    """

    op: str
    left: ExpressionNode
    right: ExpressionNode
    span: Span
    depth: int = 1


class NullTestNode(Struct, frozen=True, kw_only=True):
    """`x is null` or `x is not null`."""

    operand: ExpressionNode
    negated: bool
    span: Span


class SubqueryNode(Struct, frozen=True, kw_only=True):
    """`exists { ... }`, `count { ... }`, or the aggregate `call` of `sum(x) { ... }`."""

    function: str
    call: CallNode | None
    clauses: tuple[ClauseNode, ...]
    span: Span


ExpressionNode = (
    LiteralNode
    | VariableNode
    | PropertyNode
    | WordNode
    | CallNode
    | UnaryNode
    | BinaryNode
    | NullTestNode
    | SubqueryNode
)


class MatchNode(Struct, frozen=True, kw_only=True):
    """`property: value` in the braces of a binding."""

    property: str
    property_span: Span
    value: ExpressionNode


class BindingNode(Struct, frozen=True, kw_only=True):
    """`$v: Type { p: value }`."""

    variable: str
    variable_span: Span
    type_name: str
    type_span: Span
    matches: tuple[MatchNode, ...]
    span: Span


class EdgeWord(Struct, frozen=True, kw_only=True):
    """The word of an edge type in a traversal."""

    text: str
    span: Span


class TraversalNode(Struct, frozen=True, kw_only=True):
    """`$a $w:edge{m,n} $b`, or with `<edge>` in both directions.

    `(one|two)` has several words, `->` none: it stands for every edge type that fits.
    """

    left: str
    left_span: Span
    right: str
    right_span: Span
    edge_words: tuple[EdgeWord, ...]
    edge_span: Span
    undirected: bool
    edge_variable: str | None
    edge_variable_span: Span | None
    hops: tuple[int, int | None] | None
    hops_span: Span | None
    span: Span


class FilterNode(Struct, frozen=True, kw_only=True):
    """A condition."""

    condition: ExpressionNode
    span: Span


class BlockNode(Struct, frozen=True, kw_only=True):
    """`not { ... }` or `optional { ... }`."""

    optional: bool
    clauses: tuple[ClauseNode, ...]
    span: Span


ClauseNode = BindingNode | TraversalNode | FilterNode | BlockNode


class ProjectionNode(Struct, frozen=True, kw_only=True):
    """`expression as alias`."""

    expression: ExpressionNode
    alias: str | None
    span: Span


class AllPropertiesNode(Struct, frozen=True, kw_only=True):
    """`$variable.*`: a column for each property."""

    variable: str
    span: Span


class OrderNode(Struct, frozen=True, kw_only=True):
    """One item of `order { ... }`; `direction` is None when not written."""

    expression: ExpressionNode
    direction: str | None
    span: Span


class ReadNode(Struct, frozen=True, kw_only=True):
    """`match ... return ... order ... limit ... offset`."""

    clauses: tuple[ClauseNode, ...]
    projections: tuple[ProjectionNode | AllPropertiesNode, ...]
    distinct: bool
    order: tuple[OrderNode, ...]
    limit: ExpressionNode | None
    offset: ExpressionNode | None


class AssignmentNode(Struct, frozen=True, kw_only=True):
    """`property: value`."""

    property: str
    property_span: Span
    value: ExpressionNode


class StatementNode(Struct, frozen=True, kw_only=True):
    """`insert|upsert|update|delete Type ...`; `must_be_new` for `insert new`."""

    verb: str
    must_be_new: bool
    type_name: str
    type_span: Span
    assignments: tuple[AssignmentNode, ...]
    predicate: ExpressionNode | None
    span: Span


class ParameterNode(Struct, frozen=True, kw_only=True):
    """`$name: Type`."""

    name: str
    type: PropertyType
    span: Span


class QueryNode(Struct, frozen=True, kw_only=True):
    """One query: a read, or mutation statements."""

    name: str
    name_span: Span
    parameters: tuple[ParameterNode, ...]
    description: str | None
    instruction: str | None
    read: ReadNode | None
    statements: tuple[StatementNode, ...]
    span: Span
