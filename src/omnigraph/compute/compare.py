"""Compares Arrow values exactly, whatever their numeric types.

Casting a 64-bit integer to a float rounds it, so integers and floats are compared by value: an
integer never equals a float that merely lies nearest to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.compute.types import Column, Value
from omnigraph.limits import FLOAT_EXACT_MAX
from omnigraph.plan.expression import CompareOp

_FUNCTIONS = {
    CompareOp.EQ: "equal",
    CompareOp.NE: "not_equal",
    CompareOp.LT: "less",
    CompareOp.LE: "less_equal",
    CompareOp.GT: "greater",
    CompareOp.GE: "greater_equal",
}
_MIRRORED = {
    CompareOp.LT: CompareOp.GT,
    CompareOp.LE: CompareOp.GE,
    CompareOp.GT: CompareOp.LT,
    CompareOp.GE: CompareOp.LE,
}


def mirrored(op: CompareOp) -> CompareOp:
    """Return the operator that says the same with its operands swapped."""
    return _MIRRORED.get(op, op)


def compare(left: Value, right: Value, op: CompareOp) -> Value:
    """Compare two Arrow values (arrays or scalars); unknown where one is null."""
    kinds = (_kind(left.type), _kind(right.type))
    if kinds == ("integer", "float"):
        return _integers_with_floats(left, right, op)
    if kinds == ("float", "integer"):
        return _integers_with_floats(right, left, mirrored(op))
    if kinds == ("integer", "integer") and not left.type.equals(right.type):
        wide = _common_integer(left, right)
        left, right = pc.cast(left, wide), pc.cast(right, wide)
    elif kinds == ("float", "float"):
        left, right = pc.cast(left, pa.float64()), pc.cast(right, pa.float64())
    return getattr(pc, _FUNCTIONS[op])(left, right)


def _common_integer(left: Value, right: Value) -> pa.DataType:
    """Return a type that holds both integers exactly: a column's own one if a constant fits."""
    for column, constant in ((left, right), (right, left)):
        if isinstance(constant, pa.Scalar) and not isinstance(column, pa.Scalar):
            value = constant.as_py()
            low, high = _range(column.type)
            if value is None or low <= value <= high:
                return column.type
    if pa.types.is_uint64(left.type) or pa.types.is_uint64(right.type):
        return pa.decimal128(38, 0)
    return pa.int64()


def _kind(data_type: pa.DataType) -> str:
    if pa.types.is_integer(data_type):
        return "integer"
    return "float" if pa.types.is_floating(data_type) else "other"


def _integers_with_floats(integers: Value, floats: Value, op: CompareOp) -> Value:
    if isinstance(integers, pa.Scalar) and isinstance(floats, pa.Scalar):
        pair = (
            pa.array([integers.as_py()], integers.type),
            pa.array([floats.as_py()], pa.float64()),
        )
        return _integers_with_floats(*pair, op)[0]
    if isinstance(floats, pa.Scalar):
        floats = pa.repeat(pc.cast(floats, pa.float64()), len(integers))
    if isinstance(integers, pa.Scalar):
        integers = pa.repeat(integers, len(floats))
    floats = pc.cast(floats, pa.float64())
    near = pc.cast(integers, pa.float64(), safe=False)
    order = _sign(near, floats)
    strange = np.isnan(_numbers(floats))
    # Only where rounding made them equal can the integer still lie to either side.
    doubtful = (order == 0) & (np.abs(_numbers(near)) >= FLOAT_EXACT_MAX) & ~strange
    for row in np.flatnonzero(doubtful).tolist():
        exact, other = integers[row].as_py(), floats[row].as_py()
        if exact is not None and other is not None:
            order[row] = (exact > int(other)) - (exact < int(other))
    known = pc.and_(pc.is_valid(integers), pc.is_valid(floats))
    verdict = getattr(pc, _FUNCTIONS[op])(pa.array(order), pa.scalar(0, pa.int8()))
    if strange.any():
        # Not-a-number is neither equal to anything nor on either side of it.
        verdict = pc.if_else(pa.array(strange), pa.scalar(op is CompareOp.NE), verdict)
    return pc.if_else(known, verdict, pa.scalar(None, pa.bool_()))


def _numbers(column: Column) -> NDArray[np.float64]:
    return np.asarray(pc.fill_null(_flat(column), 0.0))


def _flat(column: Column) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _sign(left: Column, right: Column) -> NDArray[np.int8]:
    first, second = _numbers(left), _numbers(right)
    return (first > second).astype(np.int8) - (first < second).astype(np.int8)


def representable(values: Sequence[object], wanted: pa.DataType) -> pa.Array:
    """Return those of the values that a column of this type can hold exactly, as an array."""
    kept = [value for value in values if _fits(value, wanted)]
    return pa.array([_as(value, wanted) for value in kept], wanted)


def _fits(value: object, wanted: pa.DataType) -> bool:
    kind = _kind(wanted)
    if kind == "other" or isinstance(value, bool) or not isinstance(value, int | float):
        return True
    if isinstance(value, float) and not math.isfinite(value):
        return kind == "float"
    if kind == "float":
        with np.errstate(over="ignore"):
            narrow = float(np.float32(value)) if wanted.bit_width == 32 else float(value)
        return math.isfinite(narrow) and narrow == value
    if value != int(value):
        return False
    low, high = _range(wanted)
    return low <= int(value) <= high


def _as(value: object, wanted: pa.DataType) -> object:
    if _kind(wanted) == "integer" and isinstance(value, float):
        return int(value)
    return float(value) if _kind(wanted) == "float" and isinstance(value, int) else value


def _range(wanted: pa.DataType) -> tuple[int, int]:
    bits = wanted.bit_width
    if pa.types.is_unsigned_integer(wanted):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
