"""Evaluates values that read no rows: literals, parameters, `now()` and arithmetic."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping

from omnigraph.catalog.model import LiteralValue
from omnigraph.errors import InternalError, QueryError
from omnigraph.limits import I64_MAX, I64_MIN
from omnigraph.plan.expression import (
    Arithmetic,
    ArithmeticOp,
    Constant,
    Expression,
    Negate,
    Now,
    Parameter,
)

Number = int | float


def plain_value(
    expression: Expression,
    parameters: Mapping[str, LiteralValue],
    now: datetime.datetime,
) -> LiteralValue:
    """Return the value of an expression without variables and conditions."""
    match expression:
        case Constant():
            return expression.value
        case Parameter():
            return parameters[expression.name]
        case Now():
            return now
        case Negate():
            value = _number(plain_value(expression.operand, parameters, now))
            return None if value is None else _checked(-value)
        case Arithmetic():
            left = _number(plain_value(expression.left, parameters, now))
            right = _number(plain_value(expression.right, parameters, now))
            return None if left is None or right is None else _combine(expression.op, left, right)
        case _:
            raise InternalError(f"{type(expression).__name__} is not a constant")


def _number(value: LiteralValue) -> Number | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InternalError(f"{value!r} is not a number")
    return value


def _combine(op: ArithmeticOp, left: Number, right: Number) -> Number | None:
    match op:
        case ArithmeticOp.ADD:
            return _checked(left + right)
        case ArithmeticOp.SUB:
            return _checked(left - right)
        case ArithmeticOp.MUL:
            return _checked(left * right)
        case ArithmeticOp.DIV:
            return None if right == 0 else float(left) / float(right)
        case ArithmeticOp.MOD:
            if right == 0:
                return None
            # The sign follows the left operand, as in SQL.
            if isinstance(left, int) and isinstance(right, int):
                rest = abs(left) % abs(right)
                return -rest if left < 0 else rest
            return math.fmod(left, right)


def _checked(value: Number) -> Number:
    if isinstance(value, int) and not I64_MIN <= value <= I64_MAX:
        raise QueryError(f"integer overflow: {value} does not fit in 64 bits")
    return value
