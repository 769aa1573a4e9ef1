"""Routes with a simple path are found in a table, and answer as the framework would."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from omnigraph.server.app import _TOPICS
from omnigraph.server.shortcuts import Shortcuts
from tests.server.helpers import ALL, LINES, Api, Serve, error

BUSIEST = ["/query", "/mutate", "/change", "/load", "/ingest", "/read", "/branches/merge"]


async def _unused(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise AssertionError("the framework was asked")


def test_the_routes_that_are_used_most_are_in_the_table() -> None:
    found = Shortcuts(_unused, [topic.router for topic in _TOPICS])
    assert {("POST", path) for path in BUSIEST} <= found.known
    assert ("POST", "/queries/{name}") in found.known
    # Parameters of a query string are for the framework to read.
    assert ("GET", "/branches") not in found.known


def test_a_path_has_one_meaning_on_both_ways() -> None:
    """Of two routes for one path the framework takes the first, and the table the fixed one."""
    found = Shortcuts(_unused, [topic.router for topic in _TOPICS])
    for method, path in found.known:
        fixed, _values = found._find(method, path.replace("{", "").replace("}", "")) or (None, {})
        assert fixed is not None
        assert fixed.route.path == path


@pytest.fixture(scope="module")
def api(serve: Serve) -> Api:
    found = serve(queries={"a.gq": ALL})
    found.load()
    return found


CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/query", {"json": {"query": ALL}}),
    ("POST", "/query", {"json": {"query": "nonsense"}}),
    ("POST", "/query", {"json": {"query": ALL, "unknown": 1}}),
    ("POST", "/query?unknown=1", {"json": {"query": ALL}}),
    ("POST", "/query", {"content": b"{", "headers": {"Content-Type": "application/json"}}),
    ("POST", "/query", {"content": b"{}", "headers": {"Content-Type": "text/plain"}}),
    ("POST", "/query", {}),
    ("GET", "/query", {}),
    ("PUT", "/query", {}),
    ("POST", "/query/", {"json": {"query": ALL}}),
    ("GET", "/tags", {"content": b"x"}),
    ("GET", "/tags", {}),
    ("GET", "/schema", {}),
    ("POST", "/load", {"json": {"data": LINES, "mode": "append"}}),
    ("POST", "/branches", {"json": {"name": "main"}}),
    ("POST", "/queries/all", {"json": {}}),
    ("POST", "/queries/all", {}),
    ("POST", "/queries/all?unknown=1", {}),
    ("POST", "/queries/all", {"json": {"unknown": 1}}),
    ("POST", "/queries/n%C3%B6", {}),
    ("POST", "/queries/a%2Fb", {}),
    ("POST", "/queries/", {}),
    ("GET", "/queries/all", {}),
    ("POST", "/queries/all/", {}),
    ("POST", "/queries/all/more", {}),
    ("GET", "/commits/none", {}),
    ("DELETE", "/tags/none", {}),
    ("DELETE", "/branches/none", {}),
]


@pytest.mark.parametrize(("method", "path", "sent"), CASES)
@pytest.mark.parametrize("prefix", ["", "/graphs/default"])
def test_the_short_way_answers_as_the_long_one(
    api: Api, monkeypatch: pytest.MonkeyPatch, prefix: str, method: str, path: str, sent: Any
) -> None:
    options = {"headers": {}, **sent}
    short = api.http.request(method, prefix + path, **options)

    async def long_way(self: Shortcuts, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    monkeypatch.setattr(Shortcuts, "__call__", long_way)
    long = api.http.request(method, prefix + path, **options)
    assert (short.status_code, short.json()) == (long.status_code, long.json())
    differ = {"date", "x-request-id"}
    shown = [{k: v for k, v in r.headers.items() if k not in differ} for r in (short, long)]
    assert shown[0] == shown[1]


def test_a_failure_that_is_not_ours_says_nothing_of_itself(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object, **_options: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr("omnigraph.graph.session.Session.query", broken)
    body = error(api.post("/query", {"query": ALL}), 500, "internal")
    assert "secret" not in str(body)
    text = api.get("/metrics").text
    assert 'omnigraph_requests_total{method="POST",route="/query",status="500"} 1.0' in text
