"""What the columns of a query hold."""

from __future__ import annotations

import pytest

from omnigraph.lang import compile_query, compile_schema
from omnigraph.lang.result_columns import column_types
from omnigraph.plan import ReadPlan

CATALOG = compile_schema(
    "node Person { name: String @key  born: Date?  tags: [String]? }"
    " node Paper { title: String @key }"
    " edge Knows: Person -> Person { since: Date? }"
    " edge Wrote: Person -> Paper"
).catalog
PERSON = {"kind": "node", "type_name": "Person"}
PAPER = {"kind": "node", "type_name": "Paper"}
KNOWS = {"kind": "edge", "type_name": "Knows"}


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("match { $p: Person } return { $p, $p.name }", [PERSON, None]),
        ("match { $p: Person } return { $p.id as who }", [PERSON]),
        ("match { $p $e: knows $q } return { $e.id, $q, $e.since }", [KNOWS, PERSON, None]),
        ("match { $p: Person  optional { $p wrote $w } } return { $w }", [PAPER]),
        ("match { $p: Person  $w: Paper  $p.name = $w.title } return { $p, $w }", [PERSON, PAPER]),
        ("match { $p: Person } return { count($p) as n }", [None]),
    ],
)
def test_ids_of_entities_name_their_type(text: str, entities: list[object]) -> None:
    plan = compile_query(f"query q() {{ {text} }}", CATALOG).plan
    assert isinstance(plan, ReadPlan)
    assert [item.get("entity") for item in column_types(plan)] == entities


def test_other_columns_tell_their_kind() -> None:
    text = "query q() { match { $p: Person } return { $p.born, $p.tags } order { $p.name } }"
    plan = compile_query(text, CATALOG).plan
    assert isinstance(plan, ReadPlan)
    assert column_types(plan) == (
        {"name": "p.born", "kind": "date", "nullable": True},
        {"name": "p.tags", "kind": "list", "item_kind": "string", "nullable": True},
    )
