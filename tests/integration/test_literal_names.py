"""Properties named as literals: none is made, and older graphs that have one are safe."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.lang import schema as schema_module
from tests.integration.helpers import NewGraph, edge, head, load, node, rows

pytestmark = pytest.mark.local
OLD = """\
node Flag { k: String @key  true: Bool?  false: Bool?  null: String? }
edge Near: Flag -> Flag { false: Bool? }
"""


@pytest.fixture
def old(new_graph: NewGraph) -> og.Graph:
    """A graph that an earlier release made."""
    with pytest.MonkeyPatch.context() as earlier:
        earlier.setattr(schema_module, "refuse_literal_name", lambda *_arguments: None)
        graph = new_graph(OLD)
    data = [
        {"k": "a", "true": True, "false": True, "null": "x"},
        {"k": "b", "true": False, "false": False},
    ]
    load(graph, [*({"type": "Flag", "data": item} for item in data), edge("Near", "a", "b")])
    return graph


@pytest.mark.parametrize("name", ["true", "false", "null"])
def test_no_property_is_named_as_a_literal(new_graph: NewGraph, name: str) -> None:
    with pytest.raises(og.CompileError, match=f"property name `{name}` is reserved on node A"):
        new_graph(f"node A {{ {name}: Bool? }}")
    graph = new_graph("node A { k: String @key }")
    with pytest.raises(og.CompileError, match="is reserved on edge E"):
        graph.schema.apply(f"node A {{ k: String @key }} edge E: A -> A {{ {name}: Bool? }}")


@pytest.mark.parametrize(
    "condition",
    [
        "false = false",
        "true = true",
        "false = true",
        "true != false",
        'k = "a" or false = false',
        "true in [true, false]",
        "not (false = true)",
        "false is not null",
        "null = null",
        "null is null",
    ],
)
@pytest.mark.parametrize("verb", ["delete Flag where", 'update Flag set { null: "y" } where'])
def test_what_may_mean_a_property_or_a_literal_changes_nothing(
    old: og.Graph, verb: str, condition: str
) -> None:
    before = head(old)
    with pytest.raises(og.CompileError):
        old.mutate(f"query q() {{ {verb} {condition} }}")
    assert head(old) == before
    assert set(rows(old, "Flag")) == {"a", "b"}


def test_the_refusal_names_both_meanings(old: og.Graph) -> None:
    with pytest.raises(og.CompileError) as refused:
        old.mutate("query q() { delete Near where false = false }")
    assert "T11" in refused.value.message
    assert "`false` may mean the literal or the property of Near" in refused.value.message
    assert "@rename_from" in refused.value.message


def test_such_a_graph_is_opened_read_and_written(old: og.Graph) -> None:
    with og.open(old.uri, durability="none") as graph:
        text = "query q() { match { $f: Flag { false: true } } return { $f.k, $f.true, $f.null } }"
        assert graph.query(text).to_pylist() == [{"f.k": "a", "f.true": True, "f.null": "x"}]
        graph.mutate('query q() { update Flag set { false: true } where k = "b" }')
        assert rows(graph, "Flag")["b"]["false"] is True
        value = "query q($v: Bool) { update Flag set { true: $v } where k = $k }"
        graph.mutate(value.replace("($v: Bool)", "($v: Bool, $k: String)"), {"v": True, "k": "b"})
        load(graph, [{"type": "Flag", "data": {"k": "c", "null": "z"}}])
        assert len(rows(graph, "Flag")) == 3


def test_another_name_makes_it_an_ordinary_property(old: og.Graph) -> None:
    new = """\
node Flag {
    k: String @key
    yes: Bool? @rename_from("true")
    no: Bool? @rename_from("false")
    none: String? @rename_from("null")
}
edge Near: Flag -> Flag { no: Bool? @rename_from("false") }
"""
    old.schema.apply(new)
    old.mutate("query q() { delete Flag where no = false }")
    assert rows(old, "Flag") == {"a": {"k": "a", "yes": True, "no": True, "none": "x"}}


def test_literals_mean_themselves_elsewhere(new_graph: NewGraph) -> None:
    graph = new_graph("node A { k: String @key  on: Bool? }")
    load(graph, [node("A", k="a", on=True), node("A", k="b", on=False)])
    graph.mutate("query q() { delete A where on = false }")
    assert set(rows(graph, "A")) == {"a"}
