"""Recognises conditions that name one row by its id."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from omnigraph.catalog import EdgeType, NodeType
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
            return True
        case PropertyOf():
            return isinstance(entity, NodeType) and entity.key == (expression.property,)
        case _:
            return False


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
        if not isinstance(part, Compare) or part.op is not CompareOp.EQ:
            continue
        for one, other in ((part.left, part.right), (part.right, part.left)):
            # The key of other types than text is stored as text: only texts are their own id.
            if identifies(entity, one) and not variables_of(other) and one.type.is_text:
                value = constant_value(other, parameters, now)
                if isinstance(value, str):
                    return value, conjunction((*parts[:index], *parts[index + 1 :]))
    return None
