"""Recognises conditions that name one row by its id."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from omnigraph.catalog import EdgeType, EdgeUnion, NodeType
from omnigraph.catalog.model import LiteralValue
from omnigraph.compute import constant_value
from omnigraph.plan.expression import (
    And,
    Compare,
    CompareOp,
    Expression,
    IdOf,
    PropertyOf,
    conjunction,
    variables_of,
)


def identifies(entity: NodeType | EdgeType, expression: Expression) -> bool:
    """Whether an expression is different for every row of a type: its id, or its whole key."""
    match expression:
        case IdOf():
            return not isinstance(entity, EdgeUnion)
        case PropertyOf():
            return isinstance(entity, NodeType) and entity.key == (expression.property,)
        case _:
            return False


def can_name_id(entity: NodeType | EdgeType, condition: Expression) -> bool:
    """Whether a condition names an id, unless a parameter is null."""
    parts = condition.operands if isinstance(condition, And) else (condition,)
    return any(_names_id(entity, part) is not None for part in parts)


def _names_id(entity: NodeType | EdgeType, part: Expression) -> Expression | None:
    """Return the expression of the id that a row must have; None when the part does not say."""
    if not isinstance(part, Compare) or part.op is not CompareOp.EQ:
        return None
    for one, other in ((part.left, part.right), (part.right, part.left)):
        # The key of other types than text is stored as text: only texts are their own id.
        if identifies(entity, one) and not variables_of(other) and one.type.is_text:
            return other
    return None


def id_named_by(entity: NodeType | EdgeType, condition: Expression) -> Expression | None:
    """Return the id a row must have where that is all a condition says; None where it is not."""
    return None if isinstance(condition, And) else _names_id(entity, condition)


def named_id(
    entity: NodeType | EdgeType,
    condition: Expression,
    parameters: Mapping[str, LiteralValue],
    now: datetime.datetime,
) -> tuple[str, Expression | None] | None:
    """Return the id a row must have to satisfy a condition, and what else it must satisfy.

    None when the condition does not say.
    """
    parts = condition.operands if isinstance(condition, And) else (condition,)
    for index, part in enumerate(parts):
        expression = _names_id(entity, part)
        if expression is not None:
            value = constant_value(expression, parameters, now)
            if isinstance(value, str):
                return value, conjunction((*parts[:index], *parts[index + 1 :]))
    return None
