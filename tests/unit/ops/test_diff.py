"""Changes of rows as the entities people see, and filters on them."""

from __future__ import annotations

import pytest

from omnigraph.catalog import accept_initial
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.ops.diff import ChangeFilter, changes_of, wanted_types
from omnigraph.values.changes import EntityChange, TypeRef
from tests.unit.rows.arrow_rows import catalog_of, changes

CATALOG = catalog_of("node Zebra { n: I32? }  node Ant { n: I32? }  edge Eats: Zebra -> Ant { }")
SCHEMA = accept_initial(CATALOG, domain="TEST")
ANT = CATALOG.nodes["Ant"]
FOUND = changes(
    ANT,
    {"a": {"n": 1}, "b": {"n": 2}, "c": {"n": 3}},
    {"b": {"n": 5}, "c": {"n": 3}, "d": {"n": None}},
)


def test_changes_come_by_id_with_both_images() -> None:
    found = list(changes_of(ANT, 7, FOUND, ChangeFilter()))
    assert [(item.id, item.op) for item in found] == [
        ("a", "delete"),
        ("b", "update"),
        ("d", "insert"),
    ]
    assert {(item.kind, item.type_id, item.type_name) for item in found} == {("node", 7, "Ant")}
    gone, changed, new = found
    assert (gone.after, new.before) == (None, None)
    assert changed.changed_properties() == {"n": (2, 5)}
    assert changed.to_json()["type"] == {"id": "7", "name": "Ant"}


def test_an_absent_side_is_left_out_of_the_wire_form() -> None:
    change = EntityChange(
        kind="node", type=TypeRef(id="1", name="A"), id="x", op="delete", before={}
    )
    assert change.to_json().keys() == {"kind", "type", "id", "op", "before"}


@pytest.mark.parametrize("op", ["insert", "update", "delete"])
def test_a_filter_of_operations_leaves_the_others_out(op: str) -> None:
    found = list(changes_of(ANT, 7, FOUND, ChangeFilter.of(ops=[op])))
    assert [item.op for item in found] == [op]


def test_edges_carry_their_ends() -> None:
    edge = CATALOG.edges["Eats"]
    found = changes(edge, {}, {"e": {"src": "z", "dst": "a"}})
    (item,) = changes_of(edge, 1, found, ChangeFilter())
    assert item.after is not None
    assert (item.kind, item.after["endpoints"]) == ("edge", {"from": "z", "to": "a"})


def test_types_come_nodes_first_and_then_by_their_number() -> None:
    found = wanted_types(SCHEMA, ChangeFilter())
    assert [entity.kind for entity, _number in found] == ["node", "node", "edge"]
    assert found[0][1] < found[1][1]
    assert [e.name for e, _ in wanted_types(SCHEMA, ChangeFilter.of(["edge"]))] == ["Eats"]
    assert [e.name for e, _ in wanted_types(SCHEMA, ChangeFilter.of(types=["Ant"]))] == ["Ant"]
    assert wanted_types(SCHEMA, ChangeFilter.of(["edge"], ["Ant"])) == []


def test_words_without_meaning_are_refused() -> None:
    with pytest.raises(BadRequestError, match="unknown kind 'row'"):
        ChangeFilter.of(["row"])
    with pytest.raises(BadRequestError, match="unknown op 'upsert'"):
        ChangeFilter.of(ops=["upsert"])
    with pytest.raises(NotFoundError, match="unknown type 'Bee'"):
        wanted_types(SCHEMA, ChangeFilter.of(types=["Bee"]))


def test_equal_filters_are_equal_whatever_their_order() -> None:
    one, other = (ChangeFilter.of(types=names) for names in (["b", "a"], ["a", "b", "a"]))
    assert one == other
    assert one.to_json() == {"kinds": [], "types": ["a", "b"], "ops": []}
