"""The clauses of a pattern, resolved: names and types are known, the order is as written."""

from __future__ import annotations

from msgspec import Struct

from omnigraph.catalog import EdgeType
from omnigraph.lang.gq_ast import BindingNode, BlockNode, ClauseNode, TraversalNode
from omnigraph.plan.expression import Aggregate, Expression, variables_of

ANONYMOUS = "_"


class Binding(Struct, frozen=True, kw_only=True):
    """A variable and its node type."""

    variable: str
    type_name: str


class Traversal(Struct, frozen=True, kw_only=True):
    """An edge between two variables; `forward` when `left` is the edge's source."""

    left: str
    right: str
    edge: EdgeType
    forward: bool
    undirected: bool
    min_hops: int
    max_hops: int
    edge_variable: str | None
    path_variable: str | None = None

    @property
    def left_type(self) -> str:
        """Node type of the left end."""
        return self.edge.source if self.forward else self.edge.target

    @property
    def right_type(self) -> str:
        """Node type of the right end."""
        return self.edge.target if self.forward else self.edge.source


class Condition(Struct, frozen=True, kw_only=True):
    """A filter, from a clause or from the braces of a binding."""

    expression: Expression


class Block(Struct, frozen=True, kw_only=True):
    """A `not` or `optional` block; `outer` are the enclosing variables it uses."""

    optional: bool
    outer: tuple[str, ...]
    variables: tuple[str, ...]
    clauses: tuple[Clause, ...]


class Subquery(Struct, frozen=True, kw_only=True):
    """A pattern in an expression, which reads its value as `variable`.

    It is an aggregate over the solutions, or without one whether there are any.
    """

    variable: str
    outer: frozenset[str]
    clauses: tuple[Clause, ...]
    aggregate: Aggregate | None


Clause = Binding | Traversal | Condition | Block | Subquery


class ReadTypes(Struct):
    """Node and edge types a query may inspect."""

    nodes: set[str]
    edges: set[str]


def introduced_names(clauses: tuple[ClauseNode, ...]) -> frozenset[str]:
    """Return the names a block introduces or uses as variables, optional blocks included."""
    names: set[str] = set()
    for node in clauses:
        match node:
            case BindingNode():
                names.add(node.variable)
            case TraversalNode():
                names |= {node.left, node.right}
                if node.edge_variable is not None:
                    names.add(node.edge_variable)
            case BlockNode() if node.optional:
                names |= introduced_names(node.clauses)
            case _:
                pass
    return frozenset(names - {ANONYMOUS})


def direct_variables(clauses: tuple[Clause, ...]) -> frozenset[str]:
    """Return the variables the clauses read themselves, not in blocks inside them."""
    variables: set[str] = set()
    for item in clauses:
        match item:
            case Binding():
                variables.add(item.variable)
            case Traversal():
                variables |= {item.left, item.right}
            case Condition():
                variables |= variables_of(item.expression)
            case Subquery():
                variables |= item.outer
            case Block():
                pass
    return frozenset(variables)


def used_variables(clauses: tuple[Clause, ...]) -> frozenset[str]:
    """Return all variables the clauses read."""
    nested = (used_variables(item.clauses) for item in clauses if isinstance(item, Block))
    return direct_variables(clauses).union(*nested)
