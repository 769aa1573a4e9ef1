"""Updates that read the row they change."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.embed import HashEmbedder
from tests.integration.helpers import NewGraph

SCHEMA = """\
node Person {
    slug: String @key
    age: I32?
    level: U32
    score: F64?
    adult: Bool?
    name: String
    mood: enum(glad, sad)?
    tags: [String]?
    other: [String]?
}
edge Knows: Person -> Person {
    since: I32
    close: Bool?
}
"""
FILL = """\
query fill() {
    insert Person { slug: "a", age: 30, level: 1, name: "glad", tags: ["x"] }
    insert Person { slug: "b", age: 41, level: 2, name: "b", score: 2.5 }
    insert Person { slug: "c", level: 3, name: "c" }
    insert Knows { from: "a", to: "b", since: 2000 }
}
"""


@pytest.fixture
def people(new_graph: NewGraph) -> og.Graph:
    graph = new_graph(SCHEMA)
    graph.mutate(FILL)
    return graph


def column(graph: og.Graph, name: str) -> list[object]:
    text = f"query q() {{ match {{ $p: Person }} return {{ $p.{name} as v }} order {{ $p.slug }} }}"
    return [row["v"] for row in graph.query(text).to_pylist()]


def test_an_assignment_reads_the_row_and_the_parameters(people: og.Graph) -> None:
    text = "query q($limit: I32) { update Person set { adult: age > $limit } where true }"
    assert people.mutate(text, {"limit": 35}).affected_nodes == 3
    assert column(people, "adult") == [False, True, None]


def test_all_assignments_of_a_statement_read_the_row_as_it_was(people: og.Graph) -> None:
    people.mutate(
        "query q() { update Person set { age: level, level: level + 1, score: age / 2,"
        ' other: tags } where slug != "c" }'
    )
    assert column(people, "age") == [1, 2, None]
    assert column(people, "level") == [2, 3, 3]
    assert column(people, "score") == [15.0, 20.5, None]
    assert column(people, "other") == [["x"], None, None]


def test_a_later_statement_reads_what_an_earlier_one_wrote(people: og.Graph) -> None:
    people.mutate(
        "query q() { update Person set { level: level * 10 } where age > 35"
        " update Person set { level: level + 1 } where level >= 3 }"
    )
    assert column(people, "level") == [1, 21, 4]


def test_edges_read_their_own_properties_and_ends(people: og.Graph) -> None:
    people.mutate(
        'query q() { update Knows set { since: since + 5, close: from = "a" } where true }'
    )
    text = "query q() { match { $a $w:knows $b } return { $w.since as s, $w.close as c } }"
    assert people.query(text).to_pylist() == [{"s": 2005, "c": True}]


@pytest.mark.parametrize(
    ("assigned", "message"),
    [
        ("level: level - 3", "Person 'a': level"),
        ("level: level / 2", "Person 'a': level"),
        ("mood: name", "'b' for Person.mood"),
        ("age: age * 100000000", "Person 'a': age"),
    ],
)
def test_a_value_that_does_not_fit_names_its_row(
    people: og.Graph, assigned: str, message: str
) -> None:
    with pytest.raises(og.DataError, match=message):
        people.mutate(f"query q() {{ update Person set {{ {assigned} }} where true }}")
    assert column(people, "level") == [1, 2, 3]


def test_null_is_refused_where_a_value_is_required(people: og.Graph) -> None:
    with pytest.raises(og.DataError, match="level"):
        people.mutate("query q() { update Person set { level: age } where true }")


def test_a_text_taken_from_the_row_is_embedded(tmp_path: Path) -> None:
    schema = "node Doc { slug: String @key title: String body: String? v: Vector(4)? @embed(body) }"
    with og.init(tmp_path / "g", schema, durability="none") as graph:
        graph.mutate('query q() { insert Doc { slug: "a", title: "one" } }')
    with og.open(tmp_path / "g", durability="none", embedder=HashEmbedder()) as graph:
        graph.mutate("query q() { update Doc set { body: title } where true }")
        found = graph.query("query q() { match { $d: Doc } return { $d.v as v } }").one()
        assert len(found["v"]) == 4
