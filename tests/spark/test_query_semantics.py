"""Where Spark means something else, a query on it means the same as in one process.

Each rule is a query whose local answer is written down, run on both engines.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
import omnigraph.spark as ogs
from tests.spark.two_engines import both, both_refuse
from tests.spark.worlds import FULL

pytestmark = pytest.mark.usefixtures("interpreted")

SCHEMA = """\
node Value {
    name: String @key
    small: I32?
    whole: I64?
    plain: U32?
    wide: U64?
    real: F64?
    half: F32?
    day: Date?
    moment: DateTime?
    text: String?
    texT: Bool?
    items: [I64]?
    reals: [F64]?
}
edge Next: Value -> Value { weight: I64? }
edge Only: Value -> Value { @unique(src, dst) }
"""
TOP = 2**63 - 1
ROWS: list[dict[str, Any]] = [
    {"name": "a", "small": -7, "whole": TOP, "wide": 2**64 - 1, "real": 1e300, "plain": 2**32 - 1},
    {"name": "b", "small": 2, "whole": 2**53 + 1, "wide": 7, "real": 2.0**53, "half": 0.1},
    {"name": "c", "small": 0, "whole": -(2**63) + 1, "real": -7.5, "day": "0001-01-01"},
    {"name": "d", "small": -(2**31), "whole": 2**60 + 512, "real": 2.0**60, "day": "1582-10-04"},
    {"name": "e", "text": "\uffff", "texT": True, "day": "9999-12-31", "reals": [-0.0, 2.5]},
    {"name": "f", "text": "\U0001f600", "texT": False, "items": [2**53 + 1, 3], "real": -0.0},
    {"name": "g", "text": "", "items": [], "real": 0.0, "moment": "0001-01-01T00:00:00.001Z"},
    {"name": "h", "text": "A%_b", "moment": "1969-12-31T23:59:59.999Z", "half": 16777216.0},
    {"name": "i"},
]
EDGES = [("a", "b"), ("a", "b"), ("b", "c"), ("c", "c"), ("c", "a"), ("d", "a"), ("b", "a")]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    place: Path = tmp_path_factory.mktemp("semantics")
    with og.init(place / "g", SCHEMA, durability="none") as made:
        rows: list[dict[str, Any]] = [{"type": "Value", "data": row} for row in ROWS]
        rows += [
            {"edge": "Next", "from": a, "to": b, "data": {"weight": number}}
            for number, (a, b) in enumerate(EDGES)
        ]
        rows += [{"edge": "Only", "from": a, "to": b} for a, b in sorted(set(EDGES))]
        made.load(rows, mode="append")
        yield made


def value_of(name: str, expressions: str) -> str:
    return f'match {{ $v: Value {{ name: "{name}" }} }} return {{ {expressions} }}'


def test_division_and_remainder(spark: Any, graph: og.Graph) -> None:
    found = both(
        spark,
        graph,
        "match { $v: Value } return { $v.name, $v.small / 2 as half, $v.small % 2 as odd,"
        " $v.real % 2 as rest, 7 / $v.small as by, 7 % $v.small as left, $v.wide % 10 as last,"
        " -$v.real as minus, $v.wide / 2 as far, $v.half * 10 as more } order { $v.name }",
    )
    assert found[0][1:5] == (-3.5, -1, 0.0, -1.0)
    # By zero is null, and so is the rest.
    assert found[2][1:6] == (0.0, 0, -1.5, None, None)


@pytest.mark.parametrize(
    "expression",
    [
        "$v.whole + 1",
        # Spark repeats what fails four times, which takes seconds.
        *(
            ["-$v.wide", "$v.whole * 3 - $v.whole", "$v.wide + 0", "$v.wide * $v.wide"]
            if FULL
            else []
        ),
    ],
)
def test_an_overflow_is_the_same_error(spark: Any, graph: og.Graph, expression: str) -> None:
    text = f"match {{ $v: Value }} return {{ {expression} as x }}"
    assert "integer overflow" in both_refuse(spark, graph, text)


def test_an_overflow_shows_where_another_condition_has_decided(spark: Any, graph: og.Graph) -> None:
    both_refuse(
        spark, graph, 'match { $v: Value ($v.name = "a" or $v.whole + 1 > 0) } return { $v }'
    )
    # A row that is not there does not overflow.
    found = both(
        spark, graph, 'match { $v: Value $v.name != "a" $v.whole + 1 > 0 } return { $v.name }'
    )
    assert len(found) == 2


def test_sums_are_exact_and_must_fit(spark: Any, graph: og.Graph) -> None:
    found = both(
        spark,
        graph,
        "match { $v: Value } return { sum($v.small) as s, avg($v.small) as a, avg($v.whole) as w,"
        " sum($v.plain) as p, min($v.wide) as l, max($v.wide) as m, count($v.text) as n,"
        " count(distinct $v.real) as d, avg($v.real) as r, max($v.text) as t, min($v.day) as f }",
    )
    assert found[0][:2] == (-(2**31) - 5, (-(2**31) - 5) / 4)
    assert found[0][7] == 5
    assert found[0][9] == "\U0001f600"
    same = 'match { $v: Value $u: Value $v.name = "a" } return { sum($v.whole) as s }'
    assert "a sum does not fit" in both_refuse(spark, graph, same)
    wide = 'match { $v: Value $u: Value $v.name = "a" } return { sum($v.wide) as s }'
    assert "a sum does not fit" in both_refuse(spark, graph, wide)


def test_integers_compare_with_floats_exactly(spark: Any, graph: og.Graph) -> None:
    found = both(
        spark,
        graph,
        "match { $v: Value } return { $v.name, $v.whole = $v.real as e, $v.whole > $v.real as g,"
        " $v.whole <= 9007199254740992.0 as l, $v.wide >= $v.whole as w, $v.half = 0.1 as h,"
        " $v.whole in [9007199254740993, 1] as i, $v.real in [9007199254740992, 0] as r,"
        " $v.items contains 9007199254740992.0 as c, $v.reals contains 0 as z } order { $v.name }",
    )
    assert found[1][1:] == (False, True, False, False, False, True, True, None, None)
    assert found[3][1:3] == (False, True)
    assert found[5][8] is False
    assert found[4][9] is True


NAN = "($v.real * $v.real - $v.real * $v.real)"


def test_not_a_number_equals_nothing_and_sorts_above_all(spark: Any, graph: og.Graph) -> None:
    found = both(
        spark,
        graph,
        f"match {{ $v: Value }} return {{ $v.name, {NAN} as x, {NAN} = {NAN} as e,"
        f" {NAN} != {NAN} as n, {NAN} > $v.small as g, {NAN} = $v.whole as w }}"
        f" order {{ x desc, $v.name desc }}",
    )
    assert [row[1] for row in found] == ["NaN", *[0.0] * 5, *[None] * 3]
    assert found[0][2:] == (False, True, False, False)
    assert found[-1][1:3] == (None, None)
    most = both(
        spark,
        graph,
        f"match {{ $v: Value }} return {{ $v.plain, min({NAN}) as l, max({NAN}) as m,"
        f" count(distinct {NAN}) as d, count(*) as n }}",
    )
    assert sorted(most, key=str) == [(2**32 - 1, "NaN", "NaN", 1, 1), (None, 0.0, 0.0, 1, 8)]
    all_of_it = f"match {{ $v: Value }} return {{ min({NAN}) as l, max({NAN}) as m }}"
    assert both(spark, graph, all_of_it) == [(0.0, 0.0)]


def test_text_goes_by_code_points_and_knows_no_wildcards(spark: Any, graph: og.Graph) -> None:
    found = both(
        spark,
        graph,
        'match { $v: Value } return { $v.name, $v.texT, $v.text < "\U0001f600" as l,'
        ' $v.text contains "%" as p, $v.text starts_with "A%" as s, $v.text contains "a" as c,'
        " $v.text is null as n } order { $v.text desc }",
    )
    assert [row[0] for row in found] == ["f", "e", "h", "g", "a", "b", "c", "d", "i"]
    assert found[2][2:6] == (True, True, True, False)


def test_days_and_instants_of_all_years(spark: Any, graph: og.Graph) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        found = both(
            spark,
            graph,
            'match { $v: Value } return { $v.name, $v.day, $v.moment, $v.day < date("1582-10-05")'
            ' as d, $v.moment > datetime("0001-01-01") as m, now() > $v.moment as w }'
            " order { $v.day, $v.moment desc }",
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [row[0] for row in found] == ["h", "g", "a", "b", "f", "i", "c", "d", "e"]
    assert found[-1][1] == datetime.date(9999, 12, 31)
    assert found[1][2] == datetime.datetime(1, 1, 1, 0, 0, 0, 1000, tzinfo=datetime.UTC)


def test_null_is_unknown_everywhere(spark: Any, graph: og.Graph) -> None:
    both(
        spark,
        graph,
        "match { $v: Value } return { $v.name, not ($v.small > 0) as n, $v.small > 0 or"
        " $v.texT = true as o, $v.small > 0 and $v.texT = true as a, $v.small in [1, 2] as i,"
        " ($v.small > 0) is null as u, $v.whole in $v.items as c }",
    )


def test_groups_and_distinct_rows_take_equal_values_together(spark: Any, graph: og.Graph) -> None:
    zeros = both(spark, graph, "match { $v: Value } return { $v.real, count(*) as n }")
    assert (0.0, 2) in zeros
    assert len(both(spark, graph, "match { $v: Value } return distinct { $v.real, $v.half }")) == 7
    lists = both(spark, graph, "match { $v: Value } return { count(distinct $v.items) as n }")
    assert lists == [(2,)]
    none = both(
        spark,
        graph,
        'match { $v: Value { name: "?" } } return { count(*) as n, sum($v.whole) as s,'
        " avg($v.real) as a, min($v.text) as m, count(distinct $v.small) as d }",
    )
    assert none == [(0, None, None, None, 0)]


def test_ties_go_by_ids_and_a_cut_comes_last(spark: Any, graph: og.Graph) -> None:
    found = both(
        spark,
        graph,
        "match { $v $w:next $u } return { $v, $u } order { $u.texT, $v.small desc }"
        " limit 3 offset 2",
    )
    assert found == [("c", "a"), ("c", "c"), ("a", "b")]
    both(spark, graph, "match { $v: Value } return { $v.name } order { $v.name } offset 7")
    assert both(spark, graph, "match { $v: Value } return { $v.name } limit 0") == []


def test_names_may_differ_in_case_only(spark: Any, graph: og.Graph) -> None:
    both(
        spark,
        graph,
        "match { $vv: Value $vV: Value $vv.text = $vV.text }"
        " return { $vv.text, $vV.text, $vV.texT }",
    )


EDGE_QUERIES = [
    "match { $a next $b } return { $a, $b }",
    "match { $a $w:next $b } return { $a, $w.weight, $b }",
    "match { $a only $b $b only $c } return { $a, $c.small }",
    "match { $a <next> $b } return { $a, $b }",
    "match { $a $w:<next> $b $w.weight > 0 } return { $a, $b, $w.from }",
    "match { $a next{1,3} $b } return { $a, $b }",
    "match { $a next{2,9} $b $b.small < 1 } return { $a, $b.small }",
    "match { $a next $b $b next $a } return { $a, $b }",
    "match { $a next $b $a next{2,3} $b } return { $a, $b }",
    "match { $a: Value not { $a next $b $b.small < 0 } } return { $a }",
    "match { $a: Value not { $b: Value ($b.small = $a.whole) } } return { $a }",
    "match { $a: Value optional { $a $w:next $b $b.small > 0 } } return { $a, $w.weight, $b.name }",
    "match { $a: Value optional { $a next $b not { $b next $b } } } return { $a, $b }",
    "match { $a: Value $b: Value $a.real = $b.small } return { $a, $b }",
    "match { $a: Value $b: Value $a.whole > $b.real } return { $a, $b }",
    "match { $a: Value exists { $a next $b $b.small > 0 } or $a.texT } return { $a }",
    "match { $a: Value count { $a next $b } < 2 } return { $a, count { $a $w:next $b } as n,"
    " sum($w.weight) { $a $w:next $b $b.small > -9 } as s, exists { $a only $a } as e }",
]


@pytest.mark.parametrize("number", range(len(EDGE_QUERIES)))
def test_steps(spark: Any, graph: og.Graph, number: int) -> None:
    # Sorting and merging comes to the same as broadcasting; in full every query does both.
    for size in (0, 100) if FULL else (100 * (number % 2),):
        both(spark, graph, EDGE_QUERIES[number], broadcast_rows=size)


COUNTED = [
    "match { $a next $b $b next $c } return { count(*) as n }",
    "match { $a $v:next $b $b $w:next $c } return { count(*) as n, count($w.id) as m }",
    "match { $a next $b $b next $c $c.small > -9 } return { $a.name, count($c) as n }",
    "match { $a next $b $a only $c } return { $b.texT, count(*) as n, sum($a.small) as s,"
    " avg($a.small) as v, min($c.text) as m, count($a.small) as k }",
    "match { $a next $b $b next{1,2} $c } return { $a, count(*) as n }",
    "match { $a next $b $b next $c } return { count(distinct $b.small) as n, max($a.small) as m }",
    "match { $a next $b $b next $c } return distinct { $a.texT }",
    "match { $a next $b $c: Value $c.small > $b.small } return { count(*) as n }",
    'match { $a next $b $b next $c $a.name = "none" } return { count(*) as n }',
]


@pytest.mark.parametrize("number", range(len(COUNTED)))
def test_counting_comes_to_the_same_as_listing(spark: Any, graph: og.Graph, number: int) -> None:
    both(spark, graph, COUNTED[number])


def test_a_mean_of_large_floats_is_finite(spark: Any, graph: og.Graph) -> None:
    big = "($v.real * 100000000.0)"
    text = f'match {{ $v: Value $u: Value $v.name = "a" }} return {{ avg({big}) as a }}'
    assert math.isfinite(both(spark, graph, text)[0][0])


def test_edges_of_several_types_are_followed_as_one(spark: Any, graph: og.Graph) -> None:
    pattern = "$v: Value $v (next|only) $w"
    assert both(spark, graph, f"match {{ {pattern} }} return {{ count(*) as n }}") == [(6,)]
    found = both(
        spark,
        graph,
        "match { $v: Value $w: Value $v $e:-> $w not { $x: Value $x.name = $e.to $x.small = 2 } }"
        " return { type($e) as kind, type($v) as node, count(*) as n, sum($v.small) as sum }"
        " order { kind }",
    )
    total = -(2**31) + 2 + 2
    assert found == [("Next", "Value", 5, total), ("Only", "Value", 5, total)]
    hops = 'match { $v: Value $v (next|only){2,3} $w $w.name = "c" }'
    found = both(spark, graph, f"{hops} return {{ $v.name }} order {{ $v.name }}")
    assert found == [("a",), ("d",)]


def test_a_path_is_refused(spark: Any, graph: og.Graph) -> None:
    text = "query q() { match { $v: Value $v $p:next{1,3} $w } return { length($p) } }"
    with pytest.raises(og.BadRequestError, match="names a path"):
        ogs.query(spark, graph, text)
