"""Values: conditions, nulls, arithmetic, aggregates, order and cut."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

import omnigraph as og
from tests.integration.helpers import Envelope, node
from tests.integration.test_query import ask
from tests.places import AnyPath

SCHEMA = """\
node Item {
    name: String @key
    text: String?
    small: I32?
    big: I64?
    positive: U32?
    huge: U64?
    ratio: F64?
    half: F32?
    flag: Bool?
    day: Date?
    moment: DateTime?
    color: enum(red, green, blue)?
    words: [String]?
    numbers: [I64]?
    floats: [F64]?
}
"""
EDGE = 2**53
MOST = 2**63 - 1
FULL = {
    "text": "Zoë",
    "small": 2,
    "big": EDGE + 1,
    "positive": 2**32 - 1,
    "huge": MOST,
    "ratio": float(EDGE),
    "half": 0.1,
    "flag": True,
    "day": "2024-02-29",
    "moment": "2024-02-29T10:00:00.123Z",
    "color": "red",
    "words": ["a", "b"],
    "numbers": [EDGE + 1, 2],
    "floats": [0.5, 3.0],
}
ITEMS: list[Envelope] = [
    node("Item", name="full", **FULL),
    node("Item", name="null"),
    node(
        "Item",
        name="low",
        text="100%_a",
        small=-7,
        big=-(2**63),
        positive=0,
        huge=0,
        ratio=-1.5,
        half=-2.5,
        flag=False,
        day="1969-12-31",
        moment="1969-12-31T23:59:59.999Z",
        color="blue",
        words=[],
        numbers=[],
        floats=[],
    ),
    node("Item", name="other", text="zoe", small=2, big=MOST, ratio=2.0, half=0.5, flag=True),
]


@pytest.fixture(scope="module")
def graph(module_place: AnyPath) -> Iterator[og.Graph]:
    with og.init(module_place / "g", SCHEMA, durability="none") as found:
        found.load(ITEMS, mode="append")
        yield found


def which(graph: og.Graph, condition: str, signature: str = "", **params: object) -> list[str]:
    """Return the sorted names of the items a condition keeps."""
    body = f"match {{ $i: Item {condition} }} return {{ $i }}"
    return [str(row[0]) for row in ask(graph, body, signature, **params)]


def column(graph: og.Graph, expression: str, item: str = "full", **params: object) -> Any:
    """Return an expression for one item; whole parameters are I64."""
    signature = ", ".join(
        f"${name}: {'F64' if isinstance(value, float) else 'I64'}" for name, value in params.items()
    )
    body = f'match {{ $i: Item {{ name: "{item}" }} }} return {{ {expression} as c }}'
    return ask(graph, body, signature, **params)[0][0]


ALL = ["full", "low", "null", "other"]


# ---- null ---------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    ("name", "literal"),
    [
        ("text", '"m"'),
        ("small", "1"),
        ("big", "1"),
        ("positive", "1"),
        ("huge", "1"),
        ("ratio", "1.0"),
        ("half", "1.0"),
        ("flag", "true"),
        ("day", 'date("2000-01-01")'),
        ("moment", 'datetime("2000-01-01T00:00:00Z")'),
        ("color", '"green"'),
    ],
)
def test_a_null_property_matches_no_comparison(
    graph: og.Graph, op: str, name: str, literal: str
) -> None:
    assert "null" not in which(graph, f"$i.{name} {op} {literal}")
    assert "null" not in which(graph, f"not ($i.{name} {op} {literal})")
    assert "null" not in which(graph, f"{literal} {op} $i.{name}")


def test_null_operands_of_in_contains_and_starts_with(graph: og.Graph) -> None:
    for condition in (
        '$i.text in ["zoe"]',
        '$i.text contains "o"',
        '$i.text starts_with "z"',
        '$i.words contains "a"',
        '"a" in $i.words',
        "$i.numbers contains $i.big",
        "$i.text contains $i.color",
    ):
        assert "null" not in which(graph, condition)
        assert "null" not in which(graph, f"not ({condition})")


@pytest.mark.parametrize("condition", ["$i.small = $x", "$i.small != $x", "not ($i.small = $x)"])
def test_a_null_parameter_matches_nothing(graph: og.Graph, condition: str) -> None:
    assert which(graph, condition, "$x: I32?") == []
    assert which(graph, condition, "$x: I32?", x=None) == []


def test_a_null_list_parameter_matches_nothing(graph: og.Graph) -> None:
    assert which(graph, "$i.text in $x", "$x: [String]?", x=None) == []
    assert which(graph, "not ($i.text in $x)", "$x: [String]?", x=None) == []


def test_three_valued_and_or(graph: og.Graph) -> None:
    unknown, true, false = "$i.small = 1", "$i.name = $i.name", "$i.name != $i.name"
    null = '$i.name = "null" and '
    assert which(graph, f"{null}({unknown} or {true})") == ["null"]
    assert which(graph, f"{null}({unknown} or {false})") == []
    assert which(graph, f"{null}not ({unknown} and {false})") == ["null"]
    assert which(graph, f"{null}not ({unknown} and {true})") == []
    assert which(graph, f"{null}not ({unknown} or {unknown})") == []


def test_is_null_is_never_unknown(graph: og.Graph) -> None:
    for name in FULL:
        assert "null" in which(graph, f"$i.{name} is null")
        assert "null" not in which(graph, f"$i.{name} is not null")
        assert "full" in which(graph, f"not ($i.{name} is null)")
    assert which(graph, "$i.small + 1 is null") == ["null"]
    assert which(graph, "($x) is null", "$x: String?", x=None) == ALL


def test_conditions_as_columns_are_null_where_unknown(graph: og.Graph) -> None:
    body = "match { $i: Item } return { $i, $i.small = 2 as c, $i.small is null as n }"
    assert ask(graph, body) == [
        ("full", True, False),
        ("low", False, False),
        ("null", None, True),
        ("other", True, False),
    ]


# ---- comparison ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("$i.small = 2.0", ["full", "other"]),
        ("$i.small = 2.7", []),
        ("$i.small < 2.7", ["full", "low", "other"]),
        ("$i.small > 1.3", ["full", "other"]),
        ("$i.small != 2.7", ["full", "low", "other"]),
        ("$i.big = 9007199254740992.0", []),
        ("$i.big > 9007199254740992.0", ["full", "other"]),
        ("$i.big = 9007199254740993", ["full"]),
        ("$i.big = $i.ratio", []),
        ("$i.big > $i.ratio", ["full", "other"]),
        ("$i.ratio < $i.big", ["full", "other"]),
        ("$i.ratio = 9007199254740993", []),
        ("$i.ratio < 9007199254740993", ["full", "low", "other"]),
        ("$i.big < 9223372036854775808.0", ["full", "low", "other"]),
        ("$i.big >= 9223372036854775807", ["other"]),
        ("$i.small < 9223372036854775807", ["full", "low", "other"]),
        ("$i.small > -9223372036854775807", ["full", "low", "other"]),
        ("$i.small = 4294967298", []),
        ("$i.positive > -1", ["full", "low"]),
        ("$i.positive > $i.small", ["full", "low"]),
        ("$i.huge = $i.big", []),
        ("$i.huge > $i.big", ["full", "low"]),
        ("$i.half = 0.1", []),
        ("$i.half = 0.5", ["other"]),
        ("$i.half > 0.1", ["full", "other"]),
        ("$i.small in [2.7]", []),
        ("$i.small in [2.0, 2.7]", ["full", "other"]),
        ("$i.small in [4294967298]", []),
        ("$i.half in [0.1]", []),
        ("$i.numbers contains 9007199254740992.0", []),
        ("$i.numbers contains 2.0", ["full"]),
        ("$i.numbers contains 2.5", []),
        ("$i.numbers contains $i.big", ["full"]),
        ("$i.floats contains 3", ["full"]),
        ("$i.small in $i.numbers", ["full"]),
    ],
)
def test_numbers_compare_by_exact_value(graph: og.Graph, condition: str, kept: list[str]) -> None:
    assert which(graph, condition) == kept


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ('$i.text contains "o"', ["full", "other"]),
        ('$i.text contains "O"', []),
        ('$i.text contains "%_"', ["low"]),
        ('$i.text contains "0_a"', []),
        ('$i.text contains ""', ["full", "low", "other"]),
        ('$i.text starts_with "Zo"', ["full"]),
        ('$i.text starts_with "z%"', []),
        ('$i.text starts_with ""', ["full", "low", "other"]),
        ("$i.text starts_with $i.text", ["full", "low", "other"]),
        ('"zoe!" starts_with $i.text', ["other"]),
        ('$i.text < "a"', ["full", "low"]),
        ('$i.text > "zoe"', []),
        ('"Zoë" >= $i.text', ["full", "low"]),
        ("$i.flag < true", ["low"]),
        ("$i.flag >= false", ["full", "low", "other"]),
        ('$i.day < date("1970-01-01")', ["low"]),
        ('$i.day = date("2024-02-29")', ["full"]),
        ('$i.moment = datetime("2024-02-29T11:00:00.123+01:00")', ["full"]),
        ('$i.moment < datetime("1970-01-01")', ["low"]),
        ("$i.moment < now()", ["full", "low"]),
        ('$i.color > "blue"', ["full"]),
        ("$i.text in []", []),
        ("not ($i.text in [])", ["full", "low", "other"]),
        ('$i.words contains "a"', ["full"]),
        ('not ($i.words contains "a")', ["low"]),
        ("$i.flag in [true]", ["full", "other"]),
        ('$i.day in [date("2024-02-29")]', ["full"]),
        ("1 < 2", ALL),
        ("1 > 2", []),
        ('($i.text = "zoe") = ($i.small = 2)', ["low", "other"]),
    ],
)
def test_other_comparisons(graph: og.Graph, condition: str, kept: list[str]) -> None:
    assert which(graph, condition) == kept


def test_parameters_of_every_type(graph: og.Graph) -> None:
    assert which(graph, "$i.text = $x", "$x: String", x="Zoë") == ["full"]
    assert which(graph, "$i.big = $x", "$x: I64", x=str(EDGE + 1)) == ["full"]
    assert which(graph, "$i.small >= $x", "$x: I64", x=-MOST) == ["full", "low", "other"]
    assert which(graph, "$i.small < $x", "$x: F64", x=0) == ["low"]
    assert which(graph, "$i.half = $x", "$x: F32", x=0.1) == ["full"]
    assert which(graph, "$i.flag = $x", "$x: Bool", x=False) == ["low"]
    assert which(graph, "$i.day = $x", "$x: Date", x="2024-02-29") == ["full"]
    moment = "2024-02-29 11:00:00.123+01:00"
    assert which(graph, "$i.moment = $x", "$x: DateTime", x=moment) == ["full"]
    assert which(graph, "$i.color in $x", "$x: [String]", x=["red", "pink"]) == ["full"]
    assert which(graph, "$i.small in $x", "$x: [I64]", x=[-7, 2**40]) == ["low"]
    assert which(graph, "$i.text in $x", "$x: [String]", x=[]) == []
    assert which(graph, "($x) in $i.words", "$x: String?", x="b") == ["full"]
    assert which(graph, "($x) in $i.words", "$x: String?", x=None) == []


def test_a_parameter_hides_a_variable_of_its_name(graph: og.Graph) -> None:
    body = 'match { $i: Item { name: "low" } } return { $i, $i.name }'
    assert ask(graph, body, "$i: I64", i=7) == [(7, "low")]


# ---- arithmetic ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("$i.small + 1", 3),
        ("$i.small - 5", -3),
        ("$i.small * $i.small", 4),
        ("7 / 2", 3.5),
        ("$i.small / 4", 0.5),
        ("$i.small + 0.5", 2.5),
        ("$i.positive + 1", 2**32),
        ("-$i.positive", -(2**32) + 1),
        ("-($i.small - 10) * 2", 16),
        ("$i.big - 1", EDGE),
        ("$i.big % 10", 3),
        ("-$i.big % 10", -3),
        ("7 % -2", 1),
        ("-7 % 2", -1),
        ("$i.small / 0", None),
        ("$i.small % 0", None),
        ("$i.ratio / 0.0", None),
        ("$i.ratio % 0.0", None),
        ("7 / 0", None),
        ("2 + 3 * 4", 14),
    ],
)
def test_arithmetic(graph: og.Graph, expression: str, value: object) -> None:
    found = column(graph, expression)
    assert found == value
    assert type(found) is type(value)


def test_arithmetic_with_null_is_null(graph: og.Graph) -> None:
    for expression in ("$i.small + 1", "1 - $i.big", "-$i.small", "$i.ratio / 2", "$i.small % 2"):
        assert column(graph, expression, "null") is None


@pytest.mark.parametrize(
    "expression",
    ["$i.big + 1", "$i.big * 2", "-$i.big - 2", "0 - $i.big * 2", "9223372036854775807 + 1"],
)
def test_integer_overflow_is_an_error(graph: og.Graph, expression: str) -> None:
    with pytest.raises(og.QueryError, match="overflow"):
        column(graph, expression, "other")


def test_the_remainder_of_large_constants_is_exact(graph: og.Graph) -> None:
    assert column(graph, "$x % $y", x=EDGE + 1, y=EDGE + 3) == EDGE + 1
    assert column(graph, "$x % $y", x=-EDGE - 1, y=EDGE + 3) == -EDGE - 1


def test_now_is_one_instant(graph: og.Graph) -> None:
    before = datetime.datetime.now(datetime.UTC)
    rows = ask(graph, "match { $i: Item } return { now() as one, now() as two }")
    after = datetime.datetime.now(datetime.UTC)
    assert len({value for row in rows for value in row}) == 1
    assert before - datetime.timedelta(milliseconds=1) <= rows[0][0] <= after


# ---- groups -------------------------------------------------------------------------------


def test_null_is_a_group_of_its_own(graph: og.Graph) -> None:
    body = "match { $i: Item } return { $i.flag, count(*) as n, count($i.small) as m }"
    assert ask(graph, body) == [(False, 1, 1), (None, 1, 0), (True, 2, 2)]
    two = "match { $i: Item } return { $i.flag, $i.color, count(*) as n }"
    assert (None, None, 1) in ask(graph, two)


def test_no_rows_without_keys_are_one_group(graph: og.Graph) -> None:
    body = 'match { $i: Item { name: "none" } } return { %s }'
    aggregates = (
        "count(*) as a, count($i) as b, count(distinct $i.text) as c, sum($i.big) as d,"
        " avg($i.ratio) as e, min($i.text) as f, max($i.day) as g, sum($i.ratio) as h"
    )
    assert ask(graph, body % aggregates) == [(0, 0, 0, None, None, None, None, None)]
    assert ask(graph, body % "count(*) + 1 as a, sum($i.small) is null as b") == [(1, True)]
    assert ask(graph, body % "$i.flag, count(*) as n") == []


def test_a_group_of_nulls(graph: og.Graph) -> None:
    body = (
        "match { $i: Item $i.small is null } return { $i.name, count($i.small) as a,"
        " sum($i.small) as b, avg($i.half) as c, min($i.moment) as d, count(distinct $i.big) as e }"
    )
    assert ask(graph, body) == [("null", 0, None, None, None, 0)]


def test_aggregates_of_every_type(graph: og.Graph) -> None:
    low, high = datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)
    first = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=datetime.UTC)
    body = (
        "match { $i: Item } return { min($i.text) as a, max($i.text) as b, min($i.day) as c,"
        " max($i.day) as d, min($i.moment) as e, min($i.small) as f, max($i.big) as g,"
        " min($i.ratio) as h, max($i.half) as i, max($i.positive) as j }"
    )
    row = ask(graph, body)[0]
    assert row[:5] == ("100%_a", "zoe", low, high, first)
    assert row[5:] == (-7, MOST, -1.5, 0.5, 2**32 - 1)


def test_sums_of_integers_are_exact(graph: og.Graph) -> None:
    body = "match { $i: Item $i.small = 2 } return { sum($i.big - 9223372036854775806) as s }"
    assert ask(graph, body) == [((EDGE + 1 - (MOST - 1)) + 1,)]
    some = "match { $i: Item $i.big != 9223372036854775807 } return { sum($i.big) as s }"
    assert ask(graph, some) == [(EDGE + 1 - 2**63,)]
    kinds = "match { $i: Item } return { sum($i.small) as a, sum($i.positive) as b }"
    assert ask(graph, kinds) == [(-3, 2**32 - 1)]
    with pytest.raises(og.QueryError, match="overflow"):
        ask(graph, "match { $i: Item $i.big > 0 } return { sum($i.big) as s }")


def test_averages_do_not_wrap(graph: og.Graph) -> None:
    body = "match { $i: Item $j: Item $i.big = 9223372036854775807 } return { avg($i.big) as a }"
    assert ask(graph, body) == [(float(MOST),)]


def test_aggregates_combine(graph: og.Graph) -> None:
    body = (
        "match { $i: Item } return { $i.flag, sum($i.small) / count(*) as a, count(*) > 1 as b,"
        " max($i.small) - min($i.small) as c }"
    )
    assert ask(graph, body) == [
        (False, -7.0, False, 0),
        (None, None, False, None),
        (True, 2, True, 0),
    ]


def test_count_distinct(graph: og.Graph) -> None:
    body = (
        "match { $i: Item $j: Item } return { count(distinct $i) as a,"
        " count(distinct $i.flag) as b, count($i.flag) as c, count(*) as d,"
        " count(distinct $i.small) as e }"
    )
    assert ask(graph, body) == [(4, 2, 12, 16, 2)]


def test_distinct_merges_nulls(graph: og.Graph) -> None:
    body = "match { $i: Item $j: Item } return distinct { $i.flag, $i.small }"
    assert ask(graph, body) == [(False, -7), (None, None), (True, 2)]
    assert ask(graph, body.replace("$i.flag, $i.small", "7")) == [(7,)]


# ---- order and cut ------------------------------------------------------------------------


def ordered(graph: og.Graph, rest: str, signature: str = "", **params: object) -> list[str]:
    body = f"match {{ $i: Item }} return {{ $i }} order {rest}"
    return [str(row[0]) for row in ask(graph, body, signature, **params)]


@pytest.mark.parametrize("name", ["small", "flag", "day", "moment", "ratio", "text", "positive"])
def test_null_is_lowest_both_ways(graph: og.Graph, name: str) -> None:
    missing = which(graph, f"$i.{name} is null")
    assert sorted(ordered(graph, f"{{ $i.{name} }}")[: len(missing)]) == missing
    assert sorted(ordered(graph, f"{{ $i.{name} desc }}")[-len(missing) :]) == missing


def test_order_and_ties(graph: og.Graph) -> None:
    assert ordered(graph, "{ $i.small }") == ["null", "low", "full", "other"]
    assert ordered(graph, "{ $i.small desc }") == ["full", "other", "low", "null"]
    assert ordered(graph, "{ $i.flag desc, $i.big desc }") == ["other", "full", "low", "null"]
    assert ordered(graph, "{ $i.small * -1 }") == ["null", "full", "other", "low"]
    assert ordered(graph, "{ $i desc }") == ["other", "null", "low", "full"]
    assert ordered(graph, "{ 1 }") == ALL


def test_order_by_alias_and_by_what_is_not_returned(graph: og.Graph) -> None:
    body = "match { $i: Item } return { $i.small * 2 as twice, $i } order { twice desc, $i.text }"
    assert [row[1] for row in ask(graph, body)] == ["full", "other", "low", "null"]
    groups = (
        "match { $i: Item } return { $i.flag, count(*) as n } order { max($i.big), $i.flag desc }"
    )
    assert ask(graph, groups) == [(None, 1), (False, 1), (True, 2)]
    distinct = "match { $i: Item } return distinct { $i.flag } order { $i.flag desc }"
    assert ask(graph, distinct) == [(True,), (False,), (None,)]


def test_ties_go_by_the_ids_of_all_variables_in_name_order(graph: og.Graph) -> None:
    body = "match { $z: Item $a: Item $z.small = 2 $a.small = 2 } return { $z, $a } order { 1 }"
    assert ask(graph, body) == [
        ("full", "full"),
        ("other", "full"),
        ("full", "other"),
        ("other", "other"),
    ]


def test_strings_sort_by_code_point(graph: og.Graph) -> None:
    assert ordered(graph, "{ $i.text }") == ["null", "low", "full", "other"]


@pytest.mark.parametrize(
    ("cut", "kept"),
    [
        ("limit 0", []),
        ("limit 2", ALL[:2]),
        ("limit 99", ALL),
        ("offset 3", ALL[3:]),
        ("offset 4", []),
        ("offset 99", []),
        ("limit 2 offset 1", ALL[1:3]),
        ("offset 1 limit 2", ALL[1:3]),
        ("limit 9223372036854775807 offset 1", ALL[1:]),
        ("offset 9223372036854775807", []),
    ],
)
def test_limit_and_offset(graph: og.Graph, cut: str, kept: list[str]) -> None:
    assert ordered(graph, "{ $i } " + cut) == kept


def test_limit_by_parameter(graph: og.Graph) -> None:
    assert ordered(graph, "{ $i } limit $n offset $n", "$n: I64", n=1) == ALL[1:2]
    for cut in ("limit", "offset"):
        with pytest.raises(og.QueryError, match=f"`{cut}` must not be negative"):
            ordered(graph, f"{{ $i }} {cut} $n", "$n: I64", n=-1)


# ---- columns ------------------------------------------------------------------------------


def test_columns_are_named_by_one_rule(graph: og.Graph) -> None:
    result = graph.query(
        "query q($x: I64) { match { $i: Item } return { $i, $i.text, $x, 7, now(), $i.small + 1,"
        " $i.small as s, $i.flag = true } }",
        {"x": 1},
    )
    assert result.columns == [
        "i",
        "i.text",
        "x",
        "literal",
        "now",
        "i.small + 1",
        "s",
        "i.flag = true",
    ]
    grouped = graph.query(
        "query q() { match { $i: Item } return { count(*), count($i), sum($i.small) } }"
    )
    assert grouped.columns == ["count", "i", "i.small"]


def test_two_columns_of_one_name_are_refused(graph: og.Graph) -> None:
    """Rows as dictionaries would lose one of them."""
    with pytest.raises(og.CompileError, match="two columns are named `a`"):
        graph.query("query q() { match { $i: Item } return { $i.name as a, $i.small as a } }")


def test_values_come_back_as_they_went_in(graph: og.Graph) -> None:
    fields = ", ".join(f"$i.{name} as {name}" for name in FULL)
    body = f'query q() {{ match {{ $i: Item {{ name: "full" }} }} return {{ {fields} }} }}'
    row = graph.query(body).one()
    assert row.pop("half") == pytest.approx(0.1)
    assert row.pop("day") == datetime.date(2024, 2, 29)
    assert row.pop("moment") == datetime.datetime.fromisoformat("2024-02-29T10:00:00.123Z")
    assert row == {k: v for k, v in FULL.items() if k not in ("half", "day", "moment")}
