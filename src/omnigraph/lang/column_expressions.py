"""Expressions on the columns of an input: what a mapping computes properties from.

They are written as those of queries; a bare word is a column, and `col("...")` one whose name is no
word, or a field inside a column: `col("address.city")`.
"""

from __future__ import annotations

from omnigraph.lang.gq_ast import (
    BinaryNode,
    CallNode,
    ExpressionNode,
    LiteralNode,
    NullTestNode,
    UnaryNode,
    WordNode,
)
from omnigraph.lang.gq_expressions import parse_expression
from omnigraph.lang.lexer import Kind, TokenStream, fail
from omnigraph.lang.source import SourceText
from omnigraph.limits import EXPRESSION_ARGUMENTS_MAX

_ANY = EXPRESSION_ARGUMENTS_MAX
FUNCTIONS: dict[str, tuple[int, int]] = {
    "abs": (1, 1),
    "boolean": (1, 1),
    "coalesce": (1, _ANY),
    "col": (1, 1),
    "concat": (1, _ANY),
    "date": (1, 2),
    "datetime": (1, 2),
    "float": (1, 1),
    "hash": (1, _ANY),
    "if": (3, 3),
    "integer": (1, 1),
    "key": (1, _ANY),
    "length": (1, 1),
    "lower": (1, 1),
    "null_if": (2, _ANY),
    "part": (3, 3),
    "replace": (3, 3),
    "round": (1, 2),
    "split": (2, 2),
    "string": (1, 1),
    "substring": (2, 3),
    "trim": (1, 1),
    "try": (1, 1),
    "upper": (1, 1),
}
"""Functions, with the least and the most of arguments."""


def compile_column_expression(text: str, name: str) -> ExpressionNode:
    """Parse an expression; `name` says where it stands. Raises `CompileError`."""
    source = SourceText(name, text)
    stream = TokenStream(source, FUNCTIONS)
    node = parse_expression(stream)
    if stream.current.kind is not Kind.END:
        stream.unexpected("the end of the expression", "")
    _check(source, node)
    return node


def column_of(node: ExpressionNode) -> str | None:
    """Return the column that a node stands for, if it is one."""
    if isinstance(node, WordNode):
        return node.name
    if isinstance(node, CallNode) and node.function == "col":
        argument = node.arguments[0]
        return str(argument.value) if isinstance(argument, LiteralNode) else None
    return None


def columns_in(node: ExpressionNode) -> list[str]:
    """Return the columns an expression reads, in the order it names them."""
    own = column_of(node)
    if own is not None:
        return [own]
    return list(dict.fromkeys(name for part in _parts(node) for name in columns_in(part)))


def _parts(node: ExpressionNode) -> tuple[ExpressionNode, ...]:
    if isinstance(node, CallNode):
        return node.arguments
    if isinstance(node, BinaryNode):
        return (node.left, node.right)
    return (node.operand,) if isinstance(node, UnaryNode | NullTestNode) else ()


def _check(source: SourceText, node: ExpressionNode) -> None:
    """Refuse what only queries have."""
    known = LiteralNode | WordNode | CallNode | UnaryNode | BinaryNode | NullTestNode
    if not isinstance(node, known):
        hint = "a column is named without `$`"
        fail(source, node.span, "variables and patterns are for queries", hint)
    if isinstance(node, CallNode) and node.function == "col" and column_of(node) is None:
        fail(source, node.span, '`col` takes the name of a column: col("First name")')
    for part in _parts(node):
        _check(source, part)
