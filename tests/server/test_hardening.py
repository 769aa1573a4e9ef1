"""Requests meant to hurt: too large, too slow, too many, out of bounds; and what the log says."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import select
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from opentelemetry import trace

import omnigraph as og
from omnigraph.failpoints import Failpoint, Pause, armed
from omnigraph.server.listening import listen
from omnigraph.server.logs import LOGGER, JsonFormatter
from tests.server.helpers import ADD, ALL, LINES, POLICY, TOKENS, Api, Serve, error

LENA = "act-lena"


@pytest.fixture(scope="module")
def small(serve: Serve) -> Api:
    return serve(request_bytes_max=2_000, load_bytes_max=5_000, body_seconds_max=0.5)


def raw(api: Api, data: bytes, *, wait_s: float = 10.0) -> bytes:
    """Send bytes as they are and return all that comes back until the server is done."""
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=wait_s) as place:
        place.sendall(data)
        found = b""
        try:
            while part := place.recv(65_536):
                found += part
                head, _, body = found.partition(b"\r\n\r\n")
                length = [
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                ]
                if length and len(body) >= length[0]:
                    break
        except (TimeoutError, ConnectionResetError):
            pass
        return found


# ---- size and time ------------------------------------------------------------------------


def test_bodies_have_a_limit_and_loads_a_larger_one(small: Api) -> None:
    big = {"query": ALL, "name": "x" * 3_000}
    body = error(small.post("/query", big), 413, "bad_request")
    assert body["resource_limit"]["limit"] == 2_000
    lines = '{"type":"Person","data":{"name":"a"}}\n' * 60
    assert small.post("/load", {"data": lines}).status_code in (200, 400)
    body = error(small.post("/load", {"data": lines * 3}), 413, "bad_request")
    assert body["resource_limit"]["limit"] == 5_000


def test_a_body_without_a_length_is_counted_as_it_comes(small: Api) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(1_000):
            yield b" " * 1_000

    headers = {"Content-Type": "application/json"}
    try:
        response = small.http.post("/query", content=endless(), headers=headers)
    except httpx.WriteError:
        # The server had said enough, and hung up on this client only.
        assert small.get("/healthz").status_code == 200
        return
    error(response, 413, "bad_request")


def test_a_slow_body_is_given_up(small: Api) -> None:
    begun = time.monotonic()
    answer = raw(
        small,
        b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{",
    )
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"took longer than 0.5 s" in answer
    assert time.monotonic() - begun < 8


@pytest.mark.parametrize("head", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_a_slow_head_is_given_up(serve: Serve, head: bytes) -> None:
    hasty = serve(head_seconds_max=0.6)
    host, port = hasty.url.removeprefix("http://").split(":")
    begun = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=10) as place:
        place.sendall(head)
        while True:
            place.settimeout(0.1)
            with contextlib.suppress(TimeoutError):
                assert place.recv(100) == b""
                break
            assert time.monotonic() - begun < 8, "still connected"
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                place.sendall(b"a" if head else b"")
    assert time.monotonic() - begun >= 0.5
    assert 'reason="slow_head"} 1.0' in hasty.get("/metrics").text


def test_a_pause_between_requests_is_no_slow_head(serve: Serve) -> None:
    hasty = serve(head_seconds_max=0.3)
    assert hasty.get("/healthz").status_code == 200
    with contextlib.closing(http.client.HTTPConnection(hasty.url.removeprefix("http://"))) as one:
        one.connect()
        place = one.sock
        for _request in range(3):
            one.request("GET", "/healthz")
            assert one.getresponse().read()
            assert select.select([place], [], [], 0.5) == ([], [], []), "the server hung up"
        assert one.sock is place, "connected anew"


def test_headers_have_a_limit(small: Api) -> None:
    answer = raw(small, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 200_000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    # Nor is it taken if it comes at once and whole.
    lines = b"".join(b"X-%d: %s\r\n" % (n, b"a" * 1000) for n in range(100))
    answer = raw(small, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n")
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert small.get("/healthz").status_code == 200


def test_nonsense_is_no_request(small: Api) -> None:
    for text in (b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTQ/1.1\r\n\r\n"):
        assert raw(small, text, wait_s=2).startswith(b"HTTP/1.1 400 ")
    assert small.get("/healthz").status_code == 200


# ---- names --------------------------------------------------------------------------------

ESCAPES = [
    "..",
    "../..",
    "..%2f..%2fetc",
    "%2e%2e%2f%2e%2e",
    "/etc/passwd",
    "a/../../b",
    "~",
    "\x00",
    "a\nb",
    "C:\\x",
    ".",
    "",
    "main/../main",
    "__schema_apply_lock__",
    "a" * 300,
    "node:x",
]


@pytest.fixture(scope="module")
def plain(serve: Serve) -> Api:
    api = serve(queries={"a.gq": ALL})
    api.load()
    return api


@pytest.mark.parametrize("name", ESCAPES, ids=repr)
def test_names_lead_nowhere(plain: Api, name: str) -> None:
    segment = quote(name, safe="")
    for path in (f"/graphs/{segment}/snapshot", f"/queries/{segment}", f"/commits/{segment}"):
        method = "POST" if "/queries" in path else "GET"
        answer = raw(
            plain,
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode(),
        )
        assert answer[9:12] in (b"400", b"404", b"405"), (path, answer[:200])
        assert b"root:" not in answer
    if name not in ("", "node:x", "a/../../b"):
        assert plain.post("/branches", {"name": name}).status_code == 400
    assert plain.get("/snapshot", params={"branch": name}).status_code in (200, 400, 404)
    assert plain.post("/query", {"query": ALL, "branch": name}).status_code in (200, 400, 404)
    assert plain.post("/query", {"query": ALL, "snapshot": name}).status_code in (400, 404)
    assert plain.get("/commits", params={"branch": name}).status_code in (200, 400, 404)
    assert plain.post("/export", {"type_names": [name]}).status_code == 404
    assert plain.get("/diff", params={"from": name, "to": "main"}).status_code in (400, 404)
    assert plain.ok(plain.get("/branches")) == {"branches": ["main"]}


def test_headers_are_not_made_of_what_was_sent(plain: Api) -> None:
    for sent in ("a\tb", "x" * 100, "é", "a b", "a;b"):
        response = plain.get("/healthz", headers={"X-Request-Id": sent.encode("latin-1")})
        assert response.headers["x-request-id"] != sent
    kept = plain.get("/healthz", headers={"X-Request-Id": "trace-1.a_B"})
    assert kept.headers["x-request-id"] == "trace-1.a_B"
    for path in ("/healthz%0d%0aX-Evil:%201", "/snapshot?branch=%0d%0aX-Evil:%201"):
        assert "x-evil" not in plain.get(path).headers
    answer = raw(plain, b"GET /x%0d%0aSet-Cookie:%20a HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"set-cookie" not in answer.lower().split(b"\r\n\r\n")[0]


# ---- how much at once ---------------------------------------------------------------------


def test_one_actor_cannot_fill_the_server(serve: Serve) -> None:
    api = serve(tokens=TOKENS, policy=POLICY, actor_writes_max=1, actor_wait_seconds=0.2)
    api.ok(api.post("/branches", {"name": "work"}, LENA))
    pause = Pause()
    body = {"query": ADD, "params": {"n": "a"}, "branch": "work"}
    with armed(Failpoint.WRITE_POST_CAPTURE, pause):
        first = threading.Thread(target=lambda: api.post("/mutate", body, LENA))
        first.start()
        assert pause.reached.wait(10)
        refused = api.post("/mutate", body, LENA)
        error(refused, 429, "too_many_requests")
        assert refused.headers["retry-after"] == "1"
        assert api.post("/query", {"query": ALL, "branch": "work"}, LENA).status_code == 200
        denied = api.post("/mutate", {"query": ADD, "params": {"n": "a"}}, "act-omar")
        error(denied, 403, "forbidden")  # the policy speaks first
        pause.released.set()
        first.join(10)
    assert api.post("/mutate", body, "act-omar").status_code == 200


def test_a_full_server_says_so(serve: Serve) -> None:
    api = serve(requests_max=1)
    pause = Pause()
    with armed(Failpoint.WRITE_POST_CAPTURE, pause):
        first = threading.Thread(target=lambda: api.add("a"))
        first.start()
        assert pause.reached.wait(10)
        refused = api.get("/snapshot")
        error(refused, 503, None)
        assert refused.headers["retry-after"] == "1"
        pause.released.set()
        first.join(10)
    assert api.get("/snapshot").status_code == 200


def test_writers_that_wait_do_not_stop_readers(serve: Serve) -> None:
    api = serve(threads=2)
    pause = Pause()
    with armed(Failpoint.WRITE_POST_CAPTURE, pause):
        writers = [threading.Thread(target=api.add, args=(f"w{n}",)) for n in range(6)]
        for writer in writers:
            writer.start()
        assert pause.reached.wait(10)
        assert api.names() == []
        pause.released.set()
        for writer in writers:
            writer.join(20)
    assert len(api.names()) == 6


def test_a_query_that_takes_too_long_is_stopped(serve: Serve) -> None:
    api = serve(query_seconds_max=0.0001)
    api.load()
    for explain in (False, True):
        body = error(api.post("/query", {"query": ALL, "explain": explain}), 504, None)
        assert body["error"] == "the query took longer than the 0.0001 seconds it may take"
        assert body["resource_limit"]["limit"] == 1


def test_hanging_up_stops_a_query(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    api = serve()
    began, stopped = threading.Event(), threading.Event()

    def slow(_self: og.Graph, *_args: Any, cancel: threading.Event, **_options: Any) -> None:
        began.set()
        if cancel.wait(10):
            stopped.set()
        raise og.QueryError("the query was cancelled")

    monkeypatch.setattr(og.Session, "query", slow)
    host, port = api.url.removeprefix("http://").split(":")
    body = json.dumps({"query": ALL}).encode()
    with socket.create_connection((host, int(port))) as place:
        place.sendall(
            b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        assert began.wait(10)
    assert stopped.wait(10)


# ---- streams ------------------------------------------------------------------------------


def test_a_slow_reader_holds_the_stream_back(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    api = serve(threads=1)
    made = 0
    progress = threading.Event()

    def endless(_self: og.Graph, **_options: Any) -> Iterator[dict[str, object]]:
        nonlocal made
        for number in range(200_000):
            made = number
            progress.set()
            yield {"type": "Person", "data": {"name": "x" * 1_000}}

    monkeypatch.setattr(og.Session, "export", endless)
    with api.http.stream("POST", "/export", json={}) as response:
        parts = response.iter_raw()
        next(parts)
        while progress.wait(0.3):
            progress.clear()
            assert made < 50_000, "the whole stream was made although nobody took it"
        # The one thread of readers is free: a stream that waits holds none.
        other = httpx.get(f"{api.url}/snapshot", timeout=10)
        assert other.status_code == 200


def test_hanging_up_ends_a_stream(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    api = serve()
    over = threading.Event()

    def endless(_self: og.Graph, **_options: Any) -> Iterator[dict[str, object]]:
        try:
            while True:
                yield {"type": "Person", "data": {"name": "x" * 1_000}}
        finally:
            over.set()

    monkeypatch.setattr(og.Session, "export", endless)
    with api.http.stream("POST", "/export", json={}) as response:
        parts = response.iter_raw()
        next(parts)
        assert not over.wait(0.3)
    assert over.wait(10)


def test_a_stream_that_breaks_is_not_mistaken_for_a_whole_one(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = serve()

    def broken(_self: og.Graph, **_options: Any) -> Iterator[dict[str, object]]:
        for _ in range(500):
            yield {"type": "Person", "data": {"name": "x" * 1_000}}
        raise og.StorageError("the disk is gone")

    monkeypatch.setattr(og.Session, "export", broken)
    with pytest.raises(httpx.RemoteProtocolError):
        api.post("/export", {})
    with og.connect(api.url) as graph, pytest.raises(og.StorageError):
        list(graph.export())  # type: ignore[arg-type]


def test_a_refusal_comes_before_the_stream(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    api = serve()

    def broken(_self: og.Graph, **_options: Any) -> Iterator[dict[str, object]]:
        yield from _gone()

    monkeypatch.setattr(og.Session, "export", broken)
    error(api.post("/export", {}), 500, "internal")


def _gone() -> list[dict[str, object]]:
    raise og.StorageError("the disk is gone")


# ---- the log ------------------------------------------------------------------------------


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.lines: list[str] = []
        self._grown = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._grown:
            self.lines.append(self.format(record))
            self._grown.notify_all()

    def requests(self, *answers: httpx.Response) -> list[dict[str, Any]]:
        """Return the lines about some requests, once they are there: they follow the answers."""
        wanted = [answer.headers["x-request-id"] for answer in answers]

        def known() -> dict[str, dict[str, Any]]:
            found = [json.loads(line) for line in self.lines]
            return {line["request_id"]: line for line in found if line["event"] == "request"}

        with self._grown:
            self._grown.wait_for(lambda: known().keys() >= set(wanted), timeout=10)
            return [known()[name] for name in wanted]


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler, logger = Kept(), logging.getLogger(LOGGER)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_the_log_tells_what_happened_and_no_secret(
    serve: Serve, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = serve(tokens=TOKENS, policy=POLICY)
    secret = f"value-{'s3cr3t'}"
    answers = [
        api.post("/load", {"data": LINES.replace("ann", secret)}, LENA),
        api.post("/mutate", {"query": ADD, "params": {"n": secret}}, LENA),
        api.post("/query", {"query": ALL, "name": secret}, LENA),
        api.get(f"/commits?actor={secret}", LENA),
        api.get("/snapshot", headers={"Authorization": f"Bearer {secret}", "Cookie": secret}),
    ]

    def broken(*_args: object, **_options: object) -> None:
        raise RuntimeError(f"cannot open {secret}")

    monkeypatch.setattr(og.Session, "snapshot", broken)
    answers.append(api.get("/snapshot", LENA))
    requests = kept.requests(*answers)
    text = "\n".join(kept.lines)
    assert secret not in text
    for token in TOKENS.values():
        assert token not in text
    lines = [json.loads(line) for line in kept.lines]
    assert [line["status"] for line in requests] == [200, 200, 404, 200, 401, 500]
    first = requests[0]
    assert (first["actor"], first["graph"], first["method"]) == (LENA, "default", "POST")
    assert first["route"] == "/load"
    assert first["request_id"]
    assert first["bytes_in"] > 0
    failed = next(line for line in lines if line["event"] == "request failed")
    assert failed["error_class"] == "RuntimeError"
    assert failed["request_id"] == requests[-1]["request_id"]
    assert failed["trace"]


def test_a_bad_line_cannot_be_put_into_the_log(serve: Serve, kept: Kept) -> None:
    api = serve()
    kept.requests(api.get('/x%0a{"event":"forged"}'))
    assert all(len(line.splitlines()) == 1 for line in kept.lines)


# ---- metrics ------------------------------------------------------------------------------


def test_metrics_count_what_operators_watch(serve: Serve) -> None:
    api = serve()
    api.load()
    api.add("eve")
    api.names()
    api.post("/load", {"data": LINES, "mode": "append"})
    api.get("/nowhere/at/all")
    api.send("PROPFIND", "/query")
    response = api.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    text = response.text
    assert 'omnigraph_requests_total{method="POST",route="/load",status="200"} 1.0' in text
    assert 'omnigraph_requests_total{method="POST",route="/load",status="409"} 1.0' in text
    assert 'route="(none)",status="404"' in text
    assert 'method="other"' in text
    assert "PROPFIND" not in text
    assert 'omnigraph_commits_total{graph="default",kind="mutation"} 1.0' in text
    assert 'omnigraph_conflicts_total{graph="default",type="key_conflict"} 1.0' in text
    assert 'omnigraph_recoveries{graph="default"} 0.0' in text
    assert 'work="write"' in text
    assert 'operation="slot_puts"' in text
    assert 'omnigraph_cache_bytes{graph="default"}' in text
    assert 'omnigraph_request_seconds_bucket{le="0.005",route="/query"}' in text
    assert "omnigraph_requests_in_flight 1.0" in text


def test_requests_are_spans_for_those_who_ask(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    names: list[str] = []
    ended = threading.Event()

    class Span:
        def update_name(self, name: str) -> None:
            names.append(name)

        def set_attributes(self, attributes: dict[str, Any]) -> None:
            seen.append(attributes)
            ended.set()

    class Tracer:
        @contextlib.contextmanager
        def start_as_current_span(self, _name: str, *, kind: object) -> Iterator[Span]:
            assert kind is trace.SpanKind.SERVER
            yield Span()

    monkeypatch.setattr(trace, "get_tracer", lambda _name: Tracer())
    api = serve(tracing=True)
    answer = api.get("/branches?limit=1")
    assert ended.wait(10)
    assert names == ["/branches"]
    assert seen == [
        {
            "http.request.method": "GET",
            "http.route": "/branches",
            "http.response.status_code": 200,
            "omnigraph.request_id": answer.headers["x-request-id"],
            "omnigraph.graph": "default",
        }
    ]


def test_small_answers_are_sent_at_once() -> None:
    """Else each waits 40 ms for the client's acknowledgement of the part before."""
    with contextlib.closing(listen("127.0.0.1", 0)) as place:
        # What asyncio looks at before it turns waiting off.
        assert place.proto == socket.IPPROTO_TCP


