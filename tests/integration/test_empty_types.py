"""Queries over types that have no rows: whatever is optional about them is simply absent."""

from __future__ import annotations

import pytest

from tests.integration.helpers import NewGraph, load, node

SCHEMA = """
node Thing { slug: String @key }
node Owner { name: String @key }
edge Owns: Owner -> Thing
edge Near: Thing -> Thing
"""


@pytest.mark.parametrize(
    ("pattern", "rows"),
    [
        ("optional { $o owns $t } not { $o owns $t }", 1),
        ("optional { $o owns $t } optional { $o owns $x }", 1),
        ("optional { $o owns $t } not { $o owns $x }", 1),
        ("optional { $t near $x } not { $t near $x }", 1),
        ("$o owns $t", 0),
    ],
)
def test_a_type_without_rows_is_no_error(new_graph: NewGraph, pattern: str, rows: int) -> None:
    graph = new_graph(SCHEMA)
    load(graph, [node("Thing", slug="t")])
    found = graph.query(f"query q() {{ match {{ $t: Thing {pattern} }} return {{ $t.slug }} }}")
    assert len(list(found)) == rows
