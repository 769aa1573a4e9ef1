"""HTTP to the letter: forms, ranges, conditions, framing, names, and how connections end."""

from __future__ import annotations

import base64
import socket
import time
from typing import Any

import httpx
import pytest

import omnigraph as og
from tests.server.helpers import ADD, ALL, LINES, SCHEMA, TOKENS, Api, Serve, error
from tests.server.test_hardening import raw

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
BLOB = b"0123456789"
FACE = f"base64:{base64.b64encode(BLOB).decode()}"


@pytest.fixture(scope="module")
def full(serve: Serve) -> Api:
    api = serve()
    api.load()
    return api


# ---- forms --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, JSON),
        ("*/*", JSON),
        ("application/json, application/x-ndjson", JSON),
        ("application/x-ndjson, application/json", NDJSON),
        ("application/x-ndjson;q=0.5, application/json", JSON),
        ("application/json;q=0.2, application/x-ndjson;q=0.9", NDJSON),
        ("application/json;q=0, */*", NDJSON + "|" + ARROW),
        (f"{ARROW}, */*;q=0.1", ARROW),
        ("application/*;q=0.3, application/x-ndjson;q=0.8", NDJSON),
        ("APPLICATION/X-NDJSON", NDJSON),
        ("nonsense, application/x-ndjson;q=high", JSON),
    ],
)
def test_the_form_a_caller_likes_best_is_sent(full: Api, accept: str | None, form: str) -> None:
    headers = {} if accept is None else {"Accept": accept}
    found = full.post("/query", {"query": ALL}, headers=headers)
    assert found.status_code == 200, found.text
    assert found.headers["content-type"] in form.split("|")


def test_no_form_that_will_do_is_an_error(full: Api) -> None:
    found = full.post("/query", {"query": ALL}, headers={"Accept": "text/html"})
    assert JSON in error(found, 406, "bad_request")["error"]


def test_an_export_is_lines_for_those_who_ask_for_json(full: Api) -> None:
    found = full.post("/export", {}, headers={"Accept": "application/json"})
    assert found.status_code == 200
    assert found.headers["content-type"].startswith(NDJSON)


# ---- health -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/graphs/default/healthz"])
def test_health_can_be_asked_for_without_a_body(serve: Serve, path: str) -> None:
    api = serve(tokens=TOKENS)
    head = api.send("HEAD", path)
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == api.get(path).headers["content-length"]


def test_health_says_nothing_of_a_graph(serve: Serve) -> None:
    api = serve(tokens=TOKENS)
    assert api.get("/graphs/default/healthz").json() == api.get("/graphs/other/healthz").json()


def test_health_is_answered_by_a_server_that_is_full(serve: Serve) -> None:
    api = serve(requests_max=1)
    assert api.service.enter()
    try:
        error(api.get("/branches"), 503, None)
        assert api.get("/healthz").status_code == 200
        assert api.get("/readyz").status_code == 200
    finally:
        api.service.leave()


# ---- conditions ---------------------------------------------------------------------------


def heads(api: Api, branch: str = "main") -> str:
    return str(
        api.ok(api.get("/commits", params={"branch": branch}))["commits"][0]["graph_commit_id"]
    )


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/mutate", {"query": ADD, "params": {"n": "new"}}),
        ("POST", "/change", {"query": ADD, "params": {"n": "new"}}),
        ("POST", "/load", {"data": LINES, "mode": "merge"}),
        ("POST", "/branches", {"name": "new"}),
        ("POST", "/branches/merge", {"source": "work"}),
        ("POST", "/commits/{head}/revert", {}),
        ("POST", "/commits/{head}/pick", {}),
        ("DELETE", "/branches/work", None),
        ("POST", "/tags", {"name": "new"}),
        ("DELETE", "/tags/old", None),
        ("POST", "/schema/apply", {"schema_source": SCHEMA + "node Extra { k: String @key }\n"}),
    ],
)
def test_every_write_takes_a_condition(serve: Serve, method: str, path: str, body: Any) -> None:
    api = serve()
    api.load()
    old = heads(api)
    api.add("second")
    if "schema" not in path:
        api.ok(api.post("/branches", {"name": "work"}))
        api.add("on work", branch="work")
    api.ok(api.post("/tags", {"name": "old"}))
    head = heads(api, "work") if method == "DELETE" and "branches" in path else heads(api)
    options = {} if body is None else {"json": body}
    path = path.format(head=heads(api))
    before = api.ok(api.get("/branches"))["branches"], heads(api), api.get("/tags").text
    refused = api.send(method, path, headers={"Omnigraph-If-Graph-Commit": old}, **options)
    found = error(refused, 412, None)
    assert found["precondition_failure"] == {"expected": old, "actual": head}
    after = api.ok(api.get("/branches"))["branches"], heads(api), api.get("/tags").text
    assert after == before
    api.ok(api.send(method, path, headers={"Omnigraph-If-Graph-Commit": head}, **options))


