"""Writes conditions as storage filters.

A filter may keep too many rows, never too few: its user evaluates the condition again on
what comes back. So only what means exactly the same in storage is pushed down.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from omnigraph.catalog import INTEGERS, Scalar, scalar_range
from omnigraph.catalog.model import LiteralValue
from omnigraph.compute.evaluate import constant_value
from omnigraph.limits import I64_MAX
from omnigraph.plan.expression import (
    And,
    Compare,
    CompareOp,
    EndpointOf,
    Expression,
    IdOf,
    IsNull,
    Member,
    Or,
    PropertyOf,
    Vanishing,
    variables_of,
)

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def storage_filter(
    condition: Expression,
    parameters: Mapping[str, LiteralValue],
    now: datetime.datetime,
) -> str | None:
    """Return a filter that keeps at least the rows the condition keeps; None for all rows."""
    match condition:
        case And():
            parts = [storage_filter(item, parameters, now) for item in condition.operands]
            kept = [part for part in parts if part is not None]
            return " AND ".join(f"({part})" for part in kept) if kept else None
        case Or():
            parts = [storage_filter(item, parameters, now) for item in condition.operands]
            # One operand that cannot be pushed down keeps every row.
            if any(part is None for part in parts):
                return None
            return " OR ".join(f"({part})" for part in parts)
        case Vanishing():
            if any(parameters[name] is None for name in condition.parameters):
                return None
            return storage_filter(condition.condition, parameters, now)
        case IsNull():
            name = _column(condition.operand)
            return None if name is None else f"{name} IS {'NOT ' if condition.negated else ''}NULL"
        case Compare():
            return _comparison(condition, parameters, now)
        case Member():
            return _membership(condition, parameters, now)
        case PropertyOf():
            # A Bool that stands alone.
            name = _column(condition)
            return None if name is None else f"{name} = true"
        case _:
            return None


def _column(expression: Expression) -> str | None:
    match expression:
        case PropertyOf():
            # A name that starts so is computed by the query; storage does not have it.
            stored = not expression.property.startswith("#")
            return f"`{expression.property}`" if stored else None
        case IdOf():
            return "id"
        case EndpointOf():
            return "src" if expression.end == "from" else "dst"
        case _:
            return None


def _comparison(
    condition: Compare, parameters: Mapping[str, LiteralValue], now: datetime.datetime
) -> str | None:
    left, right, op = condition.left, condition.right, str(condition.op)
    if _column(left) is None:
        left, right, op = right, left, _MIRRORED.get(op, op)
    name = _column(left)
    if name is None or variables_of(right):
        return None
    text = _literal(constant_value(right, parameters, now), left)
    if text is None or (condition.op is CompareOp.NE and left.type.nullable):
        return None
    return f"{name} {op} {text}"


def _membership(
    condition: Member, parameters: Mapping[str, LiteralValue], now: datetime.datetime
) -> str | None:
    name = _column(condition.item)
    if name is None or variables_of(condition.container):
        return None
    values = constant_value(condition.container, parameters, now)
    if not isinstance(values, tuple) or not values:
        return None
    texts = [_literal(value, condition.item) for value in values]
    if any(text is None for text in texts):
        return None
    return f"{name} IN ({', '.join(text for text in texts if text is not None)})"


def _literal(value: LiteralValue, column: Expression) -> str | None:
    """Return a literal of the column's own type, None when the types do not meet exactly."""
    scalar = column.type.scalar
    if isinstance(value, str) and scalar is Scalar.STRING:
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return ("true" if value else "false") if scalar is Scalar.BOOL else None
    if isinstance(value, int) and scalar in INTEGERS:
        low, high = scalar_range(scalar)
        # The filter language reads integers as signed 64-bit, and a minus as an operator.
        return str(value) if max(low, -I64_MAX) <= value <= min(high, I64_MAX) else None
    if isinstance(value, datetime.datetime):
        return None
    if isinstance(value, datetime.date) and scalar is Scalar.DATE:
        return f"date '{value.isoformat()}'"
    return None
