"""Patterns: which rows bindings, traversals, `not` and `optional` give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import omnigraph as og
from tests.integration.helpers import Envelope, edge, node
from tests.places import AnyPath

SCHEMA = """\
node Person {
    name: String @key
    age: I32?
    nick: String?
    tags: [String]?
}
node Firm {
    name: String @key
    city: String?
}
edge Knows: Person -> Person {
    weight: F64?
}
edge WorksAt: Person -> Firm {
    role: String?
}
edge Owns: Firm -> Firm
"""

PEOPLE: list[Envelope] = [
    node("Person", name="a", age=30, nick="x", tags=["red", "blue"]),
    node("Person", name="b", age=40, nick="x", tags=["red"]),
    node("Person", name="c", age=30, tags=[]),
    node("Person", name="d"),
    node("Person", name="e", age=50, nick="y"),
    node("Firm", name="f1", city="Bonn"),
    node("Firm", name="f2", city="Ulm"),
    node("Firm", name="f3"),
]
# a knows itself, knows b over two edges, and b knows a back; b -> c -> d -> b is a circle.
EDGES: list[Envelope] = [
    edge("Knows", "a", "a", id="aa", weight=0.0),
    edge("Knows", "a", "b", id="ab1", weight=1.0),
    edge("Knows", "a", "b", id="ab2", weight=2.0),
    edge("Knows", "b", "a", id="ba", weight=3.0),
    edge("Knows", "b", "c", id="bc"),
    edge("Knows", "c", "d", id="cd", weight=5.0),
    edge("Knows", "d", "b", id="db", weight=6.0),
    edge("WorksAt", "a", "f1", id="w1", role="boss"),
    edge("WorksAt", "b", "f1", id="w2"),
    edge("WorksAt", "b", "f2", id="w3", role="guest"),
    edge("WorksAt", "c", "f2", id="w4", role="cook"),
    edge("WorksAt", "c", "f2", id="w5", role="host"),
    edge("Owns", "f1", "f2", id="o1"),
    edge("Owns", "f2", "f3", id="o2"),
]


@pytest.fixture(scope="module", params=["none", "partial", "full"])
def graph(module_place: AnyPath, request: pytest.FixtureRequest) -> Iterator[og.Graph]:
    """The graph with no index, with indexes that miss later rows, and with all of them."""
    with og.init(module_place / request.param, SCHEMA, durability="none") as found:
        found.load(PEOPLE, mode="append")
        if request.param == "partial":
            found.maintenance.ensure_indices()
        found.load(EDGES, mode="append")
        if request.param == "full":
            found.maintenance.ensure_indices()
        yield found


def ask(graph: og.Graph, body: str, signature: str = "", **params: object) -> list[tuple[Any, ...]]:
    """Return the rows of a query, sorted unless it orders them."""
    result = graph.query(f"query q({signature}) {{ {body} }}", params)
    columns = [column.to_pylist() for column in result.to_arrow().columns]
    rows = list(zip(*columns, strict=True))
    return rows if " order " in body else sorted(rows, key=repr)


def names(graph: og.Graph, pattern: str, variable: str = "p", **params: object) -> list[str]:
    """Return the sorted names a variable takes, as one text per row."""
    signature = ", ".join(f"${name}: String?" for name in params)
    found = ask(graph, f"match {{ {pattern} }} return {{ ${variable} }}", signature, **params)
    return [str(row[0]) for row in found]


# ---- the table of sets and bags -----------------------------------------------------------


def test_a_plain_traversal_gives_each_distinct_node_once(graph: og.Graph) -> None:
    assert names(graph, '$p: Person { name: "a" } $p knows $q', "q") == ["a", "b"]
    assert names(graph, '$p: Person { name: "c" } $p worksAt $f', "f") == ["f2"]


def test_an_undirected_traversal_gives_each_neighbour_once(graph: og.Graph) -> None:
    assert names(graph, '$p: Person { name: "a" } $p <knows> $q', "q") == ["a", "b"]
    assert names(graph, '$p: Person { name: "b" } $p <knows> $q', "q") == ["a", "c", "d"]


def test_an_edge_variable_gives_each_edge(graph: og.Graph) -> None:
    found = ask(graph, 'match { $p: Person { name: "a" } $p $w:knows $q } return { $w.id, $q }')
    assert found == [("aa", "a"), ("ab1", "b"), ("ab2", "b")]


def test_an_undirected_edge_variable_gives_each_touching_edge_once(graph: og.Graph) -> None:
    found = ask(graph, 'match { $p: Person { name: "a" } $p $w:<knows> $q } return { $w.id, $q }')
    assert found == [("aa", "a"), ("ab1", "b"), ("ab2", "b"), ("ba", "b")]


def test_an_anonymous_edge_keeps_set_semantics(graph: og.Graph) -> None:
    assert names(graph, '$p: Person { name: "a" } $p $_:knows $q', "q") == ["a", "b"]


@pytest.mark.parametrize(
    ("start", "hops", "reached"),
    [
        ("a", "{1,1}", "ab"),
        ("a", "{1,2}", "abc"),
        ("a", "{1,3}", "abcd"),
        ("a", "{1,9}", "abcd"),
        ("a", "{2,2}", "c"),
        ("a", "{2,3}", "cd"),
        ("a", "{4,9}", ""),
        ("b", "{1,1}", "ac"),
        # The circle does not lead back to b, and the loop on a, at hop 1, adds no hop.
        ("b", "{2,2}", "d"),
        ("b", "{1,9}", "acd"),
        ("b", "{3,9}", ""),
        ("d", "{3,3}", ""),
        ("e", "{1,9}", ""),
    ],
)
def test_bounds_count_shortest_distances(
    graph: og.Graph, start: str, hops: str, reached: str
) -> None:
    pattern = f'$p: Person {{ name: "{start}" }} $p knows{hops} $q'
    assert "".join(names(graph, pattern, "q")) == reached


@pytest.mark.parametrize(
    ("start", "hops", "reached"),
    [("a", "{1,1}", "ab"), ("a", "{2,2}", "cd"), ("d", "{1,2}", "abc"), ("b", "{1,5}", "acd")],
)
def test_undirected_bounds(graph: og.Graph, start: str, hops: str, reached: str) -> None:
    pattern = f'$p: Person {{ name: "{start}" }} $p <knows>{hops} $q'
    assert "".join(names(graph, pattern, "q")) == reached


def test_bounds_against_the_direction_of_the_edge(graph: og.Graph) -> None:
    assert names(graph, '$p: Person { name: "d" } $q knows{1,2} $p', "q") == ["b", "c"]


def test_bounds_on_an_edge_between_two_types_are_one_hop(graph: og.Graph) -> None:
    person = '$p: Person { name: "b" } '
    assert names(graph, person + "$p worksAt{1,4} $f", "f") == ["f1", "f2"]
    assert names(graph, person + "$p worksAt{2,4} $f", "f") == []
    assert names(graph, person + "$f: Firm $p worksAt{2,4} $f", "f") == []


def test_rows_of_different_paths_are_not_merged(graph: og.Graph) -> None:
    pattern = '$p: Person { name: "b" } $p worksAt $f $q worksAt $f'
    assert names(graph, pattern, "q") == ["a", "b", "b", "c"]
    merged = ask(graph, f"match {{ {pattern} }} return distinct {{ $q }}")
    assert merged == [("a",), ("b",), ("c",)]


# ---- bindings -----------------------------------------------------------------------------


def test_braces_are_equalities_and_membership(graph: og.Graph) -> None:
    assert names(graph, "$p: Person { age: 30 }") == ["a", "c"]
    assert names(graph, '$p: Person { age: 30, nick: "x" }') == ["a"]
    assert names(graph, '$p: Person { tags: "red" }') == ["a", "b"]
    assert names(graph, '$p: Person { id: "d" }') == ["d"]


def test_braces_take_parameters_and_other_variables(graph: og.Graph) -> None:
    assert names(graph, "$p: Person { nick: $n }", n="y") == ["e"]
    assert names(graph, "$p: Person { nick: $n }", n=None) == []
    found = ask(graph, "match { $p: Person $q: Person { nick: $p.nick } } return { $p, $q }")
    assert found == [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b"), ("e", "e")]


def test_a_repeated_binding_adds_conditions(graph: og.Graph) -> None:
    assert names(graph, '$p: Person { age: 30 } $p: Person { nick: "x" } $p: Person') == ["a"]
    assert names(graph, "$p: Person { age: 30 } $p: Person { age: 40 }") == []


def test_unconnected_bindings_are_crossed(graph: og.Graph) -> None:
    assert len(ask(graph, "match { $p: Person $f: Firm } return { $p, $f }")) == 15
    count = "match { $p: Person $q: Person $f: Firm $f owns $g } return { count(*) }"
    assert ask(graph, count) == [(50,)]


def test_a_component_needs_no_binding(graph: og.Graph) -> None:
    assert ask(graph, "match { $a owns $b } return { $a, $b }") == [("f1", "f2"), ("f2", "f3")]
    found = ask(graph, "match { $p: Person { age: 50 } $a owns $b } return { $p, $b }")
    assert found == [("e", "f2"), ("e", "f3")]


def test_an_anonymous_end_binds_nothing(graph: og.Graph) -> None:
    assert names(graph, "$p worksAt $_ $p knows $_") == list("aabbbbc")
    assert names(graph, "$_ owns $f", "f") == ["f2", "f3"]
    assert ask(graph, "match { $_ worksAt $_ } return { count(*) }") == [(4,)]


# ---- direction ----------------------------------------------------------------------------


def test_the_known_end_decides_the_direction(graph: og.Graph) -> None:
    firm = '$f: Firm { name: "f1" } '
    assert names(graph, firm + "$f worksAt $p") == ["a", "b"]
    assert names(graph, firm + "$p worksAt $f") == ["a", "b"]
    found = ask(graph, "match { $p: Person $x worksAt $p } return { $p, $x }")
    assert found == [("a", "f1"), ("b", "f1"), ("b", "f2"), ("c", "f2")]


def test_the_order_of_variables_is_the_direction_within_one_type(graph: og.Graph) -> None:
    assert names(graph, '$me: Person { name: "b" } $me knows $p') == ["a", "c"]
    assert names(graph, '$me: Person { name: "b" } $p knows $me') == ["a", "d"]


def test_edge_words_ignore_case(graph: og.Graph) -> None:
    assert names(graph, "$p wORKSAT $_") == ["a", "b", "b", "c"]


def test_two_known_ends_are_an_existence_test(graph: og.Graph) -> None:
    both = "$p: Person $q: Person "
    assert len(names(graph, both + "$p knows $q")) == 6
    assert names(graph, both + "$p knows $q $q knows $p") == ["a", "a", "b"]
    assert names(graph, "$p: Person $p knows $p") == ["a"]
    assert len(names(graph, both + "$p $w:knows $q")) == 7
    assert names(graph, both + '$p $w:knows $q $w.id = "ab2"', "q") == ["b"]
    assert names(graph, both + '$p <knows> $q $p.name = "d"', "q") == ["b", "c"]


def test_closing_a_pair_over_several_hops(graph: og.Graph) -> None:
    pattern = '$p: Person { name: "b" } $q: Person $p knows{2,2} $q'
    assert names(graph, pattern, "q") == ["d"]
    assert names(graph, '$p: Person $p.name = "b" $p knows{1,9} $p') == []
    assert names(graph, "$p: Person $p knows{1,9} $p") == ["a"]


def test_clauses_may_come_in_any_order(graph: og.Graph) -> None:
    one = '$p worksAt $f $p knows $q $q.name = "c" $f: Firm { city: "Ulm" }'
    two = '$f: Firm { city: "Ulm" } $p: Person $p knows $q $p worksAt $f $q.name = "c"'
    assert names(graph, one) == names(graph, two) == ["b"]


def test_edge_properties_and_ends_are_values(graph: og.Graph) -> None:
    found = ask(
        graph,
        "match { $p $w:knows $q $w.weight > 1.0 } return { $w.from, $w.to, $w.weight, $w.id }"
        " order { $w.weight desc }",
    )
    assert found == [
        ("d", "b", 6.0, "db"),
        ("c", "d", 5.0, "cd"),
        ("b", "a", 3.0, "ba"),
        ("a", "b", 2.0, "ab2"),
    ]


# ---- not ----------------------------------------------------------------------------------


def test_not_is_judged_for_each_row(graph: og.Graph) -> None:
    assert names(graph, "$p: Person not { $p worksAt $f }") == ["d", "e"]
    unpaid = '$p worksAt $f not { $p $w:worksAt $f $w.role = "guest" }'
    found = ask(graph, f"match {{ {unpaid} }} return {{ $p, $f }}")
    assert found == [("a", "f1"), ("b", "f1"), ("c", "f2")]


def test_rebinding_an_outer_variable_inside_not_tests_this_row(graph: og.Graph) -> None:
    assert names(graph, '$p: Person not { $p: Person { name: "a" } }') == ["b", "c", "d", "e"]
    assert names(graph, "$p: Person not { $p: Person { age: 30 } }") == ["b", "d", "e"]


def test_not_from_the_far_side_of_an_edge(graph: og.Graph) -> None:
    assert names(graph, "$f: Firm not { $f worksAt $p }", "f") == ["f3"]
    pairs = "match { $f: Firm $p: Person { age: 30 } not { $f worksAt $p } } return { $f, $p }"
    assert ask(graph, pairs) == [("f1", "c"), ("f2", "a"), ("f3", "a"), ("f3", "c")]


def test_variables_of_a_not_are_local(graph: og.Graph) -> None:
    pattern = '$p: Person not { $p worksAt $f $f.city = "Ulm" } $p worksAt $f'
    assert ask(graph, f"match {{ {pattern} }} return {{ $p, $f }}") == [("a", "f1")]
    unrelated = "$p: Person not { $p.age > 35 $x: Firm }"
    assert names(graph, unrelated) == ["a", "c", "d"]


def test_not_blocks_nest(graph: og.Graph) -> None:
    # Nobody they know is without work.
    assert names(graph, "$p: Person not { $p knows $q not { $q worksAt $_ } }") == list("abde")


def test_not_tells_null_apart(graph: og.Graph) -> None:
    assert names(graph, "$p: Person not { $p.age = $p.age }") == ["d"]
    assert names(graph, "$p: Person not ($p.age = 30)") == ["b", "e"]
    assert names(graph, "$p: Person not { $p.age = 30 }") == ["b", "d", "e"]


def test_not_with_several_hops_and_cross_product(graph: og.Graph) -> None:
    assert names(graph, '$p: Person not { $p knows{1,2} $q $q.name = "d" }') == ["a", "d", "e"]
    assert names(graph, "$p: Person not { $q: Person $q.age > $p.age }") == ["d", "e"]


# ---- optional -----------------------------------------------------------------------------


def test_optional_keeps_rows_without_a_match(graph: og.Graph) -> None:
    found = ask(graph, "match { $p: Person optional { $p worksAt $f } } return { $p, $f, $f.city }")
    assert found == [
        ("a", "f1", "Bonn"),
        ("b", "f1", "Bonn"),
        ("b", "f2", "Ulm"),
        ("c", "f2", "Ulm"),
        ("d", None, None),
        ("e", None, None),
    ]


def test_conditions_inside_optional_decide_the_match(graph: og.Graph) -> None:
    pattern = 'optional { $p $w:worksAt $f $f.city = "Ulm" }'
    found = ask(graph, f"match {{ $p: Person {pattern} }} return {{ $p, $w.role }}")
    assert found == [
        ("a", None),
        ("b", "guest"),
        ("c", "cook"),
        ("c", "host"),
        ("d", None),
        ("e", None),
    ]


def test_conditions_outside_optional_come_last(graph: og.Graph) -> None:
    pattern = "$p: Person optional { $p worksAt $f } "
    assert names(graph, pattern + '$f.city = "Ulm"') == ["b", "c"]
    assert names(graph, pattern + "$f is null") == ["d", "e"]
    assert names(graph, pattern + "$f is not null and $p.age < 40") == ["a", "c"]
    assert names(graph, '$p: Person optional { $p worksAt $f } not ($f.city = "Ulm")') == ["a", "b"]


def test_a_null_end_reaches_nothing(graph: og.Graph) -> None:
    chain = "$p: Person optional { $p worksAt $f } optional { $f owns $g }"
    found = ask(graph, f"match {{ {chain} }} return distinct {{ $p, $g }}")
    assert found == [
        ("a", "f2"),
        ("b", "f2"),
        ("b", "f3"),
        ("c", "f3"),
        ("d", None),
        ("e", None),
    ]
    lone = "$p: Person optional { $p worksAt $f } not { $f owns $g }"
    assert names(graph, lone) == ["d", "e"]


def test_optional_blocks_nest(graph: og.Graph) -> None:
    pattern = "$p: Person optional { $p worksAt $f optional { $f owns $g $g.city = 'Ulm' } }"
    found = ask(graph, f"match {{ {pattern} }} return {{ $p, $f, $g }}".replace("'", '"'))
    assert found[:3] == [("a", "f1", "f2"), ("b", "f1", "f2"), ("b", "f2", None)]
    assert found[3:] == [("c", "f2", None), ("d", None, None), ("e", None, None)]


def test_aggregates_over_optional(graph: og.Graph) -> None:
    body = "match { $p: Person optional { $p worksAt $f } } return { $p, count($f) as n, count(*) }"
    assert ask(graph, body) == [("a", 1, 1), ("b", 2, 2), ("c", 1, 1), ("d", 0, 1), ("e", 0, 1)]


# ---- vanishing ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "gone", "given"),
    [
        ("$p.nick = $n?", "abcde", "ab"),
        ("$p.nick = $n? and $p.age > 30", "be", "b"),
        ("$p.nick = $n? or $p.age > 45", "e", "abe"),
        ("not ($p.nick = $n?)", "abcde", "e"),
        ("not ($p.nick = $n? and $p.nick starts_with $n?)", "abcde", "e"),
        ("$p.nick = $n", "", "ab"),
        ("not ($p.nick = $n)", "", "e"),
    ],
)
def test_vanishing_conditions(graph: og.Graph, condition: str, gone: str, given: str) -> None:
    assert "".join(names(graph, f"$p: Person {condition}", n=None)) == gone
    assert "".join(names(graph, f"$p: Person {condition}", n="x")) == given


def test_a_vanishing_brace(graph: og.Graph) -> None:
    assert len(names(graph, "$p: Person { nick: $n? }", n=None)) == 5
    assert names(graph, "$p: Person { nick: $n? }", n="x") == ["a", "b"]
