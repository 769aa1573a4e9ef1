"""Small reads: a row by its key, prepared queries, and how stale an answer may be."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.lang import compile_query
from omnigraph.plan import ReadPlan
from omnigraph.read import Fetch, Reader, execute
from omnigraph.store import measured

SCHEMA = """
node Person { name: String @key  age: I64?  tags: [String]? }
node City { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""
BY_KEY = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age, $p.name as n } }"
ADD = "query a($n: String, $a: I64) { insert Person { name: $n, age: $a } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "g", SCHEMA, durability="none")
    rows = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(4)]
    made.load(rows, mode="append")
    made.mutate(ADD, {"n": "p4", "a": 4})
    return made


def again(graph: og.Graph) -> og.Graph:
    return og.open(graph.uri, durability="none")


# ---- one row by its key -------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "match { $p: Person { name: $n } } return { $p.age, $p.name as n }",
        "match { $p: Person { name: $n } } return { $p, $p.tags, $p.age, $p.age as again }",
        "match { $p: Person { name: $n } } return { $p.age + 1 as more }",
        "match { $p: Person { name: $n } } return { $p.age } limit 0",
        "match { $p: Person { name: $n } } return { $p.age } order { $p.age desc }",
        "match { $p: Person { name: $n } $p.age > 2 } return { $p.age }",
        "match { $p: Person { name: $n } } return { count($p) as n }",
        "match { $p: Person { name: $n } } return distinct { $p.age }",
    ],
)
def test_a_row_from_memory_is_the_row_the_steps_find(graph: og.Graph, body: str) -> None:
    text = f"query q($n: String) {{ {body} }}"
    names = ("p3", "p0", "nobody", "")
    with again(graph) as cold:
        steps = [cold.query(text, {"n": name}).to_arrow() for name in names[:1]]
    steps += [graph.query(text, {"n": name}).to_arrow() for name in names[1:]]
    graph.query("query all() { match { $p: Person } return { $p, $p.age, $p.tags, $p.name } }")
    for name, first in zip(names, steps, strict=True):
        found = graph.query(text, {"n": name}).to_arrow()
        assert found.schema == first.schema
        assert found.to_pydict() == first.to_pydict()


def test_a_row_follows_what_is_written(graph: og.Graph) -> None:
    assert graph.query(BY_KEY, {"n": "p1"}).one() == {"p.age": 1, "n": "p1"}
    graph.mutate('query u() { update Person set { age: 77 } where name = "p1" }')
    assert graph.query(BY_KEY, {"n": "p1"}).one()["p.age"] == 77
    graph.mutate('query d() { delete Person where name = "p1" }')
    assert len(graph.query(BY_KEY, {"n": "p1"})) == 0


# ---- neighbours by key --------------------------------------------------------------------


NEIGHBOURS = [
    "$p knows $q } return { $q.name, $q.age, $p.tags, $p }",
    "$q knows $p } return { $q }",
    "$p <knows> $q } return { $q.age, $q.tags, $p.age as own }",
    "$p knows $q } return distinct { $q.age }",
    "$p knows $q } return { $q.age } order { $q.age desc }",
    "$p knows $q } return { count($q) as n }",
    "$p knows $q } return { $q.age } limit 1",
    "$p knows $q $q.age > 1 } return { $q.age }",
    "$p $w:knows $q } return { $q.age }",
    "$p knows{1,2} $q } return { $q.age }",
    "$p $w:knows{1,1} $q } return { $q.age, nodes($w) as way }",
]
REACHED = [
    "$p knows $q } return { count(distinct $q) as n }",
    "$p knows $q  $q knows $r } return { count(distinct $r) as n }",
    "$p knows $q  $q knows $r  $r knows $s } return { count(distinct $s.name) as n }",
    "$q knows $p  $r knows $q } return { count(distinct $r) as n }",
    "$p <knows> $q  $q <knows> $r } return { count(distinct $r) as n }",
    "$p knows $q  $q livesIn $c } return { count(distinct $c) as n }",
    "$p livesIn $c  $q livesIn $c } return { count(distinct $q) as n }",
    "$p livesIn $c  $q livesIn $c  $q knows $r } return { count(distinct $r) as n }",
    # What is asked for is something else.
    "$p knows $q  $p knows $r } return { count(distinct $r) as n }",
    "$p knows $q  $q knows $r } return { count(distinct $q) as n }",
    "$p knows $q  $q knows $r } return { count(distinct $r.age) as n }",
    "$p knows $q  $q knows $r } return { count($r) as n }",
    "$p knows $q  $q knows $r } return { $q.age, count(distinct $r) as n }",
    "$p knows $q  $q knows $r } return { count(distinct $r) + 1 as n }",
    "$p knows $q  $q knows $r } return { count(distinct $r) as n } limit 0",
    "$p knows $q  $q knows $r  $r.age > 1 } return { count(distinct $r) as n }",
    "$p knows $q  $q knows{1,2} $r } return { count(distinct $r) as n }",
]


