"""Evaluates expressions on Arrow columns, with three-valued logic throughout."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import LiteralValue
from omnigraph.compute.arithmetic import calculate, negate
from omnigraph.compute.compare import compare, mirrored, representable
from omnigraph.compute.constants import plain_value
from omnigraph.compute.keys import group_key
from omnigraph.compute.types import Column, Value, arrow_type
from omnigraph.errors import InternalError
from omnigraph.plan.expression import (
    And,
    Arithmetic,
    Compare,
    CompareOp,
    EndpointOf,
    Expression,
    IdOf,
    IsNull,
    Member,
    Negate,
    Not,
    ObjectOf,
    Or,
    PathOf,
    PathPart,
    PropertyOf,
    SubqueryValue,
    Substring,
    TypeOf,
    Vanishing,
    variables_of,
)

TYPE = "#type"
"""The name of the type of a row, as a column; no property can be called so."""
_ENDPOINTS = {"from": "src", "to": "dst"}
_UNKNOWN = pa.scalar(None, pa.bool_())
_CONDITIONS = (Compare, Member, Substring, IsNull, And, Or, Not, Vanishing)


class Columns(Protocol):
    """The rows an expression is evaluated on."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def column(self, variable: str, name: str) -> Column:
        """Return a stored column of a variable; ids and endpoints are `id`, `src`, `dst`.

        The name of a row's type is `TYPE`.
        """


class Evaluator:
    """Evaluates expressions over one set of rows."""

    def __init__(
        self,
        columns: Columns,
        parameters: Mapping[str, LiteralValue],
        now: datetime.datetime,
    ) -> None:
        self._columns = columns
        self._parameters = parameters
        self._now = now

    def value(self, expression: Expression) -> Value:
        """Return an Arrow array (or scalar, for what reads no rows)."""
        if not _is_condition(expression) and not variables_of(expression):
            value = plain_value(expression, self._parameters, self._now)
            return _scalar(value, expression)
        match expression:
            case PropertyOf():
                return self._columns.column(expression.variable, expression.property)
            case IdOf():
                return self._columns.column(expression.variable, "id")
            case EndpointOf():
                return self._columns.column(expression.variable, _ENDPOINTS[expression.end])
            case PathOf():
                nodes = self._columns.column(expression.variable, "value")
                if expression.part is PathPart.NODES:
                    return nodes
                return pc.subtract(pc.cast(pc.list_value_length(nodes), pa.int64()), 1)
            case TypeOf():
                return self._columns.column(expression.variable, TYPE)
            case SubqueryValue():
                return self._columns.column(expression.variable, "value")
            case ObjectOf():
                return self._object(expression)
            case Negate():
                return negate(self.value(expression.operand), arrow_type(expression.type))
            case Arithmetic():
                left, right = self.value(expression.left), self.value(expression.right)
                return calculate(expression.op, left, right, arrow_type(expression.type))
            case _:
                truth = self.condition(expression)
                if truth is None:
                    return pa.scalar(True)
                return truth

    def condition(self, expression: Expression) -> Value | None:
        """Return a Boolean array with nulls for unknown; None when the condition vanished."""
        match expression:
            case And() | Or():
                parts = [self.condition(item) for item in expression.operands]
                kept = [item for item in parts if item is not None]
                if not kept:
                    return None
                join = pc.and_kleene if isinstance(expression, And) else pc.or_kleene
                truth = kept[0]
                for item in kept[1:]:
                    truth = join(truth, item)
                return truth
            case Not():
                inner = self.condition(expression.operand)
                return None if inner is None else pc.invert(inner)
            case Vanishing():
                if any(self._parameters[name] is None for name in expression.parameters):
                    return None
                return self.condition(expression.condition)
            case IsNull():
                operand = self.value(expression.operand)
                return pc.is_valid(operand) if expression.negated else pc.is_null(operand)
            case Compare():
                return self._compare(expression)
            case Member():
                return self._member(expression)
            case Substring():
                return self._substring(expression)
            case _:
                return self.value(expression)

    def _object(self, expression: ObjectOf) -> Value:
        names = [name for name, _type in expression.type.fields]
        parts = [_flat(self.value(part)) for part in expression.parts]
        return pa.StructArray.from_arrays(parts, names, mask=pc.is_null(parts[0]))

    # ---- operators ------------------------------------------------------------------------

    def _compare(self, expression: Compare) -> Value:
        left, right = self.value(expression.left), self.value(expression.right)
        op = expression.op
        if _is_constant(left) and not _is_constant(right):
            left, right, op = right, left, mirrored(op)
        return compare(left, right, op)

    def _member(self, expression: Member) -> Value:
        item, container = self.value(expression.item), self.value(expression.container)
        if _is_constant(container):
            if not container.is_valid:
                return _UNKNOWN
            # Membership goes by bytes, so both sides are spelled as keys: 0.0 is -0.0.
            values = container.values
            if not values.type.equals(item.type):
                values = representable(container.as_py(), item.type)
            values = group_key(values)
            matches = pc.is_in(group_key(item), value_set=values)
            return pc.if_else(pc.is_valid(item), matches, _UNKNOWN)
        lists = container.combine_chunks() if isinstance(container, pa.ChunkedArray) else container
        return _list_contains(lists, item)

    def _substring(self, expression: Substring) -> Value:
        text, part = self.value(expression.text), self.value(expression.part)
        if not _is_constant(part):
            if _is_constant(text):
                text = pa.repeat(text, self._columns.rows)
            pairs = zip(text.to_pylist(), part.to_pylist(), strict=True)
            return pa.array([_holds(a, b, prefix=expression.prefix) for a, b in pairs], pa.bool_())
        if not part.is_valid:
            return _UNKNOWN
        if _is_constant(text):
            holds = _holds(text.as_py(), part.as_py(), prefix=expression.prefix)
            return pa.scalar(holds, pa.bool_())
        if expression.prefix:
            return pc.starts_with(text, part.as_py())
        return pc.match_substring(text, part.as_py())


