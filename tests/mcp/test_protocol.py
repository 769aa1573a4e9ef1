"""The protocol itself: a client in the same process, over stdio and over HTTP."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import omnigraph as og
from omnigraph.errors import BadRequestError
from omnigraph.mcp import Token, Tokens, Toolbox, http_app, protocol_server, read_tokens
from omnigraph.policy import policy_from_text
from tests.integration.conftest import Cli
from tests.mcp.test_tools import POLICY, QUERIES, SCHEMA, STORED

mcp = pytest.importorskip("mcp")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as graph:
        graph.load([{"type": "Paper", "data": {"doi": "a"}}], mode="append")
    (tmp_path / "q.gq").write_text(QUERIES, encoding="utf-8")
    (tmp_path / "p.yaml").write_text(POLICY, encoding="utf-8")
    return tmp_path / "g"


async def talk(client: Any) -> dict[str, Any]:
    """What every transport must be able to do."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    read = await client.call_tool("papers", {})
    written = await client.call_tool("add", {"doi": "b"})
    wrong = await client.call_tool("graph_query", {"query": "query {"})
    schema = await client.read_resource("omnigraph://schema")
    return {
        "read_only": tools["papers"].annotations.read_only_hint,
        "writes": tools["add"].annotations.read_only_hint,
        "rows": read.structured_content["rows"],
        "text": json.loads(read.content[0].text)["row_count"],
        "branch": written.structured_content.get("branch"),
        "failed": (written.is_error, wrong.is_error),
        "error": wrong.structured_content["type"],
        "schema": schema.contents[0].text,
    }


def expect(found: dict[str, Any], *, branch: str) -> None:
    assert (found["read_only"], found["writes"]) == (True, False)
    assert (found["rows"], found["text"]) == ([{"p.doi": "a", "p.size": None}], 1)
    assert found["failed"] == (False, True)
    assert (found["branch"], found["error"]) == (branch, "compile")
    assert "node Paper" in found["schema"]


def spoken(server: Any) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        async with mcp.Client(server) as client:
            return await talk(client)

    return anyio.run(run)


def test_a_client_in_the_process(place: Path) -> None:
    with og.open(place, actor="bot", durability="none") as graph:
        expect(spoken(protocol_server(Toolbox(graph, STORED))), branch="agent-bot")


def test_a_client_over_stdio(place: Path) -> None:
    from mcp.client.stdio import StdioServerParameters

    arguments = ["mcp", str(place), "--queries", str(place.parent / "q.gq"), "--as", "bot"]
    program = "from omnigraph.cli.main import main; main()"
    parameters = StdioServerParameters(command=sys.executable, args=["-c", program, *arguments])
    expect(spoken(parameters), branch="agent-bot")


@pytest.fixture
def served(place: Path) -> Iterator[str]:
    import uvicorn

    tokens = Tokens([Token.of("agent-7", "secret-a"), Token.of("act-guest", "secret-b")])
    with (
        og.open(place, policy=policy_from_text(POLICY), durability="none") as graph,
        socket.socket() as listening,
    ):
        listening.bind(("127.0.0.1", 0))
        app = http_app(Toolbox(graph, STORED), host="127.0.0.1", tokens=tokens)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        deadline = time.monotonic() + 30
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        server.should_exit = True
        thread.join()


def over_http(url: str, token: str | None, work: Callable[[Any], Awaitable[Any]]) -> Any:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def run() -> Any:
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            mcp.Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return await work(client)

    return anyio.run(run)


def test_a_client_over_http_is_who_its_token_says(served: str) -> None:
    expect(over_http(served, "secret-a", talk), branch="agent-agent-7")

    async def guest(client: Any) -> tuple[set[str], Any]:
        names = {tool.name for tool in (await client.list_tools()).tools}
        return names, await client.call_tool("graph_mutate", {"query": QUERIES, "name": "add"})

    names, denied = over_http(served, "secret-b", guest)
    assert "papers" not in names
    assert denied.is_error
    assert denied.structured_content["type"] == "policy_denied"
    assert denied.structured_content["policy_denial"]["actor"] == "act-guest"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic secret-a"},
        {"Authorization": "bearer secret-a"},
        {"X-Actor": "agent-7"},
    ],
)
def test_nobody_gets_in_without_a_token(served: str, headers: dict[str, str]) -> None:
    import httpx2

    answer = httpx2.post(served, json={"jsonrpc": "2.0", "id": 1, "method": "ping"},
                         headers=headers)  # fmt: skip
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["code"] == "unauthorized"


def test_tokens_are_read_strictly_and_never_shown(tmp_path: Path) -> None:
    place = tmp_path / "t.json"
    twice = '{"a": "hush", "b": "hush"}'
    for text in (twice, "{}", '{"a": 1}', '["hush"]', '{"a": "hush"', '{"": "hush"}'):
        place.write_text(text)
        with pytest.raises(BadRequestError) as caught:
            read_tokens(place)
        assert "hush" not in str(caught.value)
    place.write_text('{"a": "hush"}')
    tokens = read_tokens(place)
    assert tokens.identify("Bearer hush").actor == "a"
    assert "hush" not in repr(vars(tokens))


def test_the_command_refuses_what_makes_no_sense(cli: Cli, place: Path) -> None:
    at = str(place)
    assert cli("mcp").code == 2
    assert cli("mcp", at, "--tokens", "t.json").code == 2
    assert cli("mcp", at, "--graph", "x").code == 2
    assert cli("mcp", at, "--http", "127.0.0.1:0", "--tokens", "t.json", "--as", "a").code == 2
    assert cli("mcp", at, "--cluster", ".").code == 2
    assert cli("mcp", at, "--http", "nowhere", "--unauthenticated").code == 2
    refused = cli("mcp", at, "--http", "127.0.0.1:0")
    assert (refused.code, "no tokens are configured" in refused.err) == (1, True)
    refused = cli("mcp", at, "--http", "127.0.0.1:0", "--unauthenticated", "--policy", "p.yaml")
    assert (refused.code, "a policy without tokens" in refused.err) == (1, True)
    assert cli("mcp", at, "--queries", "q.gq", "--queries", "q.gq").code == 1


def test_without_the_package_the_command_says_what_to_install(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    with og.open(place, mode="ro") as graph, pytest.raises(BadRequestError) as caught:
        protocol_server(Toolbox(graph))
    assert caught.value.hint == "pip install 'omnigraph[mcp]'"
