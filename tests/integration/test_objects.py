"""Nodes and edges as one value, in every form a result has."""

from __future__ import annotations

import datetime

import pyarrow as pa

import omnigraph as og
from tests.integration.helpers import NewGraph

SCHEMA = """\
node Person { slug: String @key  born: Date?  tags: [String]?  big: U64?  photo: Blob? }
edge Knows: Person -> Person { since: DateTime?  weight: F64 }
"""
FILL = """\
query fill($m: DateTime, $d: Date) {
    insert Person { slug: "a", born: $d, tags: ["x", "y"], big: 9007199254740993 }
    insert Person { slug: "b" }
    insert Knows { id: "k", from: "a", to: "b", since: $m, weight: 0.5 }
}
"""
READ = """\
query q() {
    match { $p: Person  optional { $p $w:knows $f } }
    return { object($p), object($w) as w, object($f) as f }
    order { $p }
}
"""
MOMENT = datetime.datetime(2025, 3, 1, 10, tzinfo=datetime.UTC)
B = {"id": "b", "big": None, "born": None, "slug": "b", "tags": None}


def filled(new_graph: NewGraph) -> og.Graph:
    graph = new_graph(SCHEMA)
    graph.mutate(FILL, {"m": "2025-03-01T10:00:00Z", "d": "2001-02-03"})
    return graph


def test_an_object_holds_everything_that_can_be_read(new_graph: NewGraph) -> None:
    first, second = filled(new_graph).query(READ).to_pylist()
    assert first["p"] == {
        "id": "a",
        "big": 9007199254740993,
        "born": datetime.date(2001, 2, 3),
        "slug": "a",
        "tags": ["x", "y"],
    }
    assert first["w"] == {"id": "k", "from": "a", "to": "b", "since": MOMENT, "weight": 0.5}
    assert first["f"] == B
    assert second == {"p": B, "w": None, "f": None}


def test_an_object_is_plain_json_with_the_rules_of_its_values(new_graph: NewGraph) -> None:
    first, _second = filled(new_graph).query(READ).rows_json(ints="string")
    assert first["p"]["born"] == "2001-02-03"
    assert first["p"]["big"] == "9007199254740993"
    assert first["w"]["since"] == "2025-03-01T10:00:00.000Z"


def test_an_object_is_a_struct_with_the_types_of_the_schema(new_graph: NewGraph) -> None:
    found = filled(new_graph).query(READ).schema.field("w").type
    assert found == pa.struct(
        [
            ("id", pa.string()),
            ("from", pa.string()),
            ("to", pa.string()),
            ("since", pa.timestamp("ms", tz="UTC")),
            ("weight", pa.float64()),
        ]
    )


def test_no_rows_still_have_the_type(new_graph: NewGraph) -> None:
    text = "query q() { match { $p: Person } return { object($p) } limit 0 }"
    result = filled(new_graph).query(text)
    assert result.num_rows == 0
    assert pa.types.is_struct(result.schema.field("p").type)
