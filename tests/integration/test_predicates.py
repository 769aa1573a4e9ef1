"""The `where` of updates and deletes: which rows it selects, stored or pending."""

from __future__ import annotations

import pytest

import omnigraph as og
from tests.integration.helpers import NewGraph, load, node, rows, run

SCHEMA = """\
node Item {
    name: String @key
    i32: I32?
    i64: I64?
    u64: U64?
    f64: F64?
    flag: Bool?
    day: Date?
    moment: DateTime?
    tags: [String]?
    hit: Bool?
}
"""
ROWS = [
    node("Item", name="a", i32=1, i64=2**53 + 1, u64=2**64 - 1, f64=1.5, flag=True, tags=["x"]),
    node("Item", name="ab", i32=-5, i64=7, u64=0, f64=-0.5, flag=False, tags=["x", "y", "ab"]),
    node("Item", name="o'x", day="2025-03-01", moment="2025-03-01T10:00:00Z", tags=[]),
    node("Item", name="none"),
]


@pytest.fixture(params=["stored", "pending"])
def select(request: pytest.FixtureRequest, new_graph: NewGraph) -> object:
    graph = new_graph(SCHEMA)
    load(graph, ROWS)
    touched = (
        "update Item set { hit: false } where true = true" if request.param != "stored" else ""
    )

    def call(condition: str, **params: tuple[str, object]) -> set[str]:
        run(graph, f"{touched} update Item set {{ hit: true }} where {condition}", **params)
        return {name for name, row in rows(graph, "Item").items() if row.get("hit")}

    return call


@pytest.mark.parametrize(
    ("condition", "selected"),
    [
        ('name = "a"', {"a"}),
        ('name = "o\'x"', {"o'x"}),
        ('id = "ab"', {"ab"}),
        ('name starts_with "a"', {"a", "ab"}),
        ('name contains "b"', {"ab"}),
        ('name in ["a", "none", "zz"]', {"a", "none"}),
        ('tags contains "y"', {"ab"}),
        ("name in tags", {"ab"}),
        ("i32 > 0", {"a"}),
        ("i32 <= 1", {"a", "ab"}),
        ("i32 != 1", {"ab"}),
        ("not (i32 = 1)", {"ab"}),
        ("i32 is null", {"o'x", "none"}),
        ("i32 is not null", {"a", "ab"}),
        ("i32 = 1.0", {"a"}),
        ("i32 < 1.5", {"a", "ab"}),
        ("i32 >= 0.5", {"a"}),
        ("i64 = 9007199254740993", {"a"}),
        ("i64 = 9007199254740992.0", set()),
        ("i64 > 9007199254740992.0", {"a"}),
        ("f64 = 1.5", {"a"}),
        ("f64 < 0", {"ab"}),
        ("flag = true", {"a"}),
        ("flag = false or flag is null", {"ab", "o'x", "none"}),
        ('day = date("2025-03-01")', {"o'x"}),
        ('moment > datetime("2025-03-01T09:59:59.999Z")', {"o'x"}),
        ("i32 + 1 = 2", {"a"}),
        ("i32 % 2 = -1", {"ab"}),
        ("i32 / 0 = 1", set()),
        ("-i32 = 5", {"ab"}),
        ('i32 = 1 and name = "a"', {"a"}),
        ('i32 = 1 or name = "none"', {"a", "none"}),
        ("true = true", {"a", "ab", "o'x", "none"}),
        ("1 in [2, 3]", set()),
    ],
)
def test_a_condition_selects_its_rows(select: object, condition: str, selected: set[str]) -> None:
    assert callable(select)
    assert select(condition) == selected


@pytest.mark.parametrize(
    ("condition", "kind", "value", "selected"),
    [
        ("i32 = $x", "I64?", None, set()),
        ("i32 in $x", "[I64]", [], set()),
        ("name in $x", "[String]", ["a", "o'x"], {"a", "o'x"}),
        ("u64 = $x", "U64", 0, {"ab"}),
        ("u64 > $x", "I64", 2**63 - 1, {"a"}),
        ("f64 > $x", "I64", 1, {"a"}),
    ],
)
def test_a_parameter_selects_its_rows(
    select: object, condition: str, kind: str, value: object, selected: set[str]
) -> None:
    assert callable(select)
    assert select(condition, x=(kind, value)) == selected


def test_integer_overflow_in_a_condition_is_reported(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    load(graph, ROWS)
    with pytest.raises(og.QueryError, match="integer overflow"):
        run(graph, "update Item set { hit: true } where i64 * 1000000 > 0")


@pytest.mark.parametrize(
    ("condition", "selected"),
    [
        ("i32 = 4294967297", set()),
        ("i32 < 4294967297", {"a", "ab"}),
        ("i32 in [4294967297]", set()),
        ("u64 > -1", {"a", "ab"}),
        ("u64 in [-1, 0]", {"ab"}),
        ("i32 in [1.5]", set()),
        ('"xab" contains name', {"a", "ab"}),
        ("i32 < $x * 10.0", {"a", "ab"}),
    ],
)
def test_a_condition_on_the_edge_of_a_type_selects_its_rows(
    new_graph: NewGraph, condition: str, selected: set[str]
) -> None:
    graph = new_graph(SCHEMA)
    load(graph, ROWS)
    run(graph, f"update Item set {{ hit: true }} where {condition}", x=("F64", 1e308))
    assert {name for name, row in rows(graph, "Item").items() if row.get("hit")} == selected


def test_a_float_column_is_compared_with_an_integer_exactly(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    load(graph, [node("Item", name="a", f64=float(2**53))])
    result = run(graph, "update Item set { hit: true } where f64 = $x", x=("I64", 2**53 + 1))
    assert result.affected_nodes == 0


def test_two_columns_of_other_number_types_are_compared_exactly(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    load(graph, [node("Item", name="a", f64=float(2**53), i64=2**53 + 1)])
    assert run(graph, "update Item set { hit: true } where f64 = i64").affected_nodes == 0
