"""Traversals over several edge types, and over all that fit."""

from __future__ import annotations

import pytest

import omnigraph as og
from tests.integration.helpers import NewGraph

SCHEMA = """\
node Person { slug: String @key }
node Firm { slug: String @key }
edge Knows: Person -> Person { since: I32? }
edge Likes: Person -> Person { since: I32 }
edge WorksAt: Person -> Firm
edge Hires: Firm -> Person
"""
FILL = """\
query fill() {
    insert Person { slug: "a" }
    insert Person { slug: "b" }
    insert Person { slug: "c" }
    insert Firm { slug: "f" }
    insert Knows { id: "1", from: "a", to: "b", since: 1 }
    insert Likes { id: "1", from: "a", to: "b", since: 2 }
    insert Likes { id: "2", from: "b", to: "c", since: 3 }
    insert WorksAt { id: "1", from: "a", to: "f" }
    insert Hires { id: "1", from: "f", to: "b" }
}
"""


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    found = new_graph(SCHEMA)
    found.mutate(FILL)
    return found


def rows(graph: og.Graph, match: str, shown: str) -> list[tuple[object, ...]]:
    text = f"query q() {{ match {{ {match} }} return {{ {shown} }} }}"
    return sorted(tuple(row.values()) for row in graph.query(text).to_pylist())


def test_a_node_that_several_types_join_is_one_row(graph: og.Graph) -> None:
    found = rows(graph, "$p: Person $p (knows|likes) $q", "$p, $q")
    assert found == [("a", "b"), ("b", "c")]


def test_an_edge_variable_gives_each_edge_with_its_type(graph: og.Graph) -> None:
    found = rows(graph, "$p: Person $p $e:(knows|likes) $q", "type($e), $e.id, $e.since, $e.to")
    assert found == [("Knows", "1", 1, "b"), ("Likes", "1", 2, "b"), ("Likes", "2", 3, "c")]


def test_edges_of_one_id_in_two_types_stay_two(graph: og.Graph) -> None:
    match = "$p: Person $p $e:(knows|likes) $q"
    assert rows(graph, match, "count(*) as n, count(distinct $e.id) as ids") == [(3, 2)]
    assert rows(graph, match, "$e.id, count(*) as n") == [("1", 2), ("2", 1)]
    inner = "$p: Person $p $e:(knows|likes) $q not { $x: Person $e.since = 1 $x.slug = $e.to }"
    assert rows(graph, inner, "type($e), $e.id") == [("Likes", "1"), ("Likes", "2")]


def test_hops_may_mix_types(graph: og.Graph) -> None:
    assert rows(graph, "$p: Person $p (knows|likes){2,2} $q", "$p, $q") == [("a", "c")]
    assert rows(graph, "$p: Person $p knows{2,2} $q", "$p, $q") == []


def test_types_of_opposite_directions_are_each_read_as_they_fit(graph: og.Graph) -> None:
    found = rows(graph, "$p: Person $p $e:(worksAt|hires) $f", "$p, $f, type($e), $e.from, $e.to")
    assert found == [("a", "f", "WorksAt", "a", "f"), ("b", "f", "Hires", "f", "b")]
    assert rows(graph, "$f: Firm $f (hires|worksAt) $p", "$p") == [("a",), ("b",)]


def test_an_arrow_follows_every_type_in_its_stored_direction(graph: og.Graph) -> None:
    assert rows(graph, "$p: Person $q: Person $p $e:-> $q", "type($e)") == [
        ("Knows",),
        ("Likes",),
        ("Likes",),
    ]
    assert rows(graph, "$p: Person $f: Firm $p -> $f", "$p") == [("a",)]
    assert rows(graph, "$p: Person $f: Firm $f -> $p", "$p") == [("b",)]


def test_a_type_can_be_asked_for_and_is_null_where_its_variable_is(graph: og.Graph) -> None:
    match = '$p: Person optional { $p $e:(knows|likes) $q type($e) = "Likes" }'
    assert rows(graph, match, "$p, type($e) is null as none, type($p)") == [
        ("a", False, "Person"),
        ("b", False, "Person"),
        ("c", True, "Person"),
    ]


def test_new_edges_of_any_type_are_followed(graph: og.Graph) -> None:
    match = "$p: Person $p (knows|likes) $q"
    assert len(rows(graph, match, "$p, $q")) == 2
    graph.mutate('query m() { insert Knows { from: "c", to: "a" } }')
    assert rows(graph, match, "$p, $q")[-1] == ("c", "a")
