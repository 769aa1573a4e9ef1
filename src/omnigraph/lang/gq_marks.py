"""What the formatter has to know of a query file: where its lists are, and which tokens belong."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from enum import Enum, auto

from msgspec import Struct

from omnigraph.lang.gq_ast import (
    AllPropertiesNode,
    BinaryNode,
    BindingNode,
    BlockNode,
    CallNode,
    ClauseNode,
    ExpressionNode,
    LiteralKind,
    LiteralNode,
    OrderNode,
    ProjectionNode,
    QueryNode,
    ReadNode,
    StatementNode,
    SubqueryNode,
    TraversalNode,
    UnaryNode,
)
from omnigraph.lang.lexer import Kind, Token
from omnigraph.lang.source import Span

_CLOSING = {"{": "}", "(": ")", "[": "]"}


class ListKind(Enum):
    """How the items of a list are laid out."""

    SECTIONS = auto()
    """The body of a query: always one to a line."""
    CLAUSES = auto()
    """A pattern in braces; no commas."""
    BRACES = auto()
    """Items with commas in braces."""
    ARGUMENTS = auto()
    """Items with commas in parentheses or brackets."""


class ItemList(Struct, frozen=True, kw_only=True):
    """A list between two tokens: where it closes, and where its items begin."""

    kind: ListKind
    close: int
    items: tuple[int, ...]
    must_break: bool = False


class Marks:
    """The places of a parsed file that layout depends on, as indices of tokens.

    `lists` are keyed by their opening token. `tight` tokens touch the one before them, `joints` are
    the words `and` and `or` that join conditions, `cuts` begin a part that breaks on its own.
    """

    def __init__(self, tokens: list[Token], queries: Iterable[QueryNode]) -> None:
        self._tokens = tokens
        self._starts = [token.start for token in tokens]
        self.closing = _matching(tokens)
        self._opening = {close: opening for opening, close in self.closing.items()}
        self.lists: dict[int, ItemList] = {}
        self.tight: set[int] = set()
        self.joints: set[int] = set()
        self.cuts: set[int] = set()
        self.queries = [self._query(query) for query in queries]

    def at(self, offset: int) -> int:
        """Return the index of the first token at an offset or after it."""
        return bisect_left(self._starts, offset)

    def _first(self, span: Span) -> int:
        return self.at(span.start)

    def _expression_start(self, span: Span, floor: int) -> int:
        """Return where an expression begins: its span leaves parentheses around it out."""
        index = self._first(span)
        while index > floor and self._is(index - 1, "("):
            index -= 1
        return index

    def _is(self, index: int, text: str) -> bool:
        token = self._tokens[index]
        return token.kind is Kind.PUNCT and token.text == text

    def _brace_after(self, index: int) -> int:
        while not self._is(index, "{"):
            index += 1
        return index

    def _brace_before_end(self, span: Span) -> int:
        """Return the brace that the one at the end of a span closes."""
        return self._opening[self.at(span.end) - 1]

    def _mark(
        self, opening: int, kind: ListKind, items: Iterable[int], *, must_break: bool = False
    ) -> None:
        self.lists[opening] = ItemList(
            kind=kind, close=self.closing[opening], items=tuple(items), must_break=must_break
        )

    # ---- queries --------------------------------------------------------------------------

    def _query(self, query: QueryNode) -> tuple[int, int]:
        """Mark a query; return its first token and the brace that opens its body."""
        opening = self._first(query.name_span) + 1
        self.tight.add(opening)
        self._mark(opening, ListKind.ARGUMENTS, (self._first(p.span) for p in query.parameters))
        body = self._brace_after(self.closing[opening])
        for index in range(self.closing[opening] + 1, body):
            if self._is(index, "("):
                self.tight.add(index)
        if query.read is not None:
            sections = self._read(query.read, body + 1)
        else:
            sections = [self._first(item.span) for item in query.statements]
            for item in query.statements:
                self._statement(item)
        self._mark(body, ListKind.SECTIONS, sections, must_break=True)
        return self._first(query.span), body

    def _read(self, read: ReadNode, start: int) -> list[int]:
        sections = [start]
        self._clauses(start + 1, read.clauses)
        returning = self.closing[start + 1] + 1
        opening = self._brace_after(returning)
        self._items(opening, [self._output(item, opening) for item in read.projections])
        sections.append(returning)
        following = self.closing[opening] + 1
        if read.order:
            sections.append(following)
            self._items(following + 1, [self._output(item, following) for item in read.order])
            following = self.closing[following + 1] + 1
        while not self._is(following, "}"):
            sections.append(following)
            following += 2
        return sections

    def _items(self, opening: int, items: list[int]) -> None:
        self._mark(opening, ListKind.BRACES, items)

    def _output(self, item: ProjectionNode | AllPropertiesNode | OrderNode, floor: int) -> int:
        if not isinstance(item, AllPropertiesNode):
            self._expression(item.expression)
        return self._expression_start(item.span, floor + 1)

    def _statement(self, item: StatementNode) -> None:
        after = self._first(item.type_span)
        if item.assignments:
            opening = self._brace_after(after)
            self._items(opening, [self._first(a.property_span) for a in item.assignments])
            for assignment in item.assignments:
                self._expression(assignment.value)
        if item.predicate is not None:
            self._expression(item.predicate)
            self.cuts.add(self._expression_start(item.predicate.span, after))

    # ---- patterns -------------------------------------------------------------------------

    def _clauses(
        self, opening: int, clauses: tuple[ClauseNode, ...], *, inline: bool = False
    ) -> None:
        nested = any(isinstance(clause, BlockNode) for clause in clauses)
        self._mark(
            opening,
            ListKind.CLAUSES,
            [self._expression_start(clause.span, opening + 1) for clause in clauses],
            must_break=nested or (len(clauses) > 1 and not inline),
        )
        for clause in clauses:
            match clause:
                case BlockNode():
                    self._clauses(self._first(clause.span) + 1, clause.clauses)
                case BindingNode():
                    self._binding(clause)
                case TraversalNode():
                    self._traversal(clause)
                case _:
                    self._expression(clause.condition)

    def _binding(self, node: BindingNode) -> None:
        if node.matches:
            opening = self._first(node.type_span) + 1
            self._items(opening, [self._first(item.property_span) for item in node.matches])
            for item in node.matches:
                self._expression(item.value)

    def _traversal(self, node: TraversalNode) -> None:
        if node.edge_variable_span is not None:
            self.tight.add(self._first(node.edge_variable_span) + 2)
        first = self._first(node.edge_span)
        if node.edge_words and (self._is(first - 1, "<") or self._is(first - 1, "(")):
            # The words, the bars between them, and the token that closes them.
            self.tight |= set(range(first, self.at(node.edge_span.end) + 1))
        if node.hops_span is not None:
            first, last = self._first(node.hops_span), self.at(node.hops_span.end)
            self.tight |= set(range(first, last))

    # ---- expressions ----------------------------------------------------------------------

    def _expression(self, root: ExpressionNode) -> None:
        # A chain of `and` may be longer than the interpreter's stack is deep.
        stack: list[ExpressionNode] = [root]
        while stack:
            node = stack.pop()
            match node:
                case BinaryNode():
                    self._joint(node)
                    stack += [node.left, node.right]
                case UnaryNode():
                    if node.op == "-":
                        self.tight.add(self._first(node.span) + 1)
                    stack.append(node.operand)
                case CallNode():
                    stack += self._call(node)
                case SubqueryNode():
                    self._clauses(self._brace_before_end(node.span), node.clauses, inline=True)
                    stack += [node.call] if node.call is not None else []
                case LiteralNode():
                    self._literal(node)
                    stack += node.items
                case _:
                    stack += _operand(node)

    def _joint(self, node: BinaryNode) -> None:
        if node.op in ("and", "or"):
            index = self.at(node.left.span.end)
            while self._tokens[index].text != node.op:
                index += 1
            self.joints.add(index)

    def _call(self, node: CallNode) -> tuple[ExpressionNode, ...]:
        opening = self._first(node.span) + 1
        self.tight.add(opening)
        if not node.star and not node.distinct:
            items = [self._expression_start(a.span, opening + 1) for a in node.arguments]
            self._mark(opening, ListKind.ARGUMENTS, items)
        return node.arguments

    def _literal(self, node: LiteralNode) -> None:
        first = self._first(node.span)
        if node.kind is LiteralKind.LIST:
            self._mark(first, ListKind.ARGUMENTS, (self._first(item.span) for item in node.items))
        elif node.kind in (LiteralKind.INTEGER, LiteralKind.FLOAT):
            # Signs in front of it: `- -1`.
            while self._is(first, "-"):
                first += 1
                self.tight.add(first)
        elif node.kind in (LiteralKind.DATE, LiteralKind.DATETIME):
            # The span of one with a problem is that of its text.
            opening = first - 1 if node.problem is not None else first + 1
            self.tight.add(opening)


def _operand(node: ExpressionNode) -> list[ExpressionNode]:
    operand = getattr(node, "operand", None)
    return [] if operand is None else [operand]


def _matching(tokens: list[Token]) -> dict[int, int]:
    pairs: dict[int, int] = {}
    waiting: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind is not Kind.PUNCT:
            continue
        if token.text in _CLOSING:
            waiting.append(index)
        elif token.text in _CLOSING.values():
            pairs[waiting.pop()] = index
    return pairs
