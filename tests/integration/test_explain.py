"""How a query ran, and queries that are stopped."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

import omnigraph as og
from tests.integration.conftest import Cli

SCHEMA = "node P { k: String @key  v: I64? }\nedge K: P -> P\n"
HOPS = """
query hops($k: String) {
    match { $a: P { k: $k }  $a k $b  $b k $c  not { $c k $a } }
    return { $c.k as k, count(*) as n } order { n desc, k } limit 3
}
"""


@pytest.fixture
def ring(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", SCHEMA, durability="none")
    rows: list[dict[str, object]] = [
        {"type": "P", "data": {"k": f"p{n}", "v": n}} for n in range(20)
    ]
    rows += [
        {"edge": "K", "from": f"p{n}", "to": f"p{(n + step) % 20}"}
        for n in range(20)
        for step in (1, 2, 3)
    ]
    graph.load(rows, mode="append")
    return graph


def test_every_step_tells_rows_estimate_and_time(ring: og.Graph) -> None:
    found = ring.explain(HOPS, {"k": "p0"})
    answer = ring.query(HOPS, {"k": "p0"})
    assert found.rows == len(answer) == 3
    assert found.plan.startswith("read hops($k: String)\n  scan $a: P")
    texts = [stage.text for stage in found.stages]
    assert texts[0] == "start at $a: P"
    assert any("expand $a -K-> $b" in text for text in texts)
    assert any("not exists" in text for text in texts)
    assert texts[-1] == "group, sort and cut"
    assert [stage.rows for stage in found.stages][:2] == [1, 3]
    assert all(stage.seconds >= 0 for stage in found.stages)
    assert found.stages[0].estimated_rows == 2
    assert found.io["manifest_latest_probes"] == 1
    shown = str(found)
    assert "estimated" in shown
    assert "storage: " in shown
    assert found._repr_html_().startswith("<pre>read hops")
    assert json.loads(json.dumps(found.to_json()))["row_count"] == 3


def test_the_command_line_explains(cli: Cli, ring: og.Graph) -> None:
    text = "query all() { match { $p: P } return { $p.k } }"
    shown = cli("query", "--store", ring.uri, "-e", text, "--explain")
    assert shown.code == 0
    assert "start at $p: P" in shown.out
    body = json.loads(cli("query", "--store", ring.uri, "-e", text, "--explain", "--json").out)
    assert body["row_count"] == 20


def test_a_query_stops_when_its_time_is_up(cli: Cli, ring: og.Graph) -> None:
    with pytest.raises(og.ResourceLimitError, match="took longer than"):
        ring.query(HOPS, {"k": "p0"}, timeout=0.0)
    assert len(ring.query(HOPS, {"k": "p0"}, timeout=60.0)) == 3
    text = "query all() { match { $p: P } return { $p.k } }"
    assert cli("query", "--store", ring.uri, "-e", text, "--timeout", "0").code == 8


def test_a_query_stops_when_it_is_cancelled(ring: og.Graph) -> None:
    cancel = threading.Event()
    assert len(ring.query(HOPS, {"k": "p0"}, cancel=cancel)) == 3
    cancel.set()
    with pytest.raises(og.QueryError, match="cancelled"):
        ring.query(HOPS, {"k": "p0"}, cancel=cancel)


def test_a_query_at_a_tag_or_a_moment(cli: Cli, ring: og.Graph) -> None:
    ring.tags.create("full")
    moment = ring.commits.head().created_at.isoformat()
    ring.mutate('query drop() { delete P where k = "p0" }')
    text = "query all() { match { $p: P } return { $p.k } }"
    for option in (("--tag", "full"), ("--timestamp", moment)):
        body = json.loads(cli("query", "--store", ring.uri, "-e", text, *option, "--json").out)
        assert body["row_count"] == 20
    assert len(ring.query(text)) == 19