def evaluate_condition(
    expression: Expression,
    columns: Columns,
    parameters: Mapping[str, LiteralValue],
    now: datetime.datetime,
) -> Column:
    """Return a Boolean array: true where the condition is true (not where it is unknown)."""
    truth = Evaluator(columns, parameters, now).condition(expression)
    if truth is None:
        truth = pa.scalar(True)
    if _is_constant(truth):
        truth = pa.repeat(truth, columns.rows)
    return pc.fill_null(truth, False)


def evaluate_value(
    expression: Expression,
    columns: Columns,
    parameters: Mapping[str, LiteralValue],
    now: datetime.datetime,
) -> Column:
    """Return the value of an expression for every row."""
    value = Evaluator(columns, parameters, now).value(expression)
    if _is_constant(value):
        return pa.repeat(value, columns.rows)
    return value


class _NoColumns:
    rows = 1

    def column(self, variable: str, name: str) -> Column:
        raise InternalError(f"${variable}.{name} is not a constant")


def constant_value(
    expression: Expression,
    parameters: Mapping[str, LiteralValue],
    now: datetime.datetime,
) -> LiteralValue:
    """Return the value of an expression without variables."""
    if not _is_condition(expression):
        return plain_value(expression, parameters, now)
    truth: bool | None = Evaluator(_NoColumns(), parameters, now).value(expression).as_py()
    return truth


def _is_condition(expression: Expression) -> bool:
    return isinstance(expression, _CONDITIONS)


def _flat(value: Value) -> Value:
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


def _is_constant(value: Value) -> bool:
    return isinstance(value, pa.Scalar)


def _scalar(value: LiteralValue, expression: Expression) -> pa.Scalar:
    wanted = arrow_type(expression.type)
    if isinstance(value, tuple):
        return pa.scalar(list(value), wanted)
    return pa.scalar(value, wanted)


def _list_contains(lists: pa.Array, item: Value) -> Value:
    """Tell per row whether its list holds an item (one for all rows, or one per row)."""
    parents = pc.list_parent_indices(lists)
    values = pc.list_flatten(lists)
    wanted = item if _is_constant(item) else pc.take(item, parents)
    same = compare(values, wanted, CompareOp.EQ)
    hits = pc.filter(parents, pc.fill_null(same, False))
    holds = np.zeros(len(lists), dtype=bool)
    holds[np.asarray(hits)] = True
    known = pc.is_valid(lists)
    if _is_constant(item):
        known = pc.and_(known, pa.scalar(item.is_valid))
    else:
        known = pc.and_(known, pc.is_valid(item))
    return pc.if_else(known, pa.array(holds), _UNKNOWN)


def _holds(text: str | None, part: str | None, *, prefix: bool) -> bool | None:
    if text is None or part is None:
        return None
    return text.startswith(part) if prefix else part in text