def test_a_client_can_name_the_head_it_expects(api: Api) -> None:
    api.add("ann")
    with og.connect(api.url) as graph:
        old = graph.commits.head().graph_commit_id
        graph.mutate(ADD, {"n": "bob"})
        head = graph.commits.head().graph_commit_id
        for work in (
            lambda at: graph.branches.create("work", expected_head=at),
            lambda at: graph.tags.create("v1", expected_head=at),
            lambda at: graph.tags.delete("v1", expected_head=at),
            lambda at: graph.branches.delete("work", expected_head=at),
            lambda at: graph.branches.revert(head, expected_head=at),
        ):
            with pytest.raises(og.PreconditionFailedError):
                work(old)
            work(head)


# ---- ranges -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def faces(serve: Serve) -> Api:
    api = serve()
    lines = "".join(
        f'{{"type":"Person","data":{{"name":"{name}","face":"{face}"}}}}\n'
        for name, face in (("ann", FACE), ("nil", "base64:"))
    )
    api.load(lines)
    return api


def face(api: Api, name: str = "ann", method: str = "GET", **headers: str) -> httpx.Response:
    params = {"entity": "node", "type": "Person", "id": name, "property": "face"}
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    return api.send(method, "/blob", params=params, headers=sent)


@pytest.mark.parametrize(
    ("wanted", "status", "content", "place"),
    [
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=7-99", 206, b"789", "bytes 7-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-99", 206, BLOB, "bytes 0-9/10"),
        ("bytes=-0", 416, None, "bytes */10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=4-2", 200, BLOB, None),
        ("bytes=0-1,4-5", 200, BLOB, None),
        ("lines=0-1", 200, BLOB, None),
        ("bytes=-", 200, BLOB, None),
    ],
)
def test_parts_of_a_blob(
    faces: Api, wanted: str, status: int, content: bytes | None, place: str | None
) -> None:
    found = face(faces, Range=wanted)
    assert found.status_code == status, found.text
    assert found.headers.get("content-range") == place
    if content is None:
        assert error(found, 416, "bad_request")["blob_range"]["length"] == 10
    else:
        assert found.content == content


@pytest.mark.parametrize(("wanted", "status"), [("bytes=0-", 416), ("bytes=-5", 200)])
def test_parts_of_an_empty_blob(faces: Api, wanted: str, status: int) -> None:
    found = face(faces, "nil", Range=wanted)
    assert found.status_code == status
    assert found.headers.get("content-range") == ("bytes */0" if status == 416 else None)


def test_entity_tags_are_compared_as_the_condition_wants(faces: Api) -> None:
    etag = face(faces).headers["etag"]
    assert face(faces, If_None_Match=f'"x", W/{etag}').status_code == 304
    assert face(faces, If_None_Match="*").status_code == 304
    assert face(faces, If_Match=f'"x", {etag}').status_code == 200
    assert face(faces, If_Match="*").status_code == 200
    assert face(faces, If_Match=f"W/{etag}").status_code == 412
    assert face(faces, Range="bytes=0-1", If_Range=etag).status_code == 206
    assert face(faces, Range="bytes=0-1", If_Range=f"W/{etag}").status_code == 200
    assert (
        face(faces, Range="bytes=0-1", If_Range="Wed, 21 Oct 2015 07:28:00 GMT").status_code == 200
    )
    assert face(faces, method="HEAD", Range="bytes=0-1").status_code == 200


def test_a_blob_is_found_by_every_form_of_a_snapshot(faces: Api) -> None:
    snapshot = faces.ok(faces.get("/snapshot"))
    params = {"entity": "node", "type": "Person", "id": "ann", "property": "face"}
    for form in (snapshot["graph_commit_id"], f"manifest:main:v{snapshot['manifest_version']}"):
        found = faces.get("/blob", params=params | {"snapshot": form})
        assert found.content == BLOB
        assert found.headers["omnigraph-snapshot-id"] == snapshot["graph_commit_id"]


# ---- framing ------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, gzip"])
def test_an_encoding_that_is_not_taken_is_named(full: Api, encoding: str) -> None:
    headers = {"Content-Encoding": encoding, "Content-Type": JSON}
    found = full.send("POST", "/query", headers=headers, content=b"\x1f\x8b")
    assert encoding in error(found, 415, "bad_request")["error"]
    assert found.headers["accept-encoding"] == "identity"


