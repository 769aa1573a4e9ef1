"""Values as Spark columns: literals, and comparisons and calculations that mean what ours mean.

Spark differs in overflow, in not-a-number, in comparing integers with floats and in dates before
1582. Each function here says the same as its counterpart in `omnigraph.compute`, in a session of
any settings: nothing depends on its ANSI mode, its time zone or its collation.
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.catalog import PropertyType, Scalar
from omnigraph.catalog.model import LiteralValue
from omnigraph.compute.types import arrow_type
from omnigraph.plan.expression import ArithmeticOp, CompareOp
from omnigraph.spark.frames import sql_type

if TYPE_CHECKING:
    from pyspark.sql import Column as Column
else:
    Column = object
"""A column of PySpark: classic and Connect have a class each."""

OVERFLOW = "integer overflow in a calculation"
SUM_OVERFLOW = "integer overflow: a sum does not fit in 64 bits"
COUNT_OVERFLOW = "integer overflow: the number of rows does not fit in 64 bits"

WIDE = "decimal(20,0)"
"""Holds signed and unsigned integers of 64 bits."""

_HALF_WORD = 2.0**32
_EXACT = 2.0**53
_U64_END = 2.0**64
_MILLIS = 1000
_CALLS = {ArithmeticOp.ADD: "try_add", ArithmeticOp.SUB: "try_subtract"}
_CALLS[ArithmeticOp.MUL] = "try_multiply"


def literal(value: LiteralValue, wanted: PropertyType) -> Column:
    """Return a constant of a type, as a query sees it: instants in milliseconds, F32 rounded."""
    from pyspark.sql import functions as F

    if value is None:
        return F.lit(None).cast(sql_type(wanted))
    if isinstance(value, tuple):
        element = wanted.element if wanted.is_list else PropertyType(scalar=Scalar.F32)
        items = [literal(item, element) for item in value]
        return F.array(*items).cast(sql_type(wanted))
    match wanted.scalar:
        case Scalar.DATE:
            days = pa.scalar(value, arrow_type(wanted)).value
            return F.date_from_unix_date(F.lit(days))
        case Scalar.DATETIME:
            millis = pa.scalar(value, arrow_type(wanted)).value
            return F.timestamp_micros(F.lit(millis * _MILLIS).cast("bigint"))
        case Scalar.U64:
            return F.lit(decimal.Decimal(str(value))).cast(WIDE)
        case _:
            return F.lit(value).cast(sql_type(wanted))


# ---- calculations -------------------------------------------------------------------------


def calculate(
    op: ArithmeticOp, left: Column, right: Column, *, wide: bool, whole: bool, known: Column
) -> Column:
    """Combine two numbers; divided by zero is null, an integer that leaves 64 bits an error.

    `whole` says that the result is an integer, `wide` that an operand is unsigned with 64 bits.
    `known` is true where neither operand is null.
    """
    from pyspark.sql import functions as F

    operand = "double" if not whole else WIDE if wide else "bigint"
    left, right = left.cast(operand), right.cast(operand)
    if op in (ArithmeticOp.DIV, ArithmeticOp.MOD):
        divisor = F.when(right != F.lit(0), right)
        value = left / divisor if op is ArithmeticOp.DIV else left % divisor
        if not (wide and whole):
            return value
        checked = value.try_cast("bigint")
        bad = known & (right != F.lit(0))
        return F.coalesce(checked, F.when(bad, refuse(OVERFLOW, "bigint")))
    if not whole:
        return {"+": left + right, "-": left - right, "*": left * right}[op.value]
    value = F.call_function(_CALLS[op], left, right)
    if wide:
        value = value.try_cast("bigint")
    return F.coalesce(value, F.when(known, refuse(OVERFLOW, "bigint")))


def negate(value: Column, *, wide: bool, whole: bool, known: Column) -> Column:
    """Change the sign of a number."""
    from pyspark.sql import functions as F

    if not whole:
        return -value.cast("double")
    zero = F.lit(0)
    return calculate(ArithmeticOp.SUB, zero, value, wide=wide, whole=True, known=known)


def refuse(message: str, kind: str) -> Column:
    """Return a column that is an error wherever it is looked at."""
    from pyspark.sql import functions as F

    return F.raise_error(F.lit(message)).cast(kind)


def fitted(value: Column, wanted: PropertyType, message: str) -> Column:
    """Return a decimal as an integer of 64 bits, or an error where it does not fit."""
    from pyspark.sql import functions as F

    if wanted.scalar is Scalar.U64:
        most = F.lit(decimal.Decimal(2**64 - 1))
        bad = (value > most) | (value < F.lit(0))
        return F.when(bad, refuse(message, WIDE)).otherwise(value.try_cast(WIDE))
    integer = value.try_cast("bigint")
    return F.coalesce(integer, F.when(value.isNotNull(), refuse(message, "bigint")))


# ---- comparisons --------------------------------------------------------------------------


def compare(
    op: CompareOp, left: Column, right: Column, kinds: tuple[PropertyType, PropertyType]
) -> Column:
    """Compare two scalars by value; unknown where one is null, never true of not-a-number."""
    one, other = kinds
    if one.is_integer and other.is_integer:
        kind = common_integer(one, other)
        return _applied(op, left.cast(kind), right.cast(kind))
    if not one.is_numeric or not other.is_numeric:
        return _applied(op, left, right)
    if one.is_integer and _is_float(other):
        return _whole_with_float(op, left, right, one)
    if _is_float(one) and other.is_integer:
        return _whole_with_float(_MIRRORED.get(op, op), right, left, other)
    left, right = left.cast("double"), right.cast("double")
    return _unless_nan(op, (left, right), _applied(op, left, right))


_MIRRORED = {
    CompareOp.LT: CompareOp.GT,
    CompareOp.LE: CompareOp.GE,
    CompareOp.GT: CompareOp.LT,
    CompareOp.GE: CompareOp.LE,
}


def _is_float(kind: PropertyType) -> bool:
    return kind.is_numeric and not kind.is_integer


def common_integer(one: PropertyType, other: PropertyType) -> str:
    """Return the Spark type in which two integers are compared exactly."""
    return WIDE if Scalar.U64 in (one.scalar, other.scalar) else "bigint"


def _applied(op: CompareOp, left: Column, right: Column) -> Column:
    match op:
        case CompareOp.EQ:
            return left == right
        case CompareOp.NE:
            return left != right
        case CompareOp.LT:
            return left < right
        case CompareOp.LE:
            return left <= right
        case CompareOp.GT:
            return left > right
        case CompareOp.GE:
            return left >= right


def _unless_nan(op: CompareOp, values: tuple[Column, ...], verdict: Column) -> Column:
    """Return a verdict; not-a-number is neither equal to anything nor on either side of it."""
    from pyspark.sql import functions as F

    # Spark takes it for equal to itself and above all. Beside null it is still unknown.
    strange = F.isnan(values[0])
    for value in values[1:]:
        strange = strange | F.isnan(value)
    decided = verdict.isNotNull() & strange
    return F.when(decided, F.lit(op is CompareOp.NE)).otherwise(verdict)


def _whole_with_float(op: CompareOp, whole: Column, real: Column, kind: PropertyType) -> Column:
    """Compare an integer with a float exactly: casting 64 bits to a float rounds them."""
    from pyspark.sql import functions as F

    real, near = real.cast("double"), whole.cast("double")
    rough = _applied(op, near, real)
    if kind.scalar in (Scalar.I64, Scalar.U64):
        # Only where rounding made them equal can the integer still lie to either side.
        doubtful = (near == real) & (F.abs(near) >= F.lit(_EXACT))
        exact = _applied(op, whole.cast(WIDE), whole_of(real))
        rough = F.when(doubtful, exact).otherwise(rough)
    return _unless_nan(op, (real,), rough)


def whole_of(real: Column) -> Column:
    """Return a float without fraction as a decimal, exactly; null where it has one or is huge."""
    from pyspark.sql import functions as F

    # Spark casts a float to a decimal by its shortest text, which is another number.
    high = F.floor(real / F.lit(_HALF_WORD)).cast("double")
    low = real - high * F.lit(_HALF_WORD)
    word = F.lit(decimal.Decimal(2**32)).cast(WIDE)
    whole = high.try_cast(WIDE) * word + low.try_cast(WIDE)
    plain = (F.abs(real) <= F.lit(_U64_END)) & (low == F.floor(low))
    return F.when(plain, whole)


def join_key(value: Column, mine: PropertyType, other: PropertyType) -> Column:
    """Return a key that equals that of another value exactly where `=` finds the values equal."""
    from pyspark.sql import functions as F

    if mine.is_integer and other.is_integer:
        return value.cast(common_integer(mine, other))
    if _is_float(mine) and _is_float(other):
        real = value.cast("double")
        return F.when(~F.isnan(real), real)
    if mine.is_integer and _is_float(other):
        return value.cast("decimal(38,0)")
    if _is_float(mine) and other.is_integer:
        return whole_of(value.cast("double")).cast("decimal(38,0)")
    return value


def contains(items: Column, item: Column, kinds: tuple[PropertyType, PropertyType]) -> Column:
    """Tell whether a list holds a value; unknown if either is null, whatever the list holds."""
    from pyspark.sql import functions as F

    def same(element: Column) -> Column:
        return F.coalesce(compare(CompareOp.EQ, element, item, kinds), F.lit(False))

    return F.when(items.isNotNull() & item.isNotNull(), F.exists(items, same))
