"""Evaluates expressions of a mapping, value by value: what comes out depends on one record alone.

So a result is the same in any piece, engine and form of input, and what cannot be computed is a
problem of one row. Null in gives null out, except where a function is about nulls.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar, cast

from omnigraph.catalog.temporal import parse_date, parse_datetime
from omnigraph.lang.column_expressions import column_of, compile_column_expression
from omnigraph.lang.gq_ast import (
    BinaryNode,
    CallNode,
    ExpressionNode,
    LiteralNode,
    NullTestNode,
    UnaryNode,
)

Record = Callable[[str], object]
"""Returns the value of a column of one record."""
Compute = Callable[[Record], object]
Operator = Callable[[Any, Any], object]
"""Takes whatever values it is given, and raises for those that it cannot take."""
Number = int | float | Decimal
T = TypeVar("T")
_EPOCH = datetime.date(1970, 1, 1)
_NUMBER = re.compile(r"[+-]?[0-9]+")
_DIGITS_MAX = 4000


class UnfitValueError(ValueError):
    """A value that an expression cannot be computed from."""


UNFIT = (ValueError, ArithmeticError, TypeError)
"""What computing raises for values that it cannot take: a problem of one row, never of a load."""


@lru_cache(maxsize=256)
def computing(text: str) -> Compute:
    """Return what computes an expression from a record."""
    return _compute(compile_column_expression(text, "the mapping"))


def _compute(node: ExpressionNode) -> Compute:
    column = column_of(node)
    if column is not None:
        return lambda record: record(column)
    if isinstance(node, LiteralNode):
        value = list(node.value) if isinstance(node.value, tuple) else node.value
        return lambda _record: value
    if isinstance(node, NullTestNode):
        tested, negated = _compute(node.operand), node.negated
        return lambda record: (tested(record) is None) != negated
    if isinstance(node, UnaryNode):
        operand = _compute(node.operand)
        function = _not if node.op == "not" else _minus
        return lambda record: function(operand(record))
    if isinstance(node, BinaryNode):
        return _binary(node.op, _compute(node.left), _compute(node.right))
    if isinstance(node, CallNode):
        return _call(node.function, [_compute(item) for item in node.arguments])
    raise AssertionError(f"a {type(node).__name__} in a mapping")


def _binary(op: str, left: Compute, right: Compute) -> Compute:
    if op in ("and", "or"):
        decided = op == "or"

        def both(record: Record) -> bool | None:
            first = _condition(left(record))
            if first is decided:
                return decided
            second = _condition(right(record))
            if second is decided:
                return decided
            return None if first is None or second is None else not decided

        return both
    function = _OPERATORS[op]

    def calculate(record: Record) -> object:
        first, second = left(record), right(record)
        return None if first is None or second is None else function(first, second)

    return calculate


def _call(name: str, arguments: Sequence[Compute]) -> Compute:
    if name == "coalesce":
        return lambda record: next((v for f in arguments if (v := f(record)) is not None), None)
    if name == "if":
        condition, then, otherwise = arguments
        return lambda record: (then if _condition(condition(record)) else otherwise)(record)
    if name == "try":
        return lambda record: _tried(arguments[0], record)
    if name == "null_if":
        first, *others = arguments
        return lambda record: _null_if(first(record), [item(record) for item in others])
    function = _FUNCTIONS[name]

    def call(record: Record) -> object:
        values = [item(record) for item in arguments]
        return None if any(value is None for value in values) else function(*values)

    return call


# ---- conditions and numbers ---------------------------------------------------------------


def condition_of(value: object) -> bool:
    """Return whether a condition holds; null does not."""
    return _condition(value) is True


def _condition(value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise UnfitValueError(f"expected true or false, got {shown(value)}")


def _not(value: object) -> bool | None:
    condition = _condition(value)
    return None if condition is None else not condition


def _minus(value: object) -> Number | None:
    return None if value is None else -_number(value)


def _number(value: object) -> Number:
    if isinstance(value, Number) and not isinstance(value, bool):
        return value
    hint = ": use integer(...) or float(...)" if isinstance(value, str) else ""
    raise UnfitValueError(f"expected a number, got {shown(value)}{hint}")


def _arithmetic(function: Operator) -> Operator:
    def calculate(left: object, right: object) -> object:
        first, second = _number(left), _number(right)
        try:
            return function(first, second)
        except UNFIT as error:
            raise UnfitValueError(f"cannot calculate with {left} and {right}") from error

    return calculate


def _divided(left: Any, right: Any) -> Any:  # noqa: ANN401 - numbers of one kind or two
    if isinstance(left, int) and isinstance(right, int):
        whole = abs(left) // abs(right)
        return whole if (left < 0) == (right < 0) else -whole
    return left / right


def _remainder(left: Any, right: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(left, int) and isinstance(right, int):
        return left - right * _divided(left, right)
    return math.fmod(left, right)


def _compared(function: Operator) -> Operator:
    def compare(left: object, right: object) -> bool:
        try:
            if isinstance(left, bool) != isinstance(right, bool):
                raise TypeError
            return bool(function(left, right))
        except TypeError:
            message = f"cannot compare {shown(left)} with {shown(right)}"
            raise UnfitValueError(message) from None

    return compare


def _same(left: object, right: object) -> bool:
    kinds = (str, bool, Number, datetime.datetime, datetime.date, list, dict)
    alike = any(isinstance(left, kind) and isinstance(right, kind) for kind in kinds)
    if not alike or isinstance(left, bool) != isinstance(right, bool):
        raise TypeError
    return bool(left == right)


def _contains(left: object, right: object) -> bool:
    return right in left if isinstance(left, list) else _text(right) in _text(left)


def _member(left: object, right: object) -> bool:
    if not isinstance(right, list):
        raise UnfitValueError(f"expected a list after `in`, got {shown(right)}")
    return left in right


def _null_if(value: object, others: Sequence[object]) -> object:
    return None if value in others else value


def _tried(function: Compute, record: Record) -> object:
    try:
        return function(record)
    except UNFIT:
        return None


# ---- texts and casts ----------------------------------------------------------------------


def shown(value: object) -> str:
    """Return a value as messages show it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str) else str(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise UnfitValueError(f"expected a text, got {shown(value)}")


def _string(value: object) -> str:
    """Return a value as text: numbers as keys have them, days and instants as people write them."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnfitValueError(f"{value} has no text")
        text = format(Decimal(repr(value)), "f")
        return text.removesuffix(".0")
    if isinstance(value, datetime.datetime):
        return _in_utc(value).astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))
    return str(value)


def _key_text(value: object) -> str:
    if isinstance(value, datetime.datetime):
        return str(int(_in_utc(value).timestamp() * 1000))
    if isinstance(value, datetime.date):
        return str((value - _EPOCH).days)
    return _string(value)


def _key(*values: object) -> str:
    texts = [_key_text(value) for value in values]
    if len(texts) == 1:
        return texts[0]
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def _hash(*values: object) -> str:
    text = json.dumps([_key_text(value) for value in values], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _integer(value: object) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        if len(value) > _DIGITS_MAX:
            raise UnfitValueError(f"{len(value)} digits are too many for an integer")
        return int(value)
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        return int(value)
    raise UnfitValueError(f"{shown(value)} is not an integer")


def _float(value: Any) -> float:  # noqa: ANN401 - Python's own `float` refuses what is none
    try:
        number = float(value.strip() if isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UnfitValueError(f"{shown(value)} is not a number")
    return number


_TRUE = frozenset({"true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0"})


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise UnfitValueError(f"{shown(value)} is neither true nor false")


def _date(value: object, form: object = None) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    return _moment(value, form, parse_date, lambda moment: moment.date())


def _datetime(value: object, form: object = None) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return _in_utc(value)
    return _moment(value, form, parse_datetime, _in_utc)


def _moment(
    value: object,
    form: object,
    parse: Callable[[str], T],
    finish: Callable[[datetime.datetime], T],
) -> T:
    text, pattern = _text(value).strip(), None if form is None else _text(form)
    try:
        if pattern is None:
            return parse(text)
        return finish(datetime.datetime.strptime(text, pattern))
    except ValueError as error:
        raise UnfitValueError(str(error)) from error


def _in_utc(moment: datetime.datetime) -> datetime.datetime:
    return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment


def _substring(text: object, start: object, length: object = None) -> str:
    """Return a part of a text, counted from 1."""
    first = max(_integer(start) - 1, 0)
    return _text(text)[first : None if length is None else first + _integer(length)]


def _part(text: object, separator: object, number: object) -> str | None:
    parts, at = _split(text, separator), _integer(number)
    return parts[at - 1] if 0 < at <= len(parts) else None


def _split(text: object, separator: object) -> list[str]:
    if not _text(separator):
        raise UnfitValueError("a text cannot be split at nothing")
    return _text(text).split(_text(separator))


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else len(_text(value))


def _round(value: object, digits: object = 0) -> Number:
    number = _number(value)
    if not math.isfinite(number):
        raise UnfitValueError(f"{value} cannot be rounded")
    rounded = cast("Number", round(number, _integer(digits)))
    return int(rounded) if digits == 0 else rounded


_OPERATORS: Mapping[str, Operator] = {
    "+": _arithmetic(lambda a, b: a + b),
    "-": _arithmetic(lambda a, b: a - b),
    "*": _arithmetic(lambda a, b: a * b),
    "/": _arithmetic(_divided),
    "%": _arithmetic(_remainder),
    "=": _compared(_same),
    "!=": _compared(lambda a, b: not _same(a, b)),
    "<": _compared(lambda a, b: a < b),
    "<=": _compared(lambda a, b: a <= b),
    ">": _compared(lambda a, b: a > b),
    ">=": _compared(lambda a, b: a >= b),
    "contains": _contains,
    "starts_with": lambda a, b: _text(a).startswith(_text(b)),
    "in": _member,
}
_FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "abs": lambda value: abs(_number(value)),
    "boolean": _boolean,
    "concat": lambda *values: "".join(_string(value) for value in values),
    "date": _date,
    "datetime": _datetime,
    "float": _float,
    "hash": _hash,
    "integer": _integer,
    "key": _key,
    "length": _length,
    "lower": lambda value: _text(value).lower(),
    "part": _part,
    "replace": lambda value, old, new: _text(value).replace(_text(old), _text(new)),
    "round": _round,
    "split": _split,
    "string": _string,
    "substring": _substring,
    "trim": lambda value: _text(value).strip(),
    "upper": lambda value: _text(value).upper(),
}
