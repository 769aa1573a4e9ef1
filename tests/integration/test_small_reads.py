"""Small reads: a row by its key, prepared queries, and how stale an answer may be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.store import measured

SCHEMA = """
node Person { name: String @key  age: I64?  tags: [String]? }
edge Knows: Person -> Person
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
