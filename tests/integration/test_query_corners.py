"""Corners of what read queries mean: numbers at their limits, null, lists, repeated names."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

import omnigraph as og
from tests.integration.helpers import edge, node
from tests.integration.test_query import ask
from tests.places import AnyPath

SCHEMA = """\
node Item {
    name: String @key
    big: I64?
    ratio: F64?
    flag: Bool?
    words: [String]?
    wide: U64?
}
edge Near: Item -> Item
"""
EDGE = 2**53
MOST = 2**64 - 1


@pytest.fixture(scope="module")
def graph(module_place: AnyPath) -> Iterator[og.Graph]:
    with og.init(module_place / "g", SCHEMA, durability="none") as found:
        rows = [
            node("Item", name="a", big=EDGE + 1, ratio=1.0, words=["x", "y"], flag=True, wide=MOST),
            node("Item", name="b", big=-(2**63), ratio=0.0, words=["x", "y"]),
            node("Item", name="c", ratio=-0.0),
            edge("Near", "a", "b"),
            edge("Near", "b", "b"),
        ]
        found.load(rows, mode="append")
        yield found


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("$i.big * 1.5", (EDGE + 1) * 1.5),
        ("$i.big / 2", (EDGE + 1) / 2),
        ("$i.big - 0.5", float(EDGE + 1) - 0.5),
        ("count(*) + sum($i.big) / 2", 1 + (EDGE + 1) / 2),
    ],
)
def test_large_integers_in_float_arithmetic(graph: og.Graph, expression: str, value: float) -> None:
    body = f'match {{ $i: Item {{ name: "a" }} }} return {{ {expression} as c }}'
    assert ask(graph, body) == [(value,)]


@pytest.mark.parametrize(
    ("output", "rows"),
    [
        ("return { $i.words, count(*) as n }", [(None, 1), (["x", "y"], 2)]),
        ("return distinct { $i.words }", [(None,), (["x", "y"],)]),
        ("return { count(distinct $i.words) as n }", [(1,)]),
        ("return { $i.flag, count(distinct $i.words) as n }", [(None, 1), (True, 1)]),
    ],
)
def test_lists_as_keys(graph: og.Graph, output: str, rows: list[tuple[object, ...]]) -> None:
    assert ask(graph, f"match {{ $i: Item }} {output}") == rows


@pytest.mark.parametrize(
    "body",
    [
        "match { $i: Item } return { 1 < 2 as c } limit 1",
        "match { $i: Item } return { $x is null as c } limit 1",
        'match { $i: Item { name: "a" } ($x is null) = true } return { true as c }',
        'match { $i: Item { name: "a" } ($x is null) = $i.flag } return { true as c }',
        "match { $i: Item } return { not (1 > 2 or 2 > 3) as c } limit 1",
    ],
)
def test_conditions_without_variables(graph: og.Graph, body: str) -> None:
    assert ask(graph, body, "$x: String?", x=None) == [(True,)]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ('not (($x) contains "a")', []),
        ('not (($x) starts_with "a")', []),
        ('($x) contains "a" or $i.flag = true', [("a",)]),
    ],
)
def test_a_null_text_parameter(graph: og.Graph, condition: str, kept: list[tuple[str]]) -> None:
    body = f"match {{ $i: Item {condition} }} return {{ $i }}"
    assert ask(graph, body, "$x: String?", x=None) == kept


def test_the_remainder_of_floats(graph: og.Graph) -> None:
    body = 'match { $i: Item { name: "a" } } return { $i.ratio % 0.1 as c, 1.0 % 0.1 as d }'
    assert ask(graph, body) == [(math.fmod(1.0, 0.1), math.fmod(1.0, 0.1))]


def test_the_remainder_of_the_least_integer(graph: og.Graph) -> None:
    body = 'match { $i: Item { name: "b" } } return { $i.big % -1 as c }'
    assert ask(graph, body) == [(0,)]


def test_the_remainder_of_an_infinite_constant(graph: og.Graph) -> None:
    body = "match { $i: Item } return { $x * 10.0 % 2.0 as c } limit 1"
    with pytest.raises(og.QueryError, match="cannot be evaluated"):
        ask(graph, body, "$x: F64", x=1e308)


@pytest.mark.parametrize(
    ("output", "size"),
    [("return { $i.ratio, count(*) as n }", 2), ("return distinct { $i.ratio }", 2)],
)
def test_both_zeros_are_one_value(graph: og.Graph, output: str, size: int) -> None:
    assert len(ask(graph, f"match {{ $i: Item }} {output}")) == size


def test_null_ids_break_ties_first(graph: og.Graph) -> None:
    body = "match { $i: Item optional { $i near $a } } return { $a, $i } order { 1 }"
    assert ask(graph, body) == [(None, "c"), ("b", "a"), ("b", "b")]


def test_null_is_a_node_of_no_type(graph: og.Graph) -> None:
    body = "match { $i: Item optional { $i near $a } not { $a: Item } } return { $i, $a }"
    assert ask(graph, body) == [("c", None)]


def test_bounds_mean_the_same_from_both_ends(graph: og.Graph) -> None:
    # a leads to b, which leads to itself: the loop counts for b alone, as its hop 1.
    for bounds, wanted in (("{2,2}", []), ("{1,2}", [("a", "b"), ("b", "b")])):
        patterns = [f"$x: Item $x near{bounds} $y", f"$y: Item $x near{bounds} $y"]
        patterns.append(f"$x: Item $y: Item $x near{bounds} $y")
        for text in patterns:
            assert ask(graph, f"match {{ {text} }} return {{ $x, $y }}") == wanted


def test_a_literal_before_a_clause_in_parentheses(graph: og.Graph) -> None:
    body = "match { $i: Item $i.flag = true ($i.ratio > 0.0 or $i.ratio < 0.0) } return { $i }"
    assert ask(graph, body) == [("a",)]


@pytest.mark.parametrize(
    "pattern",
    [
        '$i: Item { name: "a" } $i.big * 3 > 0',
        '$i: Item { name: "a" } $i near{3,3} $j $j.big * 3 > 0',
    ],
)
def test_overflow_counts_only_in_rows_that_exist(graph: og.Graph, pattern: str) -> None:
    # b.big * 3 does not fit in 64 bits, but b takes part in neither pattern.
    assert len(ask(graph, f"match {{ {pattern} }} return {{ $i }}")) <= 1


def test_two_columns_of_one_name_are_refused(graph: og.Graph) -> None:
    for columns in ("$i.name as x, $i.flag as x", "$i.name, $i.name", "sum($i.big), avg($i.big)"):
        with pytest.raises(og.CompileError, match="T29"):
            ask(graph, f"match {{ $i: Item }} return {{ {columns} }}")


def test_the_mean_of_large_floats_is_one(graph: og.Graph) -> None:
    assert ask(graph, "match { $i: Item } return { avg($x) as m }", "$x: F64", x=1e308) == [
        (1e308,)
    ]
    grouped = "match { $i: Item } return { $i.name as n, avg($x) as m, sum($x) as s }"
    assert ask(graph, grouped, "$x: F64", x=-1.5e308) == [
        (name, -1.5e308, -1.5e308) for name in "abc"
    ]


def test_unsigned_parameters_have_64_bits(graph: og.Graph) -> None:
    top = 2**64 - 1
    rows = ask(graph, "match { $i: Item } return { $x as v } limit 1", "$x: U64", x=top)
    assert rows == [(top,)]
    assert ask(graph, "match { $i: Item $i.big < $x } return { count(*) }", "$x: U64", x=top)
    assert len(ask(graph, "match { $i: Item } return { $i } limit $x", "$x: U64", x=top)) == 3
    assert ask(graph, "match { $i: Item } return { $i } limit $x offset $x", "$x: U64", x=top) == []


def test_both_zeros_are_found_in_lists(graph: og.Graph) -> None:
    assert ask(graph, "match { $i: Item $i.ratio in [0.0] } return { $i }") == [("b",), ("c",)]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("$i.wide % 10", 5),
        ("$i.wide % -10", 5),
        ("$i.wide - 9223372036854775807", None),
        ("$i.wide - 9223372036854775807 - 9223372036854775807", None),
        ("$i.wide * 0", 0),
        ("$i.wide / 2", 2.0**63),
        ("-$i.wide", None),
    ],
)
def test_integers_beyond_the_signed_ones(
    graph: og.Graph, expression: str, value: float | None
) -> None:
    body = f'match {{ $i: Item {{ name: "a" }} }} return {{ {expression} as c }}'
    if value is None:
        with pytest.raises(og.QueryError, match="overflow"):
            ask(graph, body)
    else:
        assert ask(graph, body) == [(value,)]


def test_the_mean_of_large_integers(graph: og.Graph) -> None:
    body = "match { $i: Item $j: Item $i.wide is not null } return { avg($i.wide) as c }"
    assert ask(graph, body) == [(2.0**64,)]
