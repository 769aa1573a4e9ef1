"""The tools of a graph: what they do, whose branch they write to, what a policy leaves of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.cluster import stored_queries
from omnigraph.errors import BadRequestError, NotFoundError, PolicyDeniedError
from omnigraph.mcp import Toolbox
from omnigraph.policy import policy_from_text

SCHEMA = """\
node Paper { doi: String @key  year: I32?  size: I64?  on: Date? }
edge Cites: Paper -> Paper
"""
QUERIES = """\
query papers() @description("All papers") @instruction("Call it first.") {
    match { $p: Paper } return { $p.doi, $p.size } order { $p.doi asc }
}
query add($doi: String, $size: I64?, $on: Date?) {
    insert Paper { doi: $doi, size: $size, on: $on }
}
query since($branch: I32, $tags: [String], $v: Vector(2)?) {
    match { $p: Paper  $p.year >= $branch  $p.doi in $tags } return { $p.doi }
}
query graph_schema() { match { $p: Paper } return { $p.doi } }
"""
POLICY = """\
version: 1
groups: {agents: [agent-7], readers: [act-guest]}
protected_branches: [main]
rules:
  - {id: all-read, allow: {actors: {group: readers}, actions: [read]}}
  - {id: agents-read, allow: {actors: {group: agents}, actions: [read, invoke_query]}}
  - id: agents-write
    allow: {actors: {group: agents}, actions: [change], branch_scope: unprotected}
  - id: agents-fork
    allow: {actors: {group: agents}, actions: [branch_create], target_branch_scope: unprotected}
