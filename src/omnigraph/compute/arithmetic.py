"""Calculates with Arrow numbers: integers exactly in 64 bits, floats as IEEE 754 says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.compute.types import Value
from omnigraph.errors import QueryError
from omnigraph.plan.expression import ArithmeticOp

_CHECKED = {
    ArithmeticOp.ADD: "add_checked",
    ArithmeticOp.SUB: "subtract_checked",
    ArithmeticOp.MUL: "multiply_checked",
}
_WIDE = pa.decimal256(20, 0)
"""Holds signed and unsigned integers of 64 bits, and results of it are wide enough for both."""


def calculate(op: ArithmeticOp, left: Value, right: Value, wanted: pa.DataType) -> Value:
    """Combine two numbers, of which one is a column; divided by zero is null."""
    if not pa.types.is_floating(wanted) and _unsigned(left, right):
        if op is ArithmeticOp.MOD:
            return _wide_remainder(left, _not_zero(right), wanted)
        left, right = pc.cast(left, _WIDE), pc.cast(right, _WIDE)
        return _checked("cast", _checked(_CHECKED[op], left, right), wanted)
    left, right = _number(left, wanted), _number(right, wanted)
    if op is ArithmeticOp.DIV:
        return pc.divide(left, _not_zero(right))
    if op is ArithmeticOp.MOD:
        return _remainder(left, _not_zero(right))
    return _checked(_CHECKED[op], left, right)


def negate(value: Value, wanted: pa.DataType) -> Value:
    """Change the sign of a column of numbers."""
    if not pa.types.is_floating(wanted) and _unsigned(value):
        return _checked("cast", pc.negate(pc.cast(value, _WIDE)), wanted)
    return _checked("negate_checked", _number(value, wanted))


def _unsigned(*values: Value) -> bool:
    return any(pa.types.is_uint64(value.type) for value in values)


def _number(value: Value, wanted: pa.DataType) -> Value:
    """Return an operand in the type of the calculation; an integer as the nearest float."""
    return pc.cast(value, wanted, safe=not pa.types.is_floating(wanted))


def _checked(function: str, *arguments: Value | pa.DataType) -> Value:
    try:
        return getattr(pc, function)(*arguments)
    except pa.ArrowInvalid as error:
        raise QueryError("integer overflow in a calculation") from error


def _not_zero(value: Value) -> Value:
    zero = pa.scalar(0, value.type)
    return pc.if_else(pc.equal(value, zero), pa.scalar(None, value.type), value)


def _remainder(left: Value, divisor: Value) -> pa.Array:
    """Return what a division leaves: exact for floats too, with the sign of the left operand."""
    known = pc.and_(pc.is_valid(left), pc.is_valid(divisor))
    one = pa.scalar(1, left.type)
    with np.errstate(invalid="ignore"):
        rest = np.fmod(_filled(left, one), _filled(divisor, one))
    return pa.array(rest, left.type, mask=~np.asarray(known))


def _filled(value: Value, fill: pa.Scalar) -> NDArray[Any] | float:
    filled = pc.fill_null(value, fill)
    return filled.as_py() if isinstance(filled, pa.Scalar) else np.asarray(filled)


def _wide_remainder(left: Value, divisor: Value, wanted: pa.DataType) -> Value:
    wide = pc.cast(left, _WIDE)
    sizes = [pc.cast(pc.abs(value), pa.uint64()) for value in (wide, pc.cast(divisor, _WIDE))]
    rest = pc.cast(_remainder(*sizes), _WIDE)
    negative = pc.less(wide, pa.scalar(0, _WIDE))
    return _checked("cast", pc.if_else(negative, pc.negate(rest), rest), wanted)
