"""Stored queries as the catalog of a server tells of them."""

from __future__ import annotations

import msgspec

from omnigraph.cluster import stored_queries
from omnigraph.values.answers import QueryEntry
from omnigraph.values.schemas import shape

QUERY = """
query near($v: Vector(3), $days: [Date]?, $big: I64, $n: I32?, $name: String)
    @description("find") @instruction("ask first") {
    match { $p: Person  $p.name = $name }
    return { $p.name }
}
"""


def test_the_entry_of_a_query_tells_what_travels_for_each_parameter() -> None:
    (query,) = stored_queries(QUERY)
    assert query.to_json() == {
        "name": "near",
        "tool_name": "near",
        "mutation": False,
        "description": "find",
        "instruction": "ask first",
        "params": [
            {"name": "v", "kind": "vector", "vector_dim": 3, "nullable": False},
            {"name": "days", "kind": "list", "item_kind": "date", "nullable": True},
            {"name": "big", "kind": "bigint", "nullable": False},
            {"name": "n", "kind": "int", "nullable": True},
            {"name": "name", "kind": "string", "nullable": False},
        ],
    }
    assert [item.kind for item in query.parameters] == ["vector", "list", "bigint", "int", "string"]


def test_the_entry_of_a_query_is_as_published() -> None:
    (query,) = stored_queries(
        QUERY.partition("@description")[0] + "{ match { $p: P } return { $p } }"
    )
    body = query.to_json()
    assert "description" not in body
    assert "instruction" not in body
    assert msgspec.convert(body, shape(QueryEntry)) is not None
    assert QueryEntry.from_json(body).to_json() == body