@pytest.mark.parametrize("rest", [*NEIGHBOURS, *REACHED])
def test_what_is_around_a_node_in_memory_is_what_the_steps_find(graph: og.Graph, rest: str) -> None:
    ends = ["p0 p1", "p0 p2", "p0 p1", "p2 p0", "p3 p3", "p1 p4"]
    edges = [dict(zip(("from", "to"), pair.split(), strict=True)) for pair in ends]
    graph.load([{"edge": "Knows", **edge} for edge in edges], mode="append")
    cities = [{"type": "City", "data": {"name": name}} for name in ("c1", "c2", "c3")]
    homes = {"p0": "c3", "p1": "c2", "p4": "c2"}
    lives = [{"edge": "LivesIn", "from": who, "to": where} for who, where in homes.items()]
    graph.load([*cities, *lives], mode="append")
    text = f"query q($n: String) {{ match {{ $p: Person {{ name: $n }} {rest} }}"
    plan = compile_query(text, graph.catalog).plan
    assert isinstance(plan, ReadPlan)
    now, pins = datetime.datetime.now(datetime.UTC), graph.snapshot().tables
    steps = Reader(graph._engine.tables, fetch=Fetch.RESIDENT)
    # What is asked for twice is in memory.
    for name in ("p0", "p0", "p1", "p2", "p3", "p4", "nobody", ""):
        first = steps.execute(plan, graph.catalog, pins, {"n": name}, now=now)
        found = graph.query(text, {"n": name}).to_arrow()
        assert found.schema == first.schema
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, first.to_pylist()))


@pytest.mark.parametrize("rest", [NEIGHBOURS[0], *REACHED[:8]])
def test_what_is_around_a_node_in_memory_takes_no_steps(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, rest: str
) -> None:
    rows: list[dict[str, object]] = [{"type": "City", "data": {"name": "c"}}]
    rows += [{"edge": "Knows", "from": "p0", "to": "p1"}]
    rows += [{"edge": "LivesIn", "from": "p1", "to": "c"}]
    graph.load(rows, mode="append")
    text = f'query q() {{ match {{ $p: Person {{ name: "p0" }} {rest} }}'
    first = graph.query(text).to_pylist()
    monkeypatch.setattr(execute, "walk_tree", None)
    assert graph.query(text).to_pylist() == first


def test_neighbours_follow_what_is_written(graph: og.Graph) -> None:
    text = 'query q() { match { $p: Person { name: "p0" } $p knows $q } return { $q.age } }'
    assert graph.query(text).to_pylist() == []
    graph.mutate('query m() { insert Knows { from: "p0", to: "p2" } }')
    assert graph.query(text).to_pylist() == [{"q.age": 2}]
    graph.mutate('query m() { update Person set { age: 9 } where name = "p2" }')
    assert graph.query(text).to_pylist() == [{"q.age": 9}]
    graph.mutate('query m() { delete Person where name = "p2" }')
    assert graph.query(text).to_pylist() == []


# ---- prepared -----------------------------------------------------------------------------


