"""Storage filters: they may keep too many rows, never too few, and storage understands them."""

from __future__ import annotations

import datetime
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog import Scalar
from omnigraph.catalog.model import LiteralValue
from omnigraph.compute import storage_filter
from omnigraph.compute.types import arrow_type
from omnigraph.plan.expression import (
    ROW,
    And,
    Compare,
    CompareOp,
    End,
    EndpointOf,
    Expression,
    IdOf,
    IsNull,
    Member,
    Not,
    Or,
    PropertyOf,
    Substring,
    Vanishing,
)
from tests.unit.compute.expressions import NOW, Rows, compare, kept, kind, param, prop, value

texts = st.text(st.sampled_from("ab'\"\\% é\n`"), max_size=3)
moments = st.datetimes(
    datetime.datetime(1960, 1, 1), datetime.datetime(2040, 1, 1), timezones=st.just(datetime.UTC)
).map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))
small = st.integers(-3, 3)
VALUES: dict[str, tuple[Scalar, st.SearchStrategy[Any]]] = {
    "id": (Scalar.STRING, texts),
    "text": (Scalar.STRING, texts),
    "flag": (Scalar.BOOL, st.booleans()),
    "i32": (Scalar.I32, small | st.sampled_from([-(2**31), 2**31 - 1])),
    "i64": (Scalar.I64, small | st.sampled_from([-(2**63), 2**53 + 1, 2**63 - 1])),
    "u32": (Scalar.U32, st.integers(0, 3) | st.just(2**32 - 1)),
    "u64": (Scalar.U64, st.integers(0, 3) | st.just(2**63 - 1)),
    "f32": (Scalar.F32, st.sampled_from([-0.5, 0.0, 0.10000000149011612, 1.0])),
    "f64": (Scalar.F64, st.sampled_from([-0.5, -0.0, 0.1, 1.0, 2.0**53])),
    "day": (Scalar.DATE, st.dates(datetime.date(999, 1, 1), datetime.date(2999, 1, 1))),
    "moment": (Scalar.DATETIME, moments),
}
NUMBERS = ("i32", "i64", "f32", "f64")


def column(name: str) -> Expression:
    return IdOf(variable=ROW) if name == "id" else prop(name, VALUES[name][0])


@st.composite
def comparisons(draw: st.DrawFn) -> Expression:
    name = draw(st.sampled_from(sorted(VALUES)))
    scalar, values = VALUES[name]
    left: Expression = column(name)
    # Numbers also meet numbers of another type.
    if name in NUMBERS and draw(st.booleans()):
        scalar, values = Scalar.F64, st.sampled_from([-0.5, 0.0, 0.1, 1.0, 1.5])
    right: Expression = value(draw(values), scalar)
    if draw(st.booleans()):
        left, right = right, left
    return Compare(op=draw(st.sampled_from(list(CompareOp))), left=left, right=right)


@st.composite
def members(draw: st.DrawFn) -> Expression:
    name = draw(st.sampled_from(sorted(VALUES)))
    scalar, values = VALUES[name]
    items = tuple(draw(st.lists(values, max_size=3)))
    return Member(item=column(name), container=value(items, scalar, is_list=True))


@st.composite
def others(draw: st.DrawFn) -> Expression:
    name = draw(st.sampled_from(sorted(set(VALUES) - {"id"})))
    scalar, _values = VALUES[name]
    parameter = draw(st.sampled_from(["null", "given"]))
    choices: list[Expression] = [
        IsNull(operand=column(name)),
        IsNull(operand=column(name), negated=True),
        Compare(op=CompareOp.EQ, left=column(name), right=param("null", scalar)),
        Substring(text=prop("text", Scalar.STRING), part=value("a", Scalar.STRING)),
        Vanishing(
            condition=compare(prop("i64", Scalar.I64), ">", param(parameter, Scalar.I64)),
            parameters=(parameter,),
        ),
        Compare(op=CompareOp.LT, left=column("i32"), right=column("i64")),
    ]
    return draw(st.sampled_from(choices))


def combined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return (
        several.map(lambda operands: And(operands=operands))
        | several.map(lambda operands: Or(operands=operands))
        | inner.map(lambda operand: Not(operand=operand))
    )


conditions = st.recursive(comparisons() | members() | others(), combined, max_leaves=5)
rows_of = st.lists(
    st.fixed_dictionaries(
        {name: (v if name == "id" else st.none() | v) for name, (_s, v) in VALUES.items()}
    ),
    min_size=1,
    max_size=8,
)
SCHEMA = pa.schema([pa.field(name, arrow_type(kind(s))) for name, (s, _v) in VALUES.items()])
PARAMETERS: dict[str, LiteralValue] = {"null": None, "given": 0}