def test_many_writers_of_one_actor_wait_instead_of_being_refused(serve: Serve) -> None:
    api = serve(tokens=TOKENS, policy=POLICY)
    api.ok(api.post("/branches", {"name": "work"}, LENA))

    def write(number: int) -> int:
        body = {"query": ADD, "params": {"n": f"w{number}"}, "branch": "work"}
        return api.post("/mutate", body, LENA).status_code

    with ThreadPoolExecutor(48) as pool:
        assert set(pool.map(write, range(96))) == {200}
    found = api.ok(api.post("/query", {"query": ALL, "branch": "work"}, LENA))
    assert len([row for row in found["rows"] if row["p.name"].startswith("w")]) == 96


def test_a_write_whose_client_hangs_up_while_it_waits_is_not_begun(serve: Serve) -> None:
    api = serve(actor_writes_max=1, actor_queue_max=1, actor_wait_seconds=4)
    pause = Pause()

    def body(name: str) -> dict[str, Any]:
        return {"query": ADD, "params": {"n": name}}

    with armed(Failpoint.WRITE_POST_CAPTURE, pause):
        first = threading.Thread(target=lambda: api.post("/mutate", body("first")))
        first.start()
        assert pause.reached.wait(10)
        url = httpx.URL(api.url)
        text = json.dumps(body("left")).encode()
        head = f"POST {url.path.rstrip('/')}/mutate HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        begun = time.monotonic()
        with socket.create_connection((str(url.host), url.port or 80), timeout=10) as client:
            client.sendall(head.encode() + text)
            time.sleep(0.5)
            while "are waiting" not in api.post("/mutate", body("probe")).text:
                assert time.monotonic() - begun < 20
        time.sleep(0.5)
        # Its place in the queue is free long before it would have waited for too long.
        third = threading.Thread(target=lambda: api.post("/mutate", body("third")))
        third.start()
        time.sleep(1)
        pause.released.set()
        first.join(10)
        third.join(10)
    names = {row["p.name"] for row in api.ok(api.post("/query", {"query": ALL}))["rows"]}
    assert {"first", "third"} <= names
    assert "left" not in names