def test_a_prepared_query_answers_as_the_query_does(graph: og.Graph) -> None:
    prepared = graph.prepare(BY_KEY)
    for name in ("p1", "p4", "nobody"):
        assert prepared({"n": name}).to_pylist() == graph.query(BY_KEY, {"n": name}).to_pylist()
    assert len(prepared({"n": "p4"}, version=2)) == 0


def test_a_query_is_checked_when_it_is_prepared(graph: og.Graph) -> None:
    with pytest.raises(og.CompileError):
        graph.prepare("query q() { match { $p: Nothing } return { $p } }")
    with pytest.raises(og.BadRequestError, match="writes"):
        graph.prepare(ADD)


def test_a_prepared_query_follows_a_change_of_schema(graph: og.Graph) -> None:
    text = 'query q() { match { $p: Person { name: "p1" } } return { $p.age } }'
    prepared = graph.prepare(text)
    assert prepared().scalar() == 1
    with again(graph) as other:
        other.schema.apply(SCHEMA.replace("age: I64?", 'years: I64? @rename_from("age")'))
    with pytest.raises(og.CompileError):
        prepared()


# ---- how stale an answer may be -----------------------------------------------------------


def test_a_stale_answer_costs_nothing_and_a_fresh_one_one_look(graph: og.Graph) -> None:
    graph.query(BY_KEY, {"n": "p1"})
    with measured() as io:
        graph.query(BY_KEY, {"n": "p1"}, max_staleness_s=3600)
    assert not any(io.values())
    with measured() as io:
        graph.query(BY_KEY, {"n": "p1"}, max_staleness_s=0)
    assert dict(io) == {"manifest_latest_probes": 1}


def test_a_stale_answer_misses_what_others_wrote_and_has_what_this_process_wrote(
    graph: og.Graph,
) -> None:
    with again(graph) as other:
        assert len(other.query(BY_KEY, {"n": "new"})) == 0
        graph.mutate(ADD, {"n": "new", "a": 1})
        assert len(other.query(BY_KEY, {"n": "new"}, max_staleness_s=3600)) == 0
        assert len(other.query(BY_KEY, {"n": "new"})) == 1
        other.mutate(ADD, {"n": "own", "a": 1})
        assert len(other.query(BY_KEY, {"n": "own"}, max_staleness_s=3600)) == 1


def test_an_older_state_is_what_it_is_however_stale(graph: og.Graph) -> None:
    assert len(graph.query(BY_KEY, {"n": "p4"}, version=2, max_staleness_s=3600)) == 0


@pytest.mark.parametrize("bound", [-1, float("nan")])
def test_a_bound_below_zero_is_refused(graph: og.Graph, bound: float) -> None:
    with pytest.raises(og.BadRequestError, match="max_staleness_s"):
        graph.query(BY_KEY, {"n": "p1"}, max_staleness_s=bound)


# ---- what the schema files have to do with it ---------------------------------------------


def test_a_read_sees_a_schema_that_another_process_applied(graph: og.Graph) -> None:
    graph.query(BY_KEY, {"n": "p1"})
    with again(graph) as other:
        other.schema.apply(SCHEMA.replace("age: I64?", "age: I64?  nick: String?"))
    assert graph.query("query q() { match { $p: Person } return { $p.nick } }").num_rows == 5


@pytest.mark.local
def test_a_graph_made_anew_at_the_same_place_and_version_is_not_taken_for_the_old_one(
    graph: og.Graph, tmp_path: Path
) -> None:
    graph.query(BY_KEY, {"n": "p1"})
    version = graph.snapshot().version
    shutil.rmtree(graph.uri)
    with og.init(graph.uri, SCHEMA, durability="none") as other:
        while other.snapshot().version < version:
            other.mutate(ADD, {"n": f"x{other.snapshot().version}", "a": 1})
        assert other.snapshot().version == version
    with pytest.raises(og.NotFoundError, match="another one was made"):
        graph.query(BY_KEY, {"n": "p1"})
