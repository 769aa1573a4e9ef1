"""Where the names of a query are introduced and used, by the rules the compiler has.

Clauses are looked at in text order: a name that is known means what it meant before, and one that
is not is introduced. What a `not` block or a subquery introduces is its own; what an `optional`
block introduces is known after it. A bare `$x` means a parameter if there is one of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import Struct, field

from omnigraph.catalog import Catalog, EdgeType
from omnigraph.lang.gq_ast import (
    BinaryNode,
    BindingNode,
    BlockNode,
    CallNode,
    ClauseNode,
    ExpressionNode,
    FilterNode,
    NullTestNode,
    ProjectionNode,
    PropertyNode,
    QueryNode,
    ReadNode,
    SubqueryNode,
    TraversalNode,
    UnaryNode,
    VariableNode,
)
from omnigraph.lang.gq_clauses import ANONYMOUS
from omnigraph.lang.source import Span


class SymbolKind(StrEnum):
    """What a name stands for."""

    NODE = "node"
    EDGE = "edge"
    PATH = "path"
    PARAMETER = "parameter"


class Symbol(Struct, kw_only=True):
    """A name of a query, and everywhere it stands; the first place introduces it.

    `type_name` is a node or edge type, or the type of a parameter; None when it is not known.
    """

    name: str
    kind: SymbolKind
    type_name: str | None
    spans: list[Span] = field(default_factory=list)


class _Scope(Struct):
    """The names a block knows; it sees those of the blocks around it."""

    parent: _Scope | None = None
    names: dict[str, Symbol] = field(default_factory=dict)

    def find(self, name: str) -> Symbol | None:
        scope: _Scope | None = self
        while scope is not None:
            if (symbol := scope.names.get(name)) is not None:
                return symbol
            scope = scope.parent
        return None


def symbols_of(query: QueryNode, catalog: Catalog | None) -> list[Symbol]:
    """Return the names of a query, parameters first; without a schema some types are unknown."""
    return _Resolver(catalog).query(query)


def symbol_at(symbols: Iterable[Symbol], offset: int) -> tuple[Symbol, Span] | None:
    """Return the name that stands at an offset, and where it begins and ends."""
    for symbol in symbols:
        for span in symbol.spans:
            if span.start <= offset <= span.end:
                return symbol, span
    return None


class _Resolver:
    def __init__(self, catalog: Catalog | None) -> None:
        self._catalog = catalog
        self._parameters: dict[str, Symbol] = {}
        self._found: list[Symbol] = []

    def query(self, query: QueryNode) -> list[Symbol]:
        for item in query.parameters:
            known = self._parameters.get(item.name)
            if known is None:
                known = self._new(item.name, SymbolKind.PARAMETER, str(item.type))
                self._parameters[item.name] = known
            known.spans.append(item.span)
        if query.read is not None:
            self._read(query.read)
        for statement in query.statements:
            for assignment in statement.assignments:
                self._expression(assignment.value, _Scope())
            if statement.predicate is not None:
                self._expression(statement.predicate, _Scope())
        for symbol in self._found:
            symbol.spans.sort(key=lambda span: span.start)
        return self._found

    def _new(self, name: str, kind: SymbolKind, type_name: str | None) -> Symbol:
        symbol = Symbol(name=name, kind=kind, type_name=type_name)
        self._found.append(symbol)
        return symbol

    def _read(self, read: ReadNode) -> None:
        scope = _Scope()
        self._clauses(read.clauses, scope)
        for item in read.projections:
            if isinstance(item, ProjectionNode):
                self._expression(item.expression, scope)
            else:
                self._use(scope.find(item.variable), item.span)
        for key in read.order:
            self._expression(key.expression, scope)
        for cut in (read.limit, read.offset):
            if cut is not None:
                self._expression(cut, scope)

    # ---- patterns -------------------------------------------------------------------------

    def _clauses(self, clauses: tuple[ClauseNode, ...], scope: _Scope) -> None:
        for clause in clauses:
            match clause:
                case BindingNode():
                    self._end(clause.variable, clause.variable_span, clause.type_name, scope)
                    for item in clause.matches:
                        self._expression(item.value, scope)
                case TraversalNode():
                    self._traversal(clause, scope)
                case FilterNode():
                    self._expression(clause.condition, scope)
                case BlockNode():
                    inner = _Scope(scope)
                    self._clauses(clause.clauses, inner)
                    if clause.optional:
                        scope.names.update(inner.names)

    def _traversal(self, node: TraversalNode, scope: _Scope) -> None:
        left, right = self._type_of(node.left, scope), self._type_of(node.right, scope)
        edges = self._edges(node, left, right)
        ends = [_ends(edge, left, right) for edge in edges]
        self._end(node.left, node.left_span, _only(end[0] for end in ends), scope)
        self._end(node.right, node.right_span, _only(end[1] for end in ends), scope)
        if node.edge_variable is not None and node.edge_variable_span is not None:
            # Over several hops the variable names a path.
            kind = SymbolKind.PATH if node.hops else SymbolKind.EDGE
            name = None if node.hops else _only(edge.name for edge in edges)
            self._end(node.edge_variable, node.edge_variable_span, name, scope, kind=kind)

    def _edges(self, node: TraversalNode, left: str | None, right: str | None) -> list[EdgeType]:
        """Return the edge types a traversal follows: those named, or for `->` all that fit."""
        if self._catalog is None:
            return []
        if node.edge_words:
            named = [self._catalog.edge_by_word(word.text) for word in node.edge_words]
            return [edge for edge in named if edge is not None]
        edges = self._catalog.edges.values()
        return [e for e in edges if left in (None, e.source) and right in (None, e.target)]

    def _type_of(self, name: str, scope: _Scope) -> str | None:
        symbol = None if name == ANONYMOUS else scope.find(name)
        return None if symbol is None else symbol.type_name

    def _end(
        self,
        name: str,
        span: Span,
        type_name: str | None,
        scope: _Scope,
        *,
        kind: SymbolKind = SymbolKind.NODE,
    ) -> None:
        if name == ANONYMOUS:
            return
        symbol = scope.find(name)
        if symbol is None:
            symbol = scope.names[name] = self._new(name, kind, type_name)
        elif symbol.type_name is None:
            symbol.type_name = type_name
        self._use(symbol, span)

    def _use(self, symbol: Symbol | None, span: Span) -> None:
        """Note a place of a name; a span may go on behind it, as that of `$p.name` does."""
        if symbol is not None:
            symbol.spans.append(Span(span.start, span.start + 1 + len(symbol.name)))

    # ---- expressions ----------------------------------------------------------------------

    def _expression(self, root: ExpressionNode, scope: _Scope) -> None:
        for node in walk(root):
            match node:
                case VariableNode():
                    bare = self._parameters.get(node.name) or scope.find(node.name)
                    self._use(bare, node.span)
                case PropertyNode():
                    self._use(scope.find(node.variable), node.span)
                case SubqueryNode():
                    inner = _Scope(scope)
                    self._clauses(node.clauses, inner)
                    if node.call is not None:
                        self._expression(node.call, inner)
                case _:
                    pass


def _ends(edge: EdgeType, left: str | None, right: str | None) -> tuple[str, str]:
    """Return the node types of the left and the right end of a traversal."""
    backwards = left == edge.target if left is not None else right == edge.source
    if edge.source != edge.target and backwards:
        return edge.target, edge.source
    return edge.source, edge.target


def _only(names: Iterable[str]) -> str | None:
    """Return the name that all of some are, None if there are several or none."""
    distinct = set(names)
    return distinct.pop() if len(distinct) == 1 else None


def walk(root: ExpressionNode) -> Iterator[ExpressionNode]:
    """Yield the parts of an expression; subqueries are yielded, but not looked into."""
    # A chain of `and` may be longer than the interpreter's stack is deep.
    stack: list[ExpressionNode] = [root]
    while stack:
        node = stack.pop()
        yield node
        match node:
            case BinaryNode():
                stack += [node.right, node.left]
            case UnaryNode() | NullTestNode():
                stack.append(node.operand)
            case CallNode():
                stack += reversed(node.arguments)
            case _:
                pass