def test_a_body_as_it_is_may_say_so(full: Api) -> None:
    full.ok(full.post("/query", {"query": ALL}, headers={"Content-Encoding": "identity"}))


def test_a_doubtful_end_of_a_body_ends_the_connection(full: Api) -> None:
    found = raw(
        full,
        b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n",
    )
    assert found.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in found.lower()
    assert found.count(b"HTTP/1.1") == 1


def send_for(place: socket.socket, seconds: float) -> None:
    """Go on sending; how fast it is read says nothing."""
    part, until = b"x" * 1_000_000, time.monotonic() + seconds
    while time.monotonic() < until:
        place.sendall(part)


@pytest.mark.parametrize("token", [None, "act-lena"])
def test_a_body_nobody_reads_is_cut_off(serve: Serve, token: str | None) -> None:
    api = serve(tokens=TOKENS, request_bytes_max=1000)
    said = "" if token is None else f"Authorization: Bearer {TOKENS[token]}\r\n"
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as place:
        place.sendall(
            f"POST /query HTTP/1.1\r\nHost: localhost\r\n{said}"
            "Content-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n".encode()
        )
        place.sendall(b"x" * 100_000)
        found = b""
        while part := place.recv(65_536):
            found += part
        status = b"401" if token is None else b"413"
        assert found.startswith(b"HTTP/1.1 " + status)
        assert b"connection: close" in found.lower()
        # A client that goes on sending is hung up on.
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            send_for(place, 60)


def test_a_request_that_is_refused_with_its_body_read_leaves_the_connection(full: Api) -> None:
    found = full.post("/query", {"query": "nonsense"})
    assert "connection" not in found.headers


# ---- what is not known --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/query", {"query": ALL, "brannch_": "work"}),
        ("POST", "/mutate", {"query": ADD, "dryrun": True}),
        ("POST", "/load", {"data": LINES, "modus": "append"}),
        ("POST", "/branches", {"name": "x", "form": "main"}),
        ("POST", "/branches/merge", {"source": "x", "into": "main"}),
        ("GET", "/commits?brannch_=work", None),
        ("GET", "/schema?version=1", None),
        ("DELETE", "/tags/none", {"force": True}),
    ],
)
def test_what_is_not_known_is_refused(full: Api, method: str, path: str, body: Any) -> None:
    options = {} if body is None else {"json": body}
    error(full.send(method, path, **options), 400, "bad_request")


def test_no_body_may_be_said_in_other_words(full: Api) -> None:
    for content in (b"", b"{}", b"null"):
        found = full.send("DELETE", "/tags/none", content=content, headers={"Content-Type": JSON})
        error(found, 404, "not_found")


# ---- names and pages ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8080", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8080", 200),
        ("graph.localhost", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:8080", 421),
    ],
)
def test_a_server_that_trusts_everybody_answers_to_loopback_names(
    full: Api, host: str, status: int
) -> None:
    for path in ("/branches", "/healthz"):
        assert full.get(path, headers={"Host": host}).status_code == status


def test_a_server_answers_to_the_names_it_is_told(serve: Serve) -> None:
    api = serve(tokens=TOKENS, hosts="graphs.example, localhost")
    assert api.get("/healthz", headers={"Host": "graphs.example:443"}).status_code == 200
    assert api.get("/healthz", headers={"Host": "LOCALHOST"}).status_code == 200
    error(api.get("/healthz", headers={"Host": "127.0.0.1"}), 421, "bad_request")
    told_nothing = serve(tokens=TOKENS)
    assert told_nothing.get("/healthz", headers={"Host": "any.example"}).status_code == 200


def test_pages_of_others_see_nothing_unless_they_are_named(serve: Serve) -> None:
    asks = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    plain = serve()
    assert not [h for h in plain.get("/healthz", headers=asks).headers if "access-control" in h]
    assert plain.send("OPTIONS", "/query", headers=asks).status_code == 405

    api = serve(cors_origins="https://app.example", tokens=TOKENS)
    early = api.send("OPTIONS", "/query", headers=asks)
    assert early.status_code == 204
    assert early.headers["access-control-allow-origin"] == "https://app.example"
    assert "Idempotency-Key" in early.headers["access-control-allow-headers"]
    assert "POST" in early.headers["access-control-allow-methods"]
    refused = api.post("/query", {"query": ALL}, headers={"Origin": "https://app.example"})
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "https://app.example"
    other = api.get("/healthz", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers
    assert other.headers["vary"] == "Origin"
