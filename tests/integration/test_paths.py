"""Shortest paths: the nodes between two ends, the same however they are found."""

from __future__ import annotations

import datetime
import random

import pytest

import omnigraph as og
from omnigraph.lang import compile_query
from omnigraph.plan import ReadPlan
from omnigraph.read import Fetch, Reader
from tests.integration.helpers import NewGraph

SCHEMA = """\
node Person { slug: String @key }
edge Knows: Person -> Person
edge Likes: Person -> Person
"""
EDGES = ["pq", "pr", "qs", "rs", "st", "pp", "tt", "uv"]


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    found = new_graph(SCHEMA)
    rows: list[dict[str, object]] = [{"type": "Person", "data": {"slug": s}} for s in "vutsrqp"]
    rows += [{"edge": "Knows", "from": a, "to": b} for a, b in map(tuple, EDGES)]
    rows.append({"edge": "Likes", "from": "p", "to": "s"})
    found.load(rows, mode="append")
    return found


def paths(graph: og.Graph, match: str) -> list[str]:
    text = f"query q() {{ match {{ {match} }} return {{ length($w) as n, nodes($w) as way }} }}"
    found = graph.query(text).to_pylist()
    assert all(row["n"] == len(row["way"]) - 1 for row in found)
    return sorted("".join(row["way"]) for row in found)


def test_the_first_of_equal_paths_is_taken_from_either_end(graph: og.Graph) -> None:
    both = '$a: Person { slug: "p" } $b: Person { slug: "t" } $a $w:knows{1,9} $b'
    assert paths(graph, both) == ["pqst"]
    assert paths(graph, '$b: Person { slug: "t" } $a $w:knows{3,9} $b') == ["pqst"]
    assert paths(graph, '$a: Person { slug: "p" } $a $w:knows{3,9} $b') == ["pqst"]


def test_a_path_over_both_directions_begins_at_the_left_end(graph: og.Graph) -> None:
    assert paths(graph, '$a: Person { slug: "s" } $a $w:<knows>{2,2} $b $b.slug = "p"') == ["sqp"]
    assert paths(graph, '$a: Person { slug: "s" } $b $w:<knows>{2,2} $a $b.slug = "p"') == ["pqs"]


def test_a_path_may_mix_edge_types(graph: og.Graph) -> None:
    assert paths(graph, '$a: Person { slug: "p" } $a $w:(knows|likes){2,9} $b') == ["pst"]


def test_bounds_and_loops_are_those_of_the_traversal(graph: og.Graph) -> None:
    assert paths(graph, '$a: Person { slug: "p" } $a $w:knows{1,2} $b') == ["pp", "pq", "pqs", "pr"]
    assert (
        paths(graph, '$a: Person { slug: "p" } $b: Person { slug: "v" } $a $w:knows{1,9} $b') == []
    )


def test_a_condition_is_tested_on_the_path_that_was_found(graph: og.Graph) -> None:
    match = '$a: Person { slug: "p" } $a $w:knows{2,9} $b not (nodes($w) contains "q")'
    assert paths(graph, match) == []


def test_paths_do_not_depend_on_how_rows_are_stored_or_fetched(new_graph: NewGraph) -> None:
    r = random.Random(7)  # noqa: S311
    names = [f"n{number}" for number in range(60)]
    edges = [(r.choice(names), r.choice(names)) for _ in range(120)]
    text = (
        'query q() { match { $a: Person { slug: "n1" } $a $w:<knows>{1,6} $b }'
        " return { $b, nodes($w) as way } order { $b } }"
    )
    answers = []
    for name in ("one", "two"):
        made = new_graph(SCHEMA, name=name)
        r.shuffle(names)
        r.shuffle(edges)
        made.load([{"type": "Person", "data": {"slug": slug}} for slug in names], mode="append")
        made.load([{"edge": "Knows", "from": a, "to": b} for a, b in edges], mode="append")
        answers.append(made.query(text).to_pylist())
        plan = compile_query(text, made.catalog).plan
        assert isinstance(plan, ReadPlan)
        now = datetime.datetime.now(datetime.UTC)
        for options in ({"factorise": False}, {"fetch": Fetch.PROBE}):
            reader = Reader(made._engine.tables, **options)
            table = reader.execute(plan, made.catalog, made.snapshot().tables, {}, now=now)
            answers.append(table.to_pylist())
    assert len(answers[0]) > 40
    assert all(answer == answers[0] for answer in answers)
