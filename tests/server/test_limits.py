"""What one caller can take of a server: threads, time, rows, bytes; and what others are left."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import QueryError, ResourceLimitError
from omnigraph.graph import Result
from omnigraph.mcp.tools import Toolbox
from omnigraph.server.responses import result_json, result_lines
from tests.server.helpers import ALL, POLICY, TOKENS, Api, Serve, error

EVERYBODY = POLICY.replace("branch_scope: unprotected", "branch_scope: any")
ASK = {"query": ALL}


class Held:
    """Queries that wait until they are let go, and tell how many of them are at it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._plain = og.Session.query
        self.let_go = threading.Event()
        self.running = threading.Semaphore(0)
        patch.setattr(og.Session, "query", self._wait_as(self))

    @staticmethod
    def _wait_as(held: Held) -> Any:
        def query(session: og.Session, *args: Any, **options: Any) -> Result:
            if session.actor != "act-guest":
                held.running.release()
                assert held.let_go.wait(30)
            return held._plain(session, *args, **options)

        return query

    def wait(self, number: int) -> None:
        for _one in range(number):
            assert self.running.acquire(timeout=20)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    found = Held(monkeypatch)
    yield found
    found.let_go.set()


def ask(api: Api, actor: str) -> httpx.Response:
    with httpx.Client(base_url=api.url, timeout=30) as http:
        headers = {"Authorization": f"Bearer {TOKENS[actor]}"}
        return http.post("/query", json=ASK, headers=headers)


def test_the_reads_of_one_actor_leave_threads_to_others(serve: Serve, held: Held) -> None:
    api = serve(tokens=TOKENS, policy=EVERYBODY, threads=3, actor_reads_max=8, actor_queue_max=2)
    with ThreadPoolExecutor(8) as pool:
        slow = [pool.submit(ask, api, "act-lena") for _number in range(2)]
        held.wait(2)
        waiting = [pool.submit(ask, api, "act-lena") for _number in range(2)]
        while len(api.service.reading._actors["act-lena"].queue) < 2:
            time.sleep(0.05)
        found = api.get("/branches", "act-lena")
        body = error(found, 429, "too_many_requests")
        assert "2 reads of 'act-lena' are waiting" in body["error"]
        assert int(found.headers["retry-after"]) >= 1
        # Others are answered meanwhile, and so is everybody who asks how the server is.
        assert ask(api, "act-guest").status_code == 200
        assert api.get("/healthz").status_code == 200
        assert api.get("/readyz").status_code == 200
        held.let_go.set()
        assert [item.result().status_code for item in (*slow, *waiting)] == [200] * 4


def test_a_read_waits_only_so_long(serve: Serve, held: Held) -> None:
    api = serve(tokens=TOKENS, policy=EVERYBODY, actor_reads_max=1, actor_wait_seconds=0.2)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(ask, api, "act-lena")
        held.wait(1)
        found = error(api.get("/branches", "act-lena"), 429, "too_many_requests")
        assert "waited for 0.2 seconds" in found["error"]
        held.let_go.set()
        assert slow.result().status_code == 200


def test_what_cannot_be_stopped_is_answered_and_keeps_its_place(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = serve(query_seconds_max=0.2, actor_reads_max=1, actor_wait_seconds=0.2)
    held = Held(monkeypatch)
    try:
        begun = time.monotonic()
        body = error(api.post("/query", ASK), 504, None)
        assert time.monotonic() - begun < 15
        assert "longer than the 0.2 seconds" in body["error"]
        error(api.get("/branches"), 429, "too_many_requests")
    finally:
        held.let_go.set()
    while api.get("/branches").status_code == 429:
        time.sleep(0.05)
    assert api.get("/branches").status_code == 200


def test_hanging_up_stops_an_explanation(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    api = serve()
    began, stopped = threading.Event(), threading.Event()

    def slow(_self: og.Session, *_args: Any, cancel: threading.Event, **_options: Any) -> None:
        began.set()
        if cancel.wait(10):
            stopped.set()
        raise QueryError("the query was cancelled")

    monkeypatch.setattr(og.Session, "explain", slow)
    host, port = api.url.removeprefix("http://").split(":")
    body = json.dumps({**ASK, "explain": True}).encode()
    with socket.create_connection((host, int(port))) as place:
        place.sendall(
            b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        assert began.wait(10)
    assert stopped.wait(10)


# ---- rows and bytes -----------------------------------------------------------------------


@pytest.mark.parametrize("limit", [{"result_rows_max": 1}, {"result_bytes_max": 20}])
def test_a_json_answer_is_limited_and_a_stream_goes_on(serve: Serve, limit: Any) -> None:
    api = serve(**limit)
    api.load()
    for path, body in (("/query", ASK), ("/read", {"query_source": ALL})):
        found = error(api.post(path, body), 413, "bad_request")
        assert "application/x-ndjson" in found["hint"]
        assert found["resource_limit"]["limit"] in limit.values()
    lines = api.post("/query", ASK, headers={"Accept": "application/x-ndjson"})
    assert [json.loads(line).get("p.name") for line in lines.text.splitlines()[1:]] == [
        "ann",
        "bob",
    ]
    with og.connect(api.url) as graph:
        assert len(graph.query(ALL)) == 2


def made(rows: int) -> Result:
    return Result(pa.table({"n": list(range(rows))}), query_name="q", commit_id="01C")


def test_making_an_answer_can_be_stopped() -> None:
    calls: list[None] = []

    def check() -> None:
        calls.append(None)
        if len(calls) == 3:
            raise QueryError("the query was cancelled")

    with pytest.raises(QueryError):
        result_json(made(50_000), check, ints="number", rows_max=10**6, bytes_max=10**9)
    assert len(calls) == 3
    calls.clear()
    lines = result_lines(made(50_000), check)
    with pytest.raises(QueryError):
        list(lines)


@pytest.mark.parametrize("rows", [0, 1, 4095, 4096, 4097, 10_000])
def test_an_answer_made_in_parts_is_the_whole_answer(rows: int) -> None:
    result = made(rows)
    body = result_json(result, lambda: None, ints="number", rows_max=10**6, bytes_max=10**9)
    assert msgspec.json.decode(msgspec.json.encode(body)) == result.to_json()


# ---- the same elsewhere -------------------------------------------------------------------


def test_a_client_is_told_what_an_embedded_caller_is_told(serve: Serve) -> None:
    api = serve()
    api.load()
    told = []
    with og.connect(api.url) as remote, og.open(api.store, mode="ro") as graph:
        for one in (remote, graph):
            for work in (one.query, one.explain):
                with pytest.raises(ResourceLimitError) as caught:
                    work(ALL, timeout=1e-9)
                told.append((caught.value.message, caught.value.hint, caught.value.resource))
    assert len(set(told)) == 1


def test_tools_of_agents_have_the_same_limit_of_time(serve: Serve) -> None:
    api = serve()
    api.load()
    with og.open(api.store, mode="ro") as graph:
        with pytest.raises(ResourceLimitError, match="took longer"):
            Toolbox(graph, query_seconds=1e-9).call("graph_query", {"query": ALL})
        assert Toolbox(graph).call("graph_query", {"query": ALL})["row_count"] == 2
