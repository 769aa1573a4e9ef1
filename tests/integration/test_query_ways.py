"""However rows are fetched and counted, a query gives the same answer, also after commits."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import omnigraph as og
from omnigraph.plan import ReadPlan
from omnigraph.read import Fetch, Reader
from omnigraph.read import topology as topology_module
from omnigraph.store import measured
from tests.places import AnyPath

SCHEMA = """
node Person { key: String @key name: String age: I32 score: I64? }
node City { key: String @key name: String size: I32 }
edge Follows: Person -> Person { weight: I32? }
edge LivesIn: Person -> City
"""
PERSONS, CITIES, FOLLOWS = 300, 12, 1500

QUERIES = [
    "match { $f: Person $p: Person $f follows $p }"
    " return { $p.id as key, $p.name as name, count($f) as n } order { n desc, key } limit 4",
    "match { $f: Person $f follows $p $p livesIn $c }"
    " return { $p, $c.name as city, count($f) as n } order { n desc, $p } limit 3",
    "match { $p: Person $p livesIn $c $c.size > 3 } return { $c.name, avg($p.age) as a }",
    "match { $p: Person $p livesIn $c $p.age > 30 } return { $c.name, count($p) as n }",
    "match { $p: Person $p livesIn $c $q livesIn $c $q.age < 20 }"
    " return { $p.name, count(*) as n, sum($q.score) as s, min($q.name) as l, max($p.age) as m }",
    "match { $a: Person $a follows $b $b follows $c } return { count(*) as n }",
    "match { $a: Person $a follows $b $b follows $c $b.age < 40 $c.age > 25 }"
    " return { count(*) as n, count(distinct $b) as b, count($c.score) as s }",
    "match { $a: Person $a follows $b $b follows $c $c livesIn $d $a livesIn $e $e.size < 5 }"
    " return { $d.name, count(*) as n }",
    "match { $a: Person $a $w:follows $b $w.weight > 2 $b $x:follows $c }"
    " return { $b.age, count($x.weight) as n, sum($w.weight) as s }",
    "match { $a: Person $a <follows> $b $b livesIn $c } return { $c, count(*) as n }",
    "match { $a: Person $a follows{1,2} $b $b.age > 50 } return { count(*) as n }",
    "match { $a: Person $a follows{2,3} $b } return distinct { $b.age }",
    "match { $a: Person $a follows $b $b livesIn $c } return { $c.name }",
    "match { $a: Person $a follows $b not { $b livesIn $c $c.size > 2 } }"
    " return { $b.age, count(*) as n }",
    "match { $a: Person $a follows $b optional { $b livesIn $c $c.size > 2 } }"
    " return { $c.name, count($a) as n, count($c) as m }",
    "match { $a: Person $a follows $b $b follows $c $c follows $a } return { count(*) as n }",
    "match { $a: Person $a follows $b $b <follows> $a } return { $a.age, count(*) as n }",
    "match { $a: Person not { $a follows $b $b.age > 60 $b livesIn $c } } return { $a }",
    "match { $a: Person not { $b follows $a $a $w:follows $c $w.weight > 2 } } return { $a }",
    "match { $a: Person not { $a follows{1,2} $b $b.age > 68 } } return { count(*) as n }",
    'match { $a: Person { key: "p7" } } return { $a.name, $a.age }',
    'match { $a: Person { key: "nobody" } $a follows $b } return { count(*) as n }',
    'match { $a: Person { key: "p7" } $a follows $b } return { $b.name }',
    'match { $a: Person { key: "p7" } $b follows $a } return { $b.name, $b.score }',
    'match { $a: Person { key: "p7" } $a follows $b $b follows $c }'
    " return { count(distinct $c) as n }",
    'match { $a: Person { key: "p7" } $a follows $b $b follows $c $c.age > 30 }'
    " return { $c.age, count(*) as n }",
    'match { $a: Person { key: "p7" } $a follows{1,3} $b } return { count(*) as n }',
    'match { $a: Person { key: "p7" } $c: Person { key: "p8" } $a follows $b $c follows $b }'
    " return { $b }",
]


def _person(number: int, r: random.Random) -> dict[str, Any]:
    data = {"key": f"p{number}", "name": f"n{number % 90}", "age": r.randint(18, 70)}
    return {"type": "Person", "data": {**data, "score": r.choice([None, 1, 2, 10**6])}}


def _follows(r: random.Random, size: int, persons: int = PERSONS) -> list[dict[str, Any]]:
    def one() -> int:
        return min(r.randrange(persons), r.randrange(persons))

    return [
        {
            "edge": "Follows",
            "from": f"p{one()}",
            "to": f"p{one()}",
            "data": {"weight": r.choice([None, 1, 2, 3])},
        }
        for _ in range(size)
    ]


@pytest.fixture
def graph(place: AnyPath) -> og.Graph:
    r = random.Random(4)  # noqa: S311
    made = og.init(place / "graph", SCHEMA, durability="none")
    rows: list[dict[str, Any]] = [_person(number, r) for number in range(PERSONS)]
    rows += [
        {"type": "City", "data": {"key": f"c{n}", "name": f"name{n // 2}", "size": n}}
        for n in range(CITIES)
    ]
    rows += _follows(r, FOLLOWS)
    rows += [
        {"edge": "LivesIn", "from": f"p{n}", "to": f"c{r.randrange(CITIES)}", "data": {}}
        for n in range(PERSONS - 20)
    ]
    made.load(rows, mode="append")
    return made


def _rows(table: Any, *, ordered: bool) -> Any:
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return rows if ordered else Counter(rows)


def _check(graph: og.Graph, readers: list[Reader]) -> None:
    """Every reader, and one that knows nothing yet, agrees with listing all rows."""
    pins = graph.snapshot().tables
    fresh = Reader(graph._engine.tables)
    for text in QUERIES:
        source = f"query q() {{ {text} }}"
        plan = graph._engine.compile(source, None, graph._engine.schema).plan
        assert isinstance(plan, ReadPlan)
        found = [
            _rows(
                reader.execute(plan, graph.catalog, pins, {}, now=None),  # type: ignore[arg-type]
                ordered=" order " in text,
            )
            for reader in [*readers, fresh]
        ]
        assert all(rows == found[0] for rows in found), text
        assert found[0] == _rows(graph.query(source).to_arrow(), ordered=" order " in text)


def test_all_ways_agree_after_every_kind_of_commit(graph: og.Graph) -> None:
    r = random.Random(8)  # noqa: S311
    readers = [
        Reader(graph._engine.tables, factorise=False),
        Reader(graph._engine.tables),
        Reader(graph._engine.tables, fetch=Fetch.RESIDENT),
        Reader(graph._engine.tables, fetch=Fetch.PROBE),
    ]
    _check(graph, readers)
    graph.load(_follows(r, 30), mode="append")
    _check(graph, readers)
    new = [_person(PERSONS + n, r) for n in range(5)]
    graph.load([*new, *_follows(r, 40, PERSONS + 5)], mode="append")
    _check(graph, readers)
    graph.mutate('query m() { update Person set { age: 99 } where key = "p3" }')
    _check(graph, readers)
    graph.mutate('query m() { delete Follows where from = "p1" }')
    _check(graph, readers)
    graph.mutate('query m() { delete Person where key = "p2" }')
    _check(graph, readers)
    graph.load(_follows(r, 10), mode="append")
    _check(graph, readers)


def test_added_rows_patch_what_is_known(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    r = random.Random(9)  # noqa: S311
    text = f"query q() {{ {QUERIES[5]} }}"

    def work() -> tuple[int, int]:
        with measured() as io:
            graph.query(text)
        return io["topology_builds"], io["topology_patches"]

    assert work() == (1, 0)
    graph.load(_follows(r, 30), mode="append")
    assert work() == (0, 1)
    assert work() == (0, 0)
    graph.load([_person(PERSONS, r)], mode="append")
    assert work() == (0, 1)
    graph.mutate('query m() { update Person set { age: 98 } where key = "p5" }')
    assert work() == (0, 1), "rows that moved are numbered again"
    monkeypatch.setattr(topology_module, "PATCHED_EDGES_MAX", 5)
    graph.load(_follows(r, 6), mode="append")
    assert work() == (1, 0)
    graph.mutate('query m() { delete Follows where from = "p1" }')
    assert work() == (1, 0)
