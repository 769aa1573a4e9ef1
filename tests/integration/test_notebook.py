"""What notebooks show of a graph, without a server."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import BadRequestError, QueryError
from omnigraph.policy import Access, Decision

SCHEMA = """\
node P { k: String @key  n: I32? }
edge Knows: P -> P
"""
EVIL = "<script>alert(1)</script>"
PAIRS = "query q() { match { $a: P $a knows $b } return { $a, $b, $a.n } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "g", SCHEMA, durability="none")
    rows: list[dict[str, object]] = [
        {"type": "P", "data": {"k": name}} for name in ("a", "b", EVIL)
    ]
    rows += [
        {"edge": "Knows", "from": start, "to": end} for start, end in (("a", "b"), ("b", EVIL))
    ]
    made.load(rows, mode="append", message="<b>first</b>")
    return made


def test_nodes_and_their_neighbours_are_drawn(graph: og.Graph) -> None:
    assert graph.draw([("P", "a")]).summary == "1 node and 0 edges"
    around = graph.draw([("P", "a")], neighbours=5)
    assert around.summary == "2 nodes and 1 edge"
    whole = graph.draw([("P", "b")], neighbours=5)
    assert whole.summary == "3 nodes and 2 edges"
    assert EVIL not in whole.svg
    assert whole._repr_svg_() == whole.svg
    assert graph.draw(graph.entities.subgraph([("P", "a")])).summary == "1 node and 0 edges"
    with pytest.raises(BadRequestError, match="list of nodes"):
        graph.draw("P")
    with pytest.raises(BadRequestError, match="its own state"):
        graph.draw(graph.entities.subgraph([("P", "a")]), branch="main")


def test_an_answer_is_drawn_at_the_state_it_is_of(graph: og.Graph) -> None:
    found = graph.query(PAIRS)
    graph.mutate('query d() { delete P where k = "a" }')
    assert found.plot().summary == "3 nodes and 2 edges"
    assert graph.draw(found).summary == "3 nodes and 2 edges"
    assert graph.draw(found, branch="main").summary == "2 nodes and 1 edge"
    with pytest.raises(QueryError, match="hold no nodes"):
        graph.query("query n() { match { $a: P } return { $a.k } }").plot()


def test_an_answer_does_not_keep_its_graph(graph: og.Graph) -> None:
    mine = graph.as_actor("ann")
    found = mine.query(PAIRS)
    assert found.plot().summary == "3 nodes and 2 edges"
    del mine
    gc.collect()
    with pytest.raises(BadRequestError, match="is gone"):
        found.plot()


class Nothing:
    name = "nothing"

    def decide(self, access: Access) -> Decision:
        return Decision(allowed=False, message="not yours")


def test_who_may_not_read_is_shown_no_more_than_the_reason(graph: og.Graph) -> None:
    with og.open(graph.uri, policy=Nothing()) as denied:
        shown = denied._repr_html_()
    assert "not yours" in shown
    assert "node:P" not in shown


def test_tables_show_text_as_text(graph: og.Graph) -> None:
    shown = graph._repr_html_()
    assert "<td>node:P</td><td>3</td>" in shown
    commit = graph.commits.head()._repr_html_()
    assert "&lt;b&gt;first&lt;/b&gt;" in commit
    assert "<b>" not in commit
    rows: list[dict[str, object]] = [{"type": "P", "data": {"k": "new"}}]
    loaded = graph.load(rows, mode="append", dry_run=True)._repr_html_()
    assert "a trial of a load into main: no commit" in loaded
    assert "<td>node:P</td><td>1</td>" in loaded
    schema = graph.schema.describe()._repr_html_()
    assert "<td>edge Knows</td><td>P -&gt; P</td>" in schema
