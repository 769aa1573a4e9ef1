"""Plans as text: one line per step, nested patterns indented, mutations statement by statement."""

from __future__ import annotations

import datetime

import pytest

from omnigraph.catalog.model import LiteralValue
from omnigraph.lang.queries import compile_query
from omnigraph.lang.schema import compile_schema
from omnigraph.plan import explain, expression_text
from omnigraph.plan.explain import literal_text
from omnigraph.plan.expression import (
    FLOAT,
    INT,
    TEXT,
    Aggregate,
    AggregateFunction,
    And,
    Arithmetic,
    ArithmeticOp,
    Compare,
    CompareOp,
    Constant,
    Expression,
    IdOf,
    IsNull,
    Member,
    Negate,
    Not,
    Or,
    Parameter,
    PropertyOf,
    Substring,
    Vanishing,
    children,
    conjunction,
    variables_of,
    walk,
)

CATALOG = compile_schema(
    """
    node Person { slug: String @key  name: String  age: I32?  vec: Vector(2)? }
    edge Knows: Person -> Person { since: I32? @unique(src, dst) }
    """
).catalog

AGE = PropertyOf(variable="p", property="age", type=INT)
NAME = PropertyOf(variable="q", property="name", type=TEXT)
ONE = Constant(value=1, type=INT)
X = Parameter(name="x", type=INT)
IS_ONE = Compare(op=CompareOp.EQ, left=AGE, right=ONE)


def explained(text: str) -> list[str]:
    return explain(compile_query(text, CATALOG).plan).split("\n")


def test_a_read_plan_shows_everything_it_does() -> None:
    text = """
    query q($x: I32, $n: I64) {
        match {
            $p: Person { age: $x }
            $p $w:knows $f
            $p.name != $f.name
            not { $f knows{2,3} $g  not { $g <knows> $p } }
            optional { $h knows $p  $h.age > 3 }
        }
        return { $p.name, count($h) as n }
        order { n desc, max($w.since) }
        offset 10
        limit $n
    }
    """
    assert explained(text) == [
        "read q($x: I32, $n: I64)",
        "  scan $p: Person where ($p.age = $x)",
        "  expand $p -$w:Knows-> $f: Person",
        "  filter ($p.name != $f.name)",
        "  not exists ($f, $p)",
        "    expand $f -Knows{2,3}-> $g: Person",
        "    not exists ($g, $p)",
        "      expand into $g -Knows- $p",
        "  optional ($p) adds $h",
        "    expand $p <-Knows- $h: Person where ($h.age > 3)",
        "  group $p.name as p.name: String, count($h.id) as n: I64, "
        "max($w.since) as max($w.since): I32? (hidden)",
        "  sort column 2 desc, column 3 asc",
        "  offset 10",
        "  limit $n",
    ]


def test_ranking_distinct_and_grouped_distinct() -> None:
    assert explained(
        'query q() { match { $p: Person } return { $p } order { nearest($p.vec, "x") } limit 1 }'
    )[2:] == ["  project $p.id as p: String", '  rank nearest($p.vec, "x")', "  limit 1"]
    assert explained("query q() { match { $p: Person } return distinct { $p.age } }")[2:] == [
        "  distinct $p.age as p.age: I32?"
    ]
    assert explained("query q() { match { $p: Person } return distinct { count(*) } }")[2:] == [
        "  group count(*) as count: I64",
        "  distinct",
    ]


def test_a_mutation_plan_shows_each_statement() -> None:
    text = """
    query m($s: String) {
        insert Person { slug: $s, name: "a", age: null }
        upsert Person { slug: $s }
        insert Knows { from: $s, to: "b", since: -3 }
        upsert Knows { from: $s, to: "b" }
        update Person set { age: 1 + 2 } where slug = $s and age is not null
        update Knows set { since: null } where from = $s or to = $s
    }
    """
    assert explained(text) == [
        "mutation m($s: String)",
        '  insert node Person {slug: $s, name: "a", age: null}',
        "  upsert node Person {slug: $s} (adding needs name)",
        '  insert edge Knows $s -> "b" {since: -3}',
        '  upsert edge Knows $s -> "b" {}',
        "  update node Person set {age: (1 + 2)} where ((slug = $s) and (age is not null))",
        "  update edge Knows set {since: null} where ((from = $s) or (to = $s))",
    ]
    assert explained("query m() { delete Knows where id in [] delete Person where age < 3 }") == [
        "mutation m()",
        "  delete edge Knows where (id in [])",
        "  delete node Person where (age < 3)",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (-3, "-3"),
        (2.5, "2.5"),
        ('a"b\n', r'"a\"b\n"'),
        ("Zoë", '"Zoë"'),
        (datetime.date(2025, 3, 1), 'date("2025-03-01")'),
        (
            datetime.datetime(2025, 3, 1, 10, 0, 0, 5000, tzinfo=datetime.UTC),
            'datetime("2025-03-01T10:00:00.005Z")',
        ),
        ((1, "a", (True,)), '[1, "a", [true]]'),
        ((), "[]"),
    ],
)
def test_literals_are_spelled_as_in_source(value: LiteralValue, text: str) -> None:
    assert literal_text(value) == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Arithmetic(op=ArithmeticOp.DIV, left=AGE, right=ONE, type=FLOAT), "($p.age / 1)"),
        (Negate(operand=AGE, type=INT), "-$p.age"),
        (Member(item=X, container=AGE), "($x in $p.age)"),
        (Substring(text=NAME, part=X), "($q.name contains $x)"),
        (Substring(text=NAME, part=X, prefix=True), "($q.name starts_with $x)"),
        (IsNull(operand=IdOf(variable="w")), "($w.id is null)"),
        (And(operands=(IS_ONE, Not(operand=IS_ONE))), "(($p.age = 1) and not ($p.age = 1))"),
        (
            Vanishing(condition=IS_ONE, parameters=("a", "b")),
            "(($p.age = 1) unless $a, $b is null)",
        ),
        (Aggregate(function=AggregateFunction.COUNT, argument=None, type=INT), "count(*)"),
        (
            Aggregate(function=AggregateFunction.COUNT, argument=AGE, type=INT, distinct=True),
            "count(distinct $p.age)",
        ),
    ],
)
def test_expressions_are_close_to_source(expression: Expression, text: str) -> None:
    assert expression_text(expression) == text


def test_walking_an_expression() -> None:
    whole = Or(operands=(IS_ONE, Compare(op=CompareOp.LT, left=NAME, right=X)))
    assert list(children(whole)) == list(whole.operands)
    assert [type(part) for part in walk(IS_ONE)] == [Compare, PropertyOf, Constant]
    assert variables_of(whole) == {"p", "q"}


def test_conjunction_of_none_one_and_many() -> None:
    assert conjunction(()) is None
    assert conjunction((IS_ONE,)) is IS_ONE
    assert conjunction((IS_ONE, IS_ONE)) == And(operands=(IS_ONE, IS_ONE))
