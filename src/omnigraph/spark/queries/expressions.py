"""Plan expressions as Spark columns, with three-valued logic throughout."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from omnigraph.catalog import Scalar
from omnigraph.catalog.model import LiteralValue
from omnigraph.compute import constant_value
from omnigraph.compute.compare import representable
from omnigraph.compute.types import arrow_type
from omnigraph.errors import InternalError
from omnigraph.plan.expression import (
    And,
    Arithmetic,
    ArithmeticOp,
    Compare,
    Expression,
    IsNull,
    Member,
    Negate,
    Not,
    Or,
    Substring,
    Vanishing,
    can_overflow,
    variables_of,
)
from omnigraph.read.reads import column_name
from omnigraph.spark.queries.values import (
    Column,
    calculate,
    compare,
    contains,
    literal,
    negate,
)

Lookup = Callable[[str, str], Column]
"""Returns a column of a variable; ids and ends of edges are `id`, `src`, `dst`."""

_CONDITIONS = Compare | Member | Substring | IsNull | And | Or | Not | Vanishing


@dataclass(frozen=True, slots=True)
class Expressions:
    """Compiles expressions over the columns that a lookup returns."""

    lookup: Lookup
    parameters: Mapping[str, LiteralValue]
    now: datetime.datetime

    def constant(self, expression: Expression) -> LiteralValue:
        """Return the value of what reads no rows."""
        return constant_value(expression, self.parameters, self.now)

    def condition(self, expression: Expression) -> Column:
        """Return a condition; one that vanished is true."""
        from pyspark.sql import functions as F

        condition = self._condition(expression)
        return F.lit(True) if condition is None else condition

    def value(self, expression: Expression) -> Column:
        """Return the value of an expression."""
        if isinstance(expression, _CONDITIONS):
            return self.condition(expression)
        if not variables_of(expression):
            return literal(self.constant(expression), expression.type)
        named = column_name(expression)
        if named is not None:
            return self.lookup(*named)
        match expression:
            case Negate():
                return negate(
                    self.value(expression.operand),
                    wide=_is_wide(expression.operand),
                    whole=expression.type.is_integer,
                    known=self._known(expression.operand),
                )
            case Arithmetic():
                return calculate(
                    expression.op,
                    self.value(expression.left),
                    self.value(expression.right),
                    wide=_is_wide(expression.left) or _is_wide(expression.right),
                    whole=expression.type.is_integer,
                    known=self._known(expression.left) & self._known(expression.right),
                )
            case _:
                raise InternalError(f"{type(expression).__name__} has no value on Spark")

    def _known(self, expression: Expression) -> Column:
        """Return where a number is not null, without calculating it once more."""
        from pyspark.sql import functions as F

        match expression:
            case Negate():
                return self._known(expression.operand)
            case Arithmetic() if variables_of(expression):
                known = self._known(expression.left) & self._known(expression.right)
                if expression.op in (ArithmeticOp.DIV, ArithmeticOp.MOD):
                    known = known & (self.value(expression.right) != F.lit(0))
                return known
            case _:
                return self.value(expression).isNotNull()

    # ---- conditions -----------------------------------------------------------------------

    def _condition(self, expression: Expression) -> Column | None:
        """Return a condition, null where it is unknown; None when it vanished."""
        match expression:
            case And() | Or():
                return self._joined(expression)
            case Not():
                inner = self._condition(expression.operand)
                return None if inner is None else ~inner
            case Vanishing():
                if any(self.parameters[name] is None for name in expression.parameters):
                    return None
                return self._condition(expression.condition)
            case IsNull():
                operand = self.value(expression.operand)
                return operand.isNotNull() if expression.negated else operand.isNull()
            case Compare():
                left, right = self.value(expression.left), self.value(expression.right)
                kinds = (expression.left.type, expression.right.type)
                return compare(expression.op, left, right, kinds)
            case Member():
                return self._member(expression)
            case Substring():
                text, part = self.value(expression.text), self.value(expression.part)
                return text.startswith(part) if expression.prefix else text.contains(part)
            case _:
                return self.value(expression)

    def _joined(self, expression: And | Or) -> Column | None:
        from pyspark.sql import functions as F

        parts = [self._condition(item) for item in expression.operands]
        kept = [item for item in parts if item is not None]
        if not kept:
            return None
        every = isinstance(expression, And)
        if len(kept) > 1 and any(can_overflow(item) for item in expression.operands):
            # Spark leaves out an operand that the one before it has decided. In a list all are
            # evaluated, so that an overflow is an error wherever it stands.
            return (F.forall if every else F.exists)(F.array(*kept), lambda item: item)
        condition = kept[0]
        for item in kept[1:]:
            condition = condition & item if every else condition | item
        return condition

    def _member(self, expression: Member) -> Column:
        from pyspark.sql import functions as F

        item = self.value(expression.item)
        if variables_of(expression.container):
            kinds = (expression.container.type.element, expression.item.type)
            return contains(self.value(expression.container), item, kinds)
        values = self.constant(expression.container)
        if not isinstance(values, tuple):
            return F.lit(None).cast("boolean")
        wanted = arrow_type(expression.item.type)
        kept = representable(values, wanted).to_pylist()
        if not kept:
            return F.when(item.isNotNull(), F.lit(False))
        return item.isin(*[literal(value, expression.item.type) for value in kept])


def _is_wide(expression: Expression) -> bool:
    return expression.type.scalar is Scalar.U64