"""
STORED = {query.name: query for query in stored_queries(QUERIES)}
ALL = "query q() { match { $p: Paper } return { $p.doi as d } order { d asc } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as found:
        found.load([{"type": "Paper", "data": {"doi": "a", "year": 2000}}], mode="append")
        yield found


def add(box: Toolbox, doi: str, **more: Any) -> dict[str, Any]:
    return box.call("add", {"doi": doi, **more})


def dois(box: Toolbox, **arguments: Any) -> list[str]:
    body: Any = box.call("graph_query", {"query": ALL, **arguments})
    return [row["d"] for row in body["rows"]]


def test_tools_are_described_by_schemas(graph: og.Graph) -> None:
    tools = {tool.name: tool for tool in Toolbox(graph, STORED).tools()}
    assert {name for name, tool in tools.items() if not tool.read_only} == {
        "graph_mutate",
        "graph_load",
        "add",
    }
    assert tools["papers"].description == "All papers Call it first."
    assert tools["add"].input_schema == {
        "type": "object",
        "properties": {
            "doi": {"type": "string"},
            "size": {"type": ["integer", "string", "null"], "pattern": "^-?[0-9]+$"},
            "on": {"type": ["string", "null"], "format": "date"},
            "branch": {
                "type": "string",
                "description": "Branch to write to; your own when left out.",
            },
        },
        "additionalProperties": False,
        "required": ["doi"],
    }
    since: Any = tools["since"].input_schema
    assert since["properties"]["branch"] == {"type": "integer"}
    assert since["properties"]["tags"] == {"type": "array", "items": {"type": "string"}}
    assert since["properties"]["v"]["maxItems"] == 2
    assert "stored_graph_schema" in tools


def test_writes_go_to_a_branch_of_the_agents_own(graph: og.Graph) -> None:
    box = Toolbox(graph.as_actor("agent 7/x"), STORED)
    assert box.call("graph_branches") == {"branches": ["main"], "yours": "agent-agent-7-x"}
    assert dois(box) == ["a"]
    done = add(box, "b", size="9007199254740993", on="2026-01-02")
    assert (done["branch"], done["actor_id"]) == ("agent-agent-7-x", "agent 7/x")
    box.call("graph_load", {"rows": [{"type": "Paper", "data": {"doi": "c"}}]})
    box.call("graph_mutate", {"query": 'query d() { delete Paper where doi = "a" }'})
    assert dois(box) == ["b", "c"]
    assert dois(box, branch="main") == ["a"]
    rows: Any = box.call("papers")["rows"]
    assert rows[0]["p.size"] == 9007199254740993
    assert graph.branches.list() == ["main", "agent-agent-7-x"]
    for name in ("graph_mutate", "add"):
        arguments = {"doi": "z"} if name == "add" else {"query": QUERIES, "name": "add"}
        with pytest.raises(BadRequestError, match="do not write to main"):
            box.call(name, {**arguments, "branch": "main"})
    with pytest.raises(NotFoundError):
        add(box, "z", branch="nowhere")


def test_a_merge_is_previewed_and_left_to_people(graph: og.Graph) -> None:
    box = Toolbox(graph.as_actor("bot"), STORED)
    add(box, "b")
    plan: Any = box.call("graph_merge_preview")
    assert (plan["source"], plan["target"], plan["clean"]) == ("agent-bot", "main", True)
    assert [change["id"] for change in plan["changes"]] == ["b"]
    diff: Any = box.call("graph_diff")
    assert diff["counts"] == {"Paper": {"insert": 1, "update": 0, "delete": 0}}
    graph.mutate('query u() { update Paper set { year: 1 } where doi = "a" }')
    update = 'query u() { update Paper set { year: 2 } where doi = "a" }'
    box.call("graph_mutate", {"query": update})
    plan = box.call("graph_merge_preview")
    assert (plan["clean"], len(plan["merge_conflicts"])) == (False, 1)
    assert dois(box, branch="main") == ["a"]
    with pytest.raises(NotFoundError, match="no tool 'graph_merge'"):
        box.call("graph_merge", {"source": "agent-bot"})


def test_people_can_let_agents_write_to_main(graph: og.Graph) -> None:
    box = Toolbox(graph, STORED, allow_main=True)
    assert add(box, "b")["branch"] == "main"
    graph.branches.create("dev")
    add(box, "c", branch="dev")
    merged: Any = box.call("graph_merge", {"source": "dev"})
    assert merged["outcome"] == "fast_forward"
    assert dois(box) == ["a", "b", "c"]
    history: Any = box.call("graph_history", {"limit": 2})
    assert (history["branch"], len(history["commits"])) == ("main", 2)


def test_a_branch_can_be_named_for_all(graph: og.Graph) -> None:
    box = Toolbox(graph, STORED, branch="work")
    assert add(box, "b")["branch"] == "work"
    assert "node Paper" in str(box.call("graph_schema")["schema_source"])


def test_answers_have_the_size_an_agent_can_take(graph: og.Graph) -> None:
    rows = [{"type": "Paper", "data": {"doi": f"p{n:04}"}} for n in range(150)]
    graph.load(rows, mode="append")
    box = Toolbox(graph, STORED)
    body: Any = box.call("graph_query", {"query": ALL})
    assert (len(body["rows"]), body["row_count"], body["truncated"]) == (100, 151, True)
    body = box.call("papers", {"limit": 2})
    assert (len(body["rows"]), body["row_count"]) == (2, 151)
    body = box.call("graph_query", {"query": ALL, "limit": 1000})
    assert (len(body["rows"]), "truncated" in body) == (151, False)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("graph_query", {}, "graph_query needs query"),
        ("graph_query", {"query": ALL, "extra": 1}, "graph_query takes no extra"),
        ("graph_query", {"query": 7}, "must be a text"),
        ("graph_query", {"query": ALL, "limit": 0}, "must be 1 to 10000"),
        ("graph_query", {"query": ALL, "limit": True}, "must be a number"),
        ("graph_query", {"query": ALL, "params": []}, "must be an object"),
        ("graph_query", {"query": ALL, "params": {"x": 1}}, "it declares no parameters"),
        ("graph_load", {"rows": [1]}, "list of objects"),
        ("add", {"doi": "x", "sze": 1}, "add takes no sze"),
        ("add", {}, "add needs doi"),
        ("add", {"doi": "x", "size": "many"}, "must be a whole number"),
        ("add", {"doi": "x", "on": "yesterday"}, "parameter 'on'"),
    ],
)
def test_wrong_arguments_are_told(
    graph: og.Graph, tool: str, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(BadRequestError, match=message):
        Toolbox(graph, STORED).call(tool, arguments)


def test_a_policy_holds_for_tools(graph: og.Graph) -> None:
    rules = policy_from_text(POLICY)
    with og.open(graph.uri, policy=rules, durability="none", actor="nobody") as guarded:
        box = Toolbox(guarded, STORED)
        assert box.call("add", {"doi": "b"}, actor="agent-7")["branch"] == "agent-agent-7"
        with pytest.raises(PolicyDeniedError):
            box.call("graph_mutate", {"query": QUERIES, "name": "add"}, actor="act-guest")
        with pytest.raises(PolicyDeniedError):
            box.call("graph_query", {"query": ALL})
        names = {tool.name for tool in box.tools("act-guest")}
        assert "graph_query" in names
        assert "papers" not in names
        for name in ("papers", "nothing"):
            with pytest.raises(NotFoundError, match=f"there is no tool '{name}'"):
                box.call(name, actor="act-guest")
        assert "papers" in {tool.name for tool in box.tools("agent-7")}
