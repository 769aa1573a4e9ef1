"""Expressions on columns: every operator, three-valued logic, and exact numbers."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.catalog import Scalar
from omnigraph.compute import constant_value
from omnigraph.errors import QueryError
from omnigraph.plan.expression import (
    FLOAT,
    INT,
    And,
    Arithmetic,
    ArithmeticOp,
    Expression,
    IdOf,
    IsNull,
    Member,
    Negate,
    Not,
    Now,
    Or,
    Substring,
    Vanishing,
)
from tests.unit.compute.expressions import (
    NOW,
    Rows,
    compare,
    computed,
    kept,
    lists,
    param,
    prop,
    table,
    value,
)

I64, F64, TEXT, BOOL = Scalar.I64, Scalar.F64, Scalar.STRING, Scalar.BOOL
OPERATORS: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,  # type: ignore[dict-item]
    "<=": operator.le,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}
longs = st.integers(-(2**63), 2**63 - 1)
doubles = st.floats(allow_nan=False, allow_infinity=False)


# ---- comparison ---------------------------------------------------------------------------


@pytest.mark.parametrize("op", OPERATORS)
def test_a_comparison_with_null_is_never_true(op: str) -> None:
    rows = table(a=(I64, [1, None]), b=(I64, [None, None]))
    left, right = prop("a", I64), prop("b", I64)
    assert kept(compare(left, op, right), rows) == [False, False]
    assert kept(Not(operand=compare(left, op, right)), rows) == [False, False]
    assert kept(compare(left, op, param("p", I64)), rows, {"p": None}) == [False, False]


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize(
    ("scalar", "low", "high"),
    [
        (Scalar.I32, -1, 2),
        (Scalar.U64, 0, 2**64 - 1),
        (F64, -0.5, 0.25),
        (Scalar.F32, -0.5, 0.25),
        (TEXT, "Z", "a"),
        (TEXT, "", "é"),
        (BOOL, False, True),
        (Scalar.DATE, datetime.date(1969, 12, 31), datetime.date(2025, 3, 1)),
        (Scalar.DATETIME, NOW, NOW + datetime.timedelta(milliseconds=1)),
    ],
)
def test_values_of_one_type_compare_in_their_order(
    op: str, scalar: Scalar, low: object, high: object
) -> None:
    rows = table(a=(scalar, [low, low, high]), b=(scalar, [low, high, low]))
    expected = [OPERATORS[op](a, b) for a, b in ((low, low), (low, high), (high, low))]
    assert kept(compare(prop("a", scalar), op, prop("b", scalar)), rows) == expected


@pytest.mark.parametrize("op", OPERATORS)
@given(number=longs, other=doubles)
def test_an_integer_column_is_compared_with_a_float_exactly(
    op: str, number: int, other: float
) -> None:
    rows = table(a=(I64, [number]))
    expected = OPERATORS[op](number, other)
    assert kept(compare(prop("a", I64), op, value(other, F64)), rows) == [expected]
    mirrored = OPERATORS[op](other, number)
    assert kept(compare(value(other, F64), op, prop("a", I64)), rows) == [mirrored]


@given(number=st.integers(0, 2**64 - 1), other=longs)
def test_integers_of_any_width_are_compared_exactly(number: int, other: int) -> None:
    rows = table(a=(Scalar.U64, [number]), b=(I64, [other]))
    for op, means in OPERATORS.items():
        left = prop("a", Scalar.U64)
        assert kept(compare(left, op, prop("b", I64)), rows) == [means(number, other)]
        assert kept(compare(left, op, value(other, I64)), rows) == [means(number, other)]


@pytest.mark.parametrize("other", [2.0**63, -(2.0**63), 1e300, -1e300, 0.5, -0.5])
def test_a_float_beyond_every_integer_has_a_side(other: float) -> None:
    rows = table(a=(I64, [-(2**63), 0, 2**63 - 1, None]))
    for op, means in OPERATORS.items():
        expected = [means(number, other) for number in (-(2**63), 0, 2**63 - 1)]
        found = kept(compare(prop("a", I64), op, value(other, F64)), rows)
        assert found == [*expected, False], op


def test_a_float_column_is_compared_with_an_integer_constant_exactly() -> None:
    rows = table(a=(F64, [2.0**53]))
    assert kept(compare(prop("a", F64), "=", value(2**53 + 1, I64)), rows) == [False]


def test_an_integer_and_a_float_column_are_compared_exactly() -> None:
    rows = table(a=(I64, [2**53 + 1]), b=(F64, [2.0**53]))
    assert kept(compare(prop("a", I64), "=", prop("b", F64)), rows) == [False]


def test_infinity_is_greater_than_every_integer() -> None:
    rows = table(a=(I64, [1]))
    assert kept(compare(prop("a", I64), "<", value(float("inf"), F64)), rows) == [True]


def test_two_constants_are_compared_for_every_row() -> None:
    rows = table(a=(I64, [1, 2]))
    assert kept(compare(value(1, I64), "<", value(2, I64)), rows) == [True, True]
    assert kept(compare(value(1, I64), ">", value(2, I64)), rows) == [False, False]


# ---- logic --------------------------------------------------------------------------------

TRUTH = [True, False, None]


def known(name: str) -> Expression:
    return prop(name, BOOL)


def test_and_or_and_not_are_three_valued() -> None:
    pairs = [(a, b) for a in TRUTH for b in TRUTH]
    rows = table(a=(BOOL, [a for a, _ in pairs]), b=(BOOL, [b for _, b in pairs]))
    both = And(operands=(known("a"), known("b")))
    either = Or(operands=(known("a"), known("b")))
    assert kept(both, rows) == [a is True and b is True for a, b in pairs]
    assert kept(Not(operand=both), rows) == [a is False or b is False for a, b in pairs]
    assert kept(either, rows) == [a is True or b is True for a, b in pairs]
    assert kept(Not(operand=either), rows) == [a is False and b is False for a, b in pairs]


def test_a_null_test_is_never_unknown() -> None:
    rows = table(a=(I64, [1, None]))
    is_null = IsNull(operand=prop("a", I64))
    assert kept(is_null, rows) == [False, True]
    assert kept(Not(operand=is_null), rows) == [True, False]
    assert kept(IsNull(operand=prop("a", I64), negated=True), rows) == [True, False]


def vanishing(name: str) -> Vanishing:
    return Vanishing(condition=compare(prop("a", I64), "=", param(name, I64)), parameters=(name,))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (vanishing("none"), [True, True, True]),
        (vanishing("one"), [True, False, False]),
        (And(operands=(vanishing("none"), vanishing("one"))), [True, False, False]),
        (Or(operands=(vanishing("none"), vanishing("one"))), [True, False, False]),
        (Or(operands=(vanishing("none"), vanishing("none"))), [True, True, True]),
        (Not(operand=vanishing("none")), [True, True, True]),
        (Not(operand=vanishing("one")), [False, True, False]),
    ],
)
def test_a_condition_with_a_null_parameter_vanishes(
    condition: Expression, expected: list[bool]
) -> None:
    rows = table(a=(I64, [1, 2, None]))
    assert kept(condition, rows, {"none": None, "one": 1}) == expected


# ---- membership and text ------------------------------------------------------------------


def test_an_item_is_looked_for_in_a_constant_list() -> None:
    rows = table(a=(TEXT, ["x", "y", None]))
    items = value(("x", "z"), TEXT, is_list=True)
    found = Member(item=prop("a", TEXT), container=items)
    assert kept(found, rows) == [True, False, False]
    assert kept(Not(operand=found), rows) == [False, True, False]
    empty = Member(item=prop("a", TEXT), container=value((), TEXT, is_list=True))
    assert kept(empty, rows) == [False, False, False]
    unknown = Member(item=prop("a", TEXT), container=param("p", TEXT, is_list=True))
    assert kept(unknown, rows, {"p": None}) == [False, False, False]


def test_an_item_is_looked_for_in_a_list_column() -> None:
    rows = lists("a", TEXT, [["x", "y"], ["z"], [], None, ["y", "y"]])
    column = prop("a", TEXT, is_list=True)
    found = Member(item=value("y", TEXT), container=column)
    assert kept(found, rows) == [True, False, False, False, True]
    assert kept(Not(operand=found), rows) == [False, True, True, False, False]


def test_each_row_looks_in_its_own_list() -> None:
    rows = lists("a", I64, [[1, 2], [1, 2], [], None, [3]])
    own = rows.table.append_column("b", [[1, 3, 1, 1, None]])
    found = Member(item=prop("b", I64), container=prop("a", I64, is_list=True))
    assert kept(found, Rows(own)) == [True, False, False, False, False]


@pytest.mark.parametrize(("items", "item_scalar"), [((1.5,), F64), ((2**32 + 1,), I64)])
def test_members_are_compared_exactly(items: tuple[float, ...], item_scalar: Scalar) -> None:
    rows = table(a=(Scalar.I32, [1]))
    container = value(items, item_scalar, is_list=True)
    assert kept(Member(item=prop("a", Scalar.I32), container=container), rows) == [False]


@pytest.mark.parametrize(
    ("prefix", "expected"), [(False, [1, 1, 0, 0, 0]), (True, [1, 0, 0, 0, 0])]
)
def test_text_is_searched_exactly(prefix: bool, expected: list[int]) -> None:
    rows = table(a=(TEXT, ["a.b", "xa.", "A.", "ab", None]))
    found = Substring(text=prop("a", TEXT), part=value("a.", TEXT), prefix=prefix)
    assert kept(found, rows) == [bool(item) for item in expected]
    unknown = Substring(text=prop("a", TEXT), part=param("p", TEXT), prefix=prefix)
    assert kept(unknown, rows, {"p": None}) == [False] * 5


def test_text_is_searched_for_another_column() -> None:
    rows = table(a=(TEXT, ["abc", "abc", None, "x"]), b=(TEXT, ["b", "z", "b", None]))
    assert kept(Substring(text=prop("a", TEXT), part=prop("b", TEXT)), rows) == [
        True,
        False,
        False,
        False,
    ]


def test_a_constant_text_is_searched_for_a_column() -> None:
    rows = table(a=(TEXT, ["b", "z"]))
    assert kept(Substring(text=value("abc", TEXT), part=prop("a", TEXT)), rows) == [True, False]


def test_the_id_is_a_column() -> None:
    rows = table(id=(TEXT, ["x", "y"]))
    assert kept(compare(IdOf(variable=""), "=", value("y", TEXT)), rows) == [False, True]


# ---- arithmetic ---------------------------------------------------------------------------


def arithmetic(op: str, left: Expression, right: Expression) -> Arithmetic:
    floating = op == "/" or F64 in (left.type.scalar, right.type.scalar)
    return Arithmetic(op=ArithmeticOp(op), left=left, right=right, type=FLOAT if floating else INT)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("+", [9, -5, None]),
        ("-", [5, -9, None]),
        ("*", [14, -14, None]),
        ("/", [3.5, -3.5, None]),
        ("%", [1, -1, None]),
    ],
)
def test_integers_are_combined(op: str, expected: list[object]) -> None:
    rows = table(a=(I64, [7, -7, None]), b=(I64, [2, 2, 2]))
    assert computed(arithmetic(op, prop("a", I64), prop("b", I64)), rows) == expected
    assert computed(arithmetic(op, prop("a", I64), value(2, I64)), rows) == expected


@pytest.mark.parametrize("op", ["/", "%"])
def test_division_by_zero_is_null(op: str) -> None:
    rows = table(a=(I64, [7]), b=(I64, [0]), c=(F64, [0.0]))
    assert computed(arithmetic(op, prop("a", I64), prop("b", I64)), rows) == [None]
    assert computed(arithmetic(op, prop("a", I64), prop("c", F64)), rows) == [None]
    assert constant_value(arithmetic(op, value(7, I64), value(0, I64)), {}, NOW) is None


def test_a_float_remainder_follows_the_left_sign() -> None:
    rows = table(a=(F64, [5.5, -5.5]), b=(F64, [2.0, 2.0]))
    assert computed(arithmetic("%", prop("a", F64), prop("b", F64)), rows) == [1.5, -1.5]


@pytest.mark.parametrize("op", ["+", "*", "-"])
def test_integer_overflow_is_reported(op: str) -> None:
    number, other = (-(2**63), 2) if op == "-" else (2**63 - 1, 2)
    rows = table(a=(I64, [number]))
    with pytest.raises(QueryError, match="integer overflow"):
        computed(arithmetic(op, prop("a", I64), value(other, I64)), rows)
    with pytest.raises(QueryError, match="integer overflow"):
        constant_value(arithmetic(op, value(number, I64), value(other, I64)), {}, NOW)


def test_a_sign_is_changed() -> None:
    rows = table(a=(I64, [1, None]))
    assert computed(Negate(operand=prop("a", I64), type=INT), rows) == [-1, None]
    assert constant_value(Negate(operand=value(2**63 - 1, I64), type=INT), {}, NOW) == -(2**63) + 1
    with pytest.raises(QueryError, match="integer overflow"):
        computed(Negate(operand=prop("a", I64), type=INT), table(a=(I64, [-(2**63)])))


def test_the_sign_of_an_unsigned_column_is_changed() -> None:
    rows = table(a=(Scalar.U32, [1]))
    assert computed(Negate(operand=prop("a", Scalar.U32), type=INT), rows) == [-1]


@given(left=longs, right=st.integers(1, 2**63 - 1))
def test_a_remainder_of_columns_is_exact(left: int, right: int) -> None:
    expected = left - right * int_quotient(left, right)
    rows = table(a=(I64, [left]))
    assert computed(arithmetic("%", prop("a", I64), value(right, I64)), rows) == [expected]


@given(left=longs, right=longs)
@example(left=2**53 + 1, right=2**53 + 2)
def test_a_remainder_of_constants_is_exact(left: int, right: int) -> None:
    expected = None if right == 0 else left - right * int_quotient(left, right)
    assert constant_value(arithmetic("%", value(left, I64), value(right, I64)), {}, NOW) == expected


def int_quotient(left: int, right: int) -> int:
    sign = -1 if (left < 0) != (right < 0) else 1
    return sign * (abs(left) // abs(right))


def test_now_is_the_instant_of_the_operation() -> None:
    rows = table(a=(Scalar.DATETIME, [NOW, NOW - datetime.timedelta(milliseconds=1), None]))
    assert kept(compare(prop("a", Scalar.DATETIME), "=", Now()), rows) == [True, False, False]
    assert computed(Now(), rows) == [NOW, NOW, NOW]
