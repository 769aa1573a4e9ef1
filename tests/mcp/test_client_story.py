"""An agent's whole work through a real client: it looks, writes aside, compares, and is merged."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import omnigraph as og
from tests.mcp.test_tools import ALL, QUERIES, SCHEMA

mcp = pytest.importorskip("mcp")
PROGRAM = "from omnigraph.cli.main import main; main()"
Call = Callable[..., Awaitable[dict[str, Any]]]


def over_stdio(arguments: list[str], work: Callable[[Any, Call], Awaitable[Any]]) -> Any:
    """Start the program, connect a client to it, and let that work. Calls must not fail."""
    from mcp.client.stdio import StdioServerParameters

    started = StdioServerParameters(command=sys.executable, args=["-c", PROGRAM, "mcp", *arguments])
    called: set[str] = set()

    async def run() -> Any:
        async with mcp.Client(started) as client:

            async def call(name: str, **given: object) -> dict[str, Any]:
                called.add(name)
                answer = await client.call_tool(name, given)
                assert not answer.is_error, answer.content[0].text
                found: dict[str, Any] = answer.structured_content
                return found

            found = await work(client, call)
            named = {tool.name for tool in (await client.list_tools()).tools}
            assert called == named, "every tool is used once"
            return found

    return anyio.run(run)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as graph:
        graph.load([{"type": "Paper", "data": {"doi": "a", "year": 2000}}], mode="append")
    (tmp_path / "q.gq").write_text(QUERIES, encoding="utf-8")
    return tmp_path / "g"


async def agent(client: Any, call: Call) -> dict[str, Any]:
    """Use every tool, as an agent would, one after the other."""
    assert "node Paper" in (await call("graph_schema"))["schema_source"]
    assert (await call("graph_branches"))["branches"] == ["main"]
    assert (await call("papers"))["row_count"] == 1
    assert (await call("stored_graph_schema"))["row_count"] == 1
    assert (await call("since", branch=1999, tags=["a"]))["row_count"] == 1
    written = await call("add", doi="b")
    insert = 'query q() { insert Paper { doi: "c" } }'
    assert (await call("graph_mutate", query=insert))["branch"] == written["branch"]
    cites = [{"edge": "Cites", "from": "b", "to": "c"}]
    assert (await call("graph_load", rows=cites))["edges"][0]["name"] == "Cites"
    mine = await call("graph_query", query=ALL)
    main = await call("graph_query", query=ALL, branch="main", limit=1)
    history = await call("graph_history", limit=3)
    changed = await call("graph_diff")
    preview = await call("graph_merge_preview")
    wrong = await client.call_tool("graph_query", {"query": "query {"})
    assert wrong.is_error
    assert wrong.structured_content["type"] == "compile"
    return {
        "branch": written["branch"],
        "mine": [row["d"] for row in mine["rows"]],
        "main": [row["d"] for row in main["rows"]],
        "kinds": [commit["kind"] for commit in history["commits"]],
        "changes": sorted(item["id"] for item in changed["changes"] if item["kind"] == "node"),
        "clean": preview["clean"],
    }


def test_an_agent_works_on_a_branch_of_its_own(place: Path) -> None:
    arguments = [str(place), "--queries", str(place.parent / "q.gq"), "--as", "bot"]
    assert over_stdio(arguments, agent) == {
        "branch": "agent-bot",
        "mine": ["a", "b", "c"],
        "main": ["a"],
        "kinds": ["load", "mutation", "mutation"],
        "changes": ["b", "c"],
        "clean": True,
    }
    with og.open(place, durability="none") as graph:
        assert graph.commits.head("agent-bot").actor_id == "bot"
        graph.branches.merge("agent-bot", delete_source=True)
        assert len(graph.query(ALL)) == 3


def test_an_agent_that_may_merges_what_it_wrote(place: Path) -> None:
    async def merging(client: Any, call: Call) -> dict[str, Any]:
        for name in ("graph_schema", "graph_branches", "graph_history"):
            await call(name)
        insert = 'query q() { insert Paper { doi: "z" } }'
        await call("graph_mutate", query=insert)
        await call("graph_load", rows=[{"type": "Paper", "data": {"doi": "y"}}])
        await call("graph_diff", base="main", branch="side")
        await call("graph_merge_preview", source="side")
        merged = await call("graph_merge", source="side")
        found = await call("graph_query", query=ALL)
        return {"outcome": merged["outcome"], "rows": [row["d"] for row in found["rows"]]}

    with og.open(place, durability="none") as graph:
        graph.branch("side").mutate('query q() { insert Paper { doi: "s" } }')
    found = over_stdio([str(place), "--allow-main", "--as", "bot"], merging)
    assert found == {"outcome": "merged", "rows": ["a", "s", "y", "z"]}