@settings(max_examples=150)
@given(rows=rows_of, condition=conditions)
def test_a_storage_filter_keeps_every_row_the_condition_keeps(
    rows: list[dict[str, Any]], condition: Expression
) -> None:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    wanted = {n for n, keep in enumerate(kept(condition, Rows(table), PARAMETERS)) if keep}
    where = storage_filter(condition, PARAMETERS, NOW)
    if where is None:
        return
    numbered = table.append_column("row", pa.array(range(len(rows)), pa.int64()))
    dataset = lance.write_dataset(numbered, "memory://", data_storage_version="2.2")
    assert wanted <= set(dataset.to_table(filter=where, columns=["row"])["row"].to_pylist())


TEXT, NUMBER, FLAG = prop("t", Scalar.STRING), prop("n", Scalar.I32), prop("f", Scalar.BOOL)
REQUIRED = prop("r", Scalar.STRING, nullable=False)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (compare(TEXT, "=", value("it's", Scalar.STRING)), "`t` = 'it''s'"),
        (compare(value(1, Scalar.I64), "<", NUMBER), "`n` > 1"),
        (compare(value(1, Scalar.I64), "=", NUMBER), "`n` = 1"),
        (compare(FLAG, "=", value(True, Scalar.BOOL)), "`f` = true"),
        (compare(IdOf(variable=ROW), "=", value("x", Scalar.STRING)), "id = 'x'"),
        (
            compare(EndpointOf(variable=ROW, end=End.FROM), "=", value("x", Scalar.STRING)),
            "src = 'x'",
        ),
        (
            compare(EndpointOf(variable=ROW, end=End.TO), "!=", value("x", Scalar.STRING)),
            "dst != 'x'",
        ),
        (
            compare(prop("d", Scalar.DATE), ">=", value(datetime.date(999, 1, 2), Scalar.DATE)),
            "`d` >= date '0999-01-02'",
        ),
        (
            Member(item=NUMBER, container=value((1, 2), Scalar.I64, is_list=True)),
            "`n` IN (1, 2)",
        ),
        (IsNull(operand=TEXT), "`t` IS NULL"),
        (IsNull(operand=TEXT, negated=True), "`t` IS NOT NULL"),
        (compare(REQUIRED, "!=", value("x", Scalar.STRING)), "`r` != 'x'"),
    ],
)
def test_what_storage_reads_the_same_is_pushed_down(condition: Expression, expected: str) -> None:
    assert storage_filter(condition, {}, NOW) == expected


@pytest.mark.parametrize(
    "condition",
    [
        compare(TEXT, "!=", value("x", Scalar.STRING)),
        compare(NUMBER, "=", value(1.0, Scalar.F64)),
        compare(prop("x", Scalar.F64), "=", value(1, Scalar.I64)),
        compare(NUMBER, "=", NUMBER),
        compare(NUMBER, "=", param("none", Scalar.I64)),
        Not(operand=compare(NUMBER, "=", value(1, Scalar.I64))),
        Member(item=NUMBER, container=value((), Scalar.I64, is_list=True)),
        Member(item=value(1, Scalar.I64), container=prop("l", Scalar.I64, is_list=True)),
        Substring(text=TEXT, part=value("x", Scalar.STRING)),
        Or(operands=(compare(NUMBER, "=", value(1, Scalar.I64)), compare(NUMBER, "=", NUMBER))),
        Vanishing(condition=compare(NUMBER, "=", param("none", Scalar.I64)), parameters=("none",)),
    ],
)
def test_what_storage_might_read_otherwise_keeps_every_row(condition: Expression) -> None:
    assert storage_filter(condition, {"none": None}, NOW) is None


def test_a_part_of_a_conjunction_is_pushed_down_alone() -> None:
    condition = And(
        operands=(compare(NUMBER, "=", NUMBER), compare(NUMBER, ">", value(1, Scalar.I64)))
    )
    assert storage_filter(condition, {}, NOW) == "(`n` > 1)"


@pytest.mark.parametrize(
    ("scalar", "constant"), [(Scalar.I32, 2**31), (Scalar.U32, -1), (Scalar.U64, -1)]
)
def test_a_constant_outside_the_range_of_its_column_is_understood(
    scalar: Scalar, constant: int
) -> None:
    condition = compare(
        PropertyOf(variable=ROW, property="n", type=kind(scalar)), "<", value(constant, Scalar.I64)
    )
    where = storage_filter(condition, {}, NOW)
    table = pa.table({"n": pa.array([1], arrow_type(kind(scalar)))})
    dataset = lance.write_dataset(table, "memory://")
    found = dataset.to_table(filter=where)
    assert found.num_rows >= sum(kept(condition, Rows(table)))
