"""Syntax of a `.gq` file, as written: nothing resolved, every part with its span."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralNode:
    """A constant. Lists keep their items as nodes; `problem` says why a date is none."""

    kind: LiteralKind
    value: LiteralValue
    span: Span
    items: tuple[LiteralNode, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableNode:
    """`$name`, or `$name?`: the condition it stands in vanishes when the parameter is null."""

    name: str
    span: Span
    vanishing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyNode:
    """`$variable.property`."""

    variable: str
    property: str
    span: Span
    property_span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class WordNode:
    """A bare word: an alias in `order`, a property in a mutation's `where`."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class CallNode:
    """`function(argument, ...)`; `star` for `count(*)`, `distinct` for `count(distinct x)`."""

    function: str
    arguments: tuple[ExpressionNode, ...]
    span: Span
    distinct: bool = False
    star: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaryNode:
    """`-x` or `not (x)`."""

    op: str
    operand: ExpressionNode
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryNode:
    """Two operands and an operator: arithmetic, comparison, word operator, `and`, `or`.

    `depth` counts the operators below; `and`/`or` chains do not add to it, they are flattened.
    """

    op: str
    left: ExpressionNode
    right: ExpressionNode
    span: Span
    depth: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NullTestNode:
    """`x is null` or `x is not null`."""

    operand: ExpressionNode
    negated: bool
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class SubqueryNode:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchNode:
    """`property: value` in the braces of a binding."""

    property: str
    property_span: Span
    value: ExpressionNode


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingNode:
    """`$v: Type { p: value }`."""

    variable: str
    variable_span: Span
    type_name: str
    type_span: Span
    matches: tuple[MatchNode, ...]
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class TraversalNode:
    """`$a $w:edge{m,n} $b`, or with `<edge>` in both directions."""

    left: str
    left_span: Span
    right: str
    right_span: Span
    edge_word: str
    edge_span: Span
    undirected: bool
    edge_variable: str | None
    edge_variable_span: Span | None
    hops: tuple[int, int | None] | None
    hops_span: Span | None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterNode:
    """A condition."""

    condition: ExpressionNode
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockNode:
    """`not { ... }` or `optional { ... }`."""

    optional: bool
    clauses: tuple[ClauseNode, ...]
    span: Span


ClauseNode = BindingNode | TraversalNode | FilterNode | BlockNode


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionNode:
    """`expression as alias`."""

    expression: ExpressionNode
    alias: str | None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class AllPropertiesNode:
    """`$variable.*`: a column for each property."""

    variable: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderNode:
    """One item of `order { ... }`; `direction` is None when not written."""

    expression: ExpressionNode
    direction: str | None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadNode:
    """`match ... return ... order ... limit ... offset`."""

    clauses: tuple[ClauseNode, ...]
    projections: tuple[ProjectionNode | AllPropertiesNode, ...]
    distinct: bool
    order: tuple[OrderNode, ...]
    limit: ExpressionNode | None
    offset: ExpressionNode | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentNode:
    """`property: value`."""

    property: str
    property_span: Span
    value: ExpressionNode


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementNode:
    """`insert|upsert|update|delete Type ...`; `must_be_new` for `insert new`."""

    verb: str
    must_be_new: bool
    type_name: str
    type_span: Span
    assignments: tuple[AssignmentNode, ...]
    predicate: ExpressionNode | None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterNode:
    """`$name: Type`."""

    name: str
    type: PropertyType
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryNode:
    """One query: a read, or mutation statements."""

    name: str
    name_span: Span
    parameters: tuple[ParameterNode, ...]
    description: str | None
    instruction: str | None
    read: ReadNode | None
    statements: tuple[StatementNode, ...]
    span: Span
