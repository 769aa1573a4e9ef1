"""Queries that need much memory run in processes of their own, which the server can end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pytest

from omnigraph.limits import LARGE_QUERY_IDLE_S
from omnigraph.server.result_files import ResultFiles
from tests.server.helpers import ALL, POLICY, TOKENS, Api, Serve, error

PEOPLE = 300
SMALL = 64 * 1024
"""Of so much memory a product of all people is too large to be made in the server itself."""
PRODUCT = "query all() { match { $a: Person  $b: Person } return { $a.name, $b.age } }"
SORTED = (
    "query far($most: I32) { match { $a: Person  $b: Person  $a.age < $most } "
    "return { $a.name, $b.name } order { $a.name asc, $b.name asc } }"
)
LONG = (
    "query far() { match { $a: Person  $b: Person  $c: Person } return "
    "{ $a.name, $b.name, $c.name } order { $c.name desc, $b.name asc, $a.name asc } }"
)
EVERYBODY = POLICY.replace("branch_scope: unprotected", "branch_scope: any")


@pytest.fixture(scope="module")
def api(serve: Serve) -> Api:
    return filled(serve(small_query_bytes_max=SMALL))


def filled(api: Api, **options: Any) -> Api:
    rows = [{"type": "Person", "data": {"name": f"p{n:03}", "age": n}} for n in range(PEOPLE)]
    data = "\n".join(json.dumps(row) for row in rows)
    api.ok(api.post("/load", {"data": data, "mode": "append"}, **options))
    return api


def children() -> set[int]:
    """Return the processes that servers of this process have started for large queries."""
    found = set()
    for listed in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        # A thread, or a process, may have ended meanwhile.
        with contextlib.suppress(OSError):
            for pid in listed.read_text().split():
                with contextlib.suppress(OSError):
                    command = Path(f"/proc/{pid}/cmdline").read_bytes()
                    if b"omnigraph.cli.large_queries" in command:
                        found.add(int(pid))
    return found


def until(test: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not test():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_large_query_has_the_answer_of_a_small_one(api: Api, serve: Serve) -> None:
    here = filled(serve(large_queries_max=0))
    for query, params in ((PRODUCT, {}), (SORTED, {"most": 250})):
        body = {"query": query, "params": params}
        large, small = (server.ok(server.post("/query", body)) for server in (api, here))
        assert children(), "it was not run apart"
        assert large["row_count"] >= PEOPLE * 250
        assert large["rows"] == small["rows"]
        assert large["columns"] == small["columns"]
        assert large["target"] == small["target"] == {"branch": "main", "snapshot": None}


def test_a_small_query_stays_here(serve: Serve) -> None:
    before = children()
    api = filled(serve(small_query_bytes_max=SMALL))
    assert len(api.ok(api.post("/query", {"query": ALL}))["rows"]) == PEOPLE
    assert children() == before


def test_every_form_of_a_large_answer(api: Api) -> None:
    body = {"query": PRODUCT}
    rows = PEOPLE * PEOPLE
    ndjson = api.post("/query", body, headers={"Accept": "application/x-ndjson"})
    lines = ndjson.text.splitlines()
    assert json.loads(lines[0])["row_count"] == len(lines) - 1 == rows
    arrow = api.post("/query", body, headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert pa.ipc.open_stream(arrow.content).read_all().num_rows == rows
    csv = api.post("/query", body, headers={"Accept": "text/csv"})
    assert len(csv.text.splitlines()) == rows + 1
    told = api.ok(api.post("/query", body | {"explain": True}))
    assert told["explain"]["row_count"] == rows


def test_a_large_query_reads_the_state_it_names(serve: Serve) -> None:
    api = filled(serve(small_query_bytes_max=SMALL))
    before = api.ok(api.get("/commits"))["commits"][0]["graph_commit_id"]
    api.ok(api.post("/branches", {"name": "side"}))
    api.add("one-more", branch="side")
    states: tuple[tuple[dict[str, str], int], ...] = (
        ({}, PEOPLE),
        ({"branch": "side"}, PEOPLE + 1),
        ({"snapshot": before}, PEOPLE),
    )
    for state, people in states:
        found = api.post("/query", {"query": PRODUCT, **state}, headers={"Accept": "text/csv"})
        assert len(found.text.splitlines()) == people**2 + 1


def test_what_a_large_query_is_refused_for_is_told_as_ever(serve: Serve) -> None:
    api = filled(serve(small_query_bytes_max=SMALL, large_query_bytes_max=3 * SMALL))
    found = error(api.post("/query", {"query": PRODUCT}), 413, "bad_request")
    assert found["resource_limit"]["resource"] == "bytes of memory of a query"
    rows = serve(small_query_bytes_max=SMALL, result_rows_max=10)
    found = error(filled(rows).post("/query", {"query": PRODUCT}), 413, "bad_request")
    assert found["resource_limit"]["resource"] == "rows of a JSON answer"
    off = filled(serve(small_query_bytes_max=SMALL, large_queries_max=0))
    assert (
        error(off.post("/query", {"query": PRODUCT}), 413, "bad_request")["resource_limit"]["limit"]
        == SMALL
    )


def test_a_large_query_has_its_time(serve: Serve) -> None:
    api = filled(serve(small_query_bytes_max=SMALL, query_seconds_max=2.0))
    begun = time.monotonic()
    found = api.post("/query", {"query": LONG})
    assert found.status_code == 504, found.text
    assert time.monotonic() - begun < 20


def test_a_client_that_hangs_up_ends_its_query(serve: Serve) -> None:
    before = children()
    api = filled(serve(small_query_bytes_max=SMALL))
    assert api.post("/query", {"query": PRODUCT}).status_code == 200
    (mine,) = children() - before
    url = urlsplit(api.url)
    body = json.dumps({"query": LONG}).encode()
    with socket.create_connection((str(url.hostname), int(url.port or 0))) as client:
        client.sendall(
            b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        time.sleep(0.5)
    begun = time.monotonic()
    until(lambda: mine not in children())
    assert time.monotonic() - begun < LARGE_QUERY_IDLE_S / 2, "it was not ended, only left alone"
    assert api.post("/query", {"query": PRODUCT}).status_code == 200


def test_a_killed_process_is_told_and_replaced(api: Api) -> None:
    assert api.post("/query", {"query": PRODUCT}).status_code == 200
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx.post, f"{api.url}/query", json={"query": LONG}, timeout=60)
        time.sleep(1.0)
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        assert asked.result().status_code == 413
    assert api.post("/query", {"query": PRODUCT}).status_code == 200


def test_another_actor_is_served_meanwhile(serve: Serve) -> None:
    api = serve(
        tokens=TOKENS, policy=EVERYBODY, small_query_bytes_max=SMALL, query_seconds_max=20.0
    )
    filled(api, actor="act-lena")
    headers = {"Authorization": f"Bearer {TOKENS['act-omar']}"}
    with ThreadPoolExecutor(4) as pool:
        for _one in range(4):
            pool.submit(
                httpx.post,
                f"{api.url}/query",
                json={"query": LONG},
                headers=headers,
                timeout=1.5,
            )
        time.sleep(0.5)
        body = {"query": PRODUCT}
        assert api.ok(api.post("/query", body, actor="act-guest"))["row_count"] == PEOPLE**2


def test_answers_that_nobody_takes_leave_room(serve: Serve) -> None:
    api = filled(serve(small_query_bytes_max=SMALL, result_files_bytes_max=1))
    url = urlsplit(api.url)
    body = json.dumps({"query": SORTED, "params": {"most": PEOPLE}}).encode()
    with socket.create_connection((str(url.hostname), int(url.port or 0))) as client:
        client.sendall(
            b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Accept: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        assert client.recv(1024).startswith(b"HTTP/1.1 200")
        found = api.post("/query", {"query": PRODUCT})
        assert found.status_code == 429
        assert int(found.headers["retry-after"]) > 0
    until(lambda: api.post("/query", {"query": PRODUCT}).status_code == 200)


def test_processes_end_when_idle_and_with_their_server(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.server.large_queries.LARGE_QUERY_IDLE_S", 0.5)
    before = children()
    api = filled(serve(small_query_bytes_max=SMALL))
    assert api.post("/query", {"query": PRODUCT}).status_code == 200
    until(lambda: children() <= before)


def test_what_a_killed_server_left_behind_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead = tmp_path / "omnigraph-results-dead"
    dead.mkdir()
    (dead / "1").write_bytes(b"half an answer")
    first = ResultFiles(1 << 30)
    mine = Path(first.new_path()).parent
    assert sorted(tmp_path.iterdir()) == [mine]
    second = ResultFiles(1 << 30)
    other = Path(second.new_path()).parent
    assert sorted(tmp_path.iterdir()) == sorted([mine, other]), "a living one was removed"
    first.close()
    second.close()
    assert not list(tmp_path.iterdir())


def test_a_server_that_closes_ends_what_is_under_way(serve: Serve) -> None:
    before = children()
    api = filled(serve(small_query_bytes_max=SMALL))
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx.post, f"{api.url}/query", json={"query": LONG}, timeout=60)
        until(lambda: bool(children() - before))
        time.sleep(0.5)
        large = api.service.large
        assert large is not None
        large.close()
        assert asked.result().status_code == 413
    until(lambda: children() <= before)
