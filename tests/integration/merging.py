"""What the tests of merging share: a small schema, states of branches, and conflicts as tuples."""

from __future__ import annotations

import json
from typing import Any

import omnigraph as og

SCHEMA = """\
node Item {
    slug: String @key
    v: I32?
}

edge Link: Item -> Item {
    v: I32?
}
"""

Conflicts = list[tuple[str, str | None, str]]


def state(graph: og.Graph, branch: str = "main", **at: Any) -> dict[tuple[str, str], str]:
    """Return every entity of a branch, by type and id, as canonical text."""
    rows = graph.export(branch=branch, **at)
    assert not isinstance(rows, int)
    found = {}
    for row in rows:
        data = row["data"]
        assert isinstance(data, dict)
        found[(str(row.get("type") or row.get("edge")), str(data["id"]))] = json.dumps(
            row, sort_keys=True
        )
    return found


def put(graph: og.Graph, branch: str, **values: int | None) -> None:
    """Give items a value, adding those that are missing."""
    rows = [{"type": "Item", "data": {"slug": s, "v": v}} for s, v in values.items()]
    graph.load(rows, mode="merge", branch=branch)


def link(
    graph: og.Graph, branch: str, name: str, source: str, target: str, v: int | None = None
) -> None:
    row = {"edge": "Link", "from": source, "to": target, "data": {"id": name, "v": v}}
    graph.load([row], mode="merge", branch=branch)


def drop(graph: og.Graph, branch: str, slug: str) -> None:
    text = "query q($s: String) { delete Item where slug = $s }"
    graph.mutate(text, {"s": slug}, branch=branch)


def unlink(graph: og.Graph, branch: str, name: str) -> None:
    graph.mutate("query q($i: String) { delete Link where id = $i }", {"i": name}, branch=branch)


def listed(conflicts: Any) -> Conflicts:
    """Return conflicts, given as objects or in their wire form, as sorted tuples."""
    rows = [item if isinstance(item, dict) else item.to_json() for item in conflicts]
    return sorted((str(row["table_key"]), row["entity_id"], str(row["kind"])) for row in rows)


def pins(graph: og.Graph, branch: str) -> dict[str, tuple[str, int]]:
    """Return where the published version of every table of a branch lies."""
    return {key: (pin.path, pin.version) for key, pin in graph.snapshot(branch).tables.items()}
