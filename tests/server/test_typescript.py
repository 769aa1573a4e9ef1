"""What the public TypeScript clients send, with their exact headers, and what they insist on.

A port by hand: their requests are written down as data, their checks of answers as assertions.
Versions 0.6 to 0.8 have a graph in the path, 0.10 and 0.11 more routes, and 0.12 asks for the
health of the server before each request and believes only answers that name its interface.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.server.helpers import ADD, ALL, LINES, SCHEMA, TOKENS, Api, Serve

ACTOR = "act-lena"
POLICY = """\
version: 1
groups: {all: [act-lena]}
rules:
  - id: all
    allow:
      actors: {group: all}
      actions: [read, export, change, schema_apply, branch_create, branch_delete, branch_merge,
                invoke_query]
"""
# What fetch of Node adds to each request.
NODE = {
    "accept-language": "*",
    "sec-fetch-mode": "cors",
    "user-agent": "node",
    "accept-encoding": "gzip, deflate",
}
JSON_OR_LINES = "application/json, application/x-ndjson"
INTERFACE = "Omnigraph-Http-Api"
PUBLIC = {"/healthz", "/readyz", "/.well-known/oauth-protected-resource"}
ROOT = {*PUBLIC, "/graphs"}


class Client:
    """Sends what one version of the client sends."""

    def __init__(self, url: str, *, interface: str | None = None) -> None:
        # Without the headers httpx would add; redirects are not followed.
        self._http = httpx.Client(base_url=url, headers={}, timeout=30)
        self._interface = interface

    def close(self) -> None:
        self._http.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        raw: tuple[str, str] | None = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Send one request, after one for the health if this version does that."""
        if self._interface is not None and path not in PUBLIC:
            self.send("HEAD", "/healthz").raise_for_status()
        sent = {**NODE, "accept": JSON_OR_LINES, **(headers or {})}
        if self._interface is None or path not in PUBLIC:
            sent["authorization"] = f"Bearer {TOKENS[ACTOR]}"
        if self._interface is not None:
            sent[INTERFACE.lower()] = self._interface
        content = None
        if raw is not None:
            content, sent["content-type"] = raw[0].encode(), raw[1]
        elif body is not None:
            content, sent["content-type"] = json.dumps(body).encode(), "application/json"
        place = path if path in ROOT else f"/graphs/default{path}"
        found = self._http.request(method, place, params=query, content=content, headers=sent)
        if self._interface is not None and "well-known" not in path:
            assert found.headers.get_list(INTERFACE) == [self._interface]
        return found

    def json(self, method: str, path: str, **options: Any) -> Any:
        """Send a request whose answer has to be JSON, whatever the client would accept."""
        found = self.send(method, path, **options)
        assert found.is_success, found.text
        assert found.headers["content-type"].startswith("application/json"), found.headers
        assert found.headers.get("content-length") != "0"
        return found.json()

    def lines(self, method: str, path: str, **options: Any) -> list[Any]:
        """Send a request whose answer is read line by line."""
        found = self.send(method, path, **options)
        assert found.is_success, found.text
        return [json.loads(line) for line in found.text.splitlines()]


@pytest.fixture
def server(serve: Serve) -> Api:
    stored = {"a.gq": ALL, "b.gq": ADD}
    return serve(tokens=TOKENS, policy=POLICY, queries=stored)


@pytest.fixture(params=[None, "0.12"], ids=["0.11", "0.12"])
def client(request: pytest.FixtureRequest, server: Api) -> Any:
    found = Client(server.url, interface=request.param)
    yield found
    found.close()


def read_and_write(client: Client) -> str:
    """Do what every version does; return the last commit."""
    assert client.json("GET", "/healthz")["status"] == "ok"
    assert "node Person" in client.json("GET", "/schema")["schema_source"]
    loaded = client.json("POST", "/load", body={"data": LINES, "mode": "merge", "branch": "main"})
    assert loaded["branch"] == "main"
    body = {"query": ADD, "params": {"n": "eve", "a": 5}}
    changed = client.json("POST", "/mutate", body=body)
    assert (changed["affected_nodes"], changed["affected_edges"]) == (1, 0)
    assert changed["actor_id"] == ACTOR
    read = client.json("POST", "/query", body={"query": ALL})
    assert read["rows"][0] == {"p.name": "ann", "p.age": 31}
    assert read["columns"] == ["p.name", "p.age"]
    assert read["row_count"] == len(read["rows"]) == 3
    old = client.json("POST", "/read", body={"query_source": ALL, "query_name": "all"})
    assert old["rows"] == read["rows"]
    body = {"query_source": ADD, "query_name": "add", "params": {"n": "fay"}}
    assert client.json("POST", "/change", body=body)["affected_nodes"] == 1
    snapshot = client.json("GET", "/snapshot", query={"branch": "main"})
    assert snapshot["manifest_version"] > 0
    assert {item["table_key"] for item in snapshot["tables"]} >= {"node:Person"}
    exported = client.lines("POST", "/export", body={"branch": "main"})
    assert [row["data"]["name"] for row in exported if row.get("type") == "Person"] == [
        *("ann", "bob", "eve", "fay")
    ]
    commits = client.json("GET", "/commits", query={"branch": "main"})["commits"]
    newest: str = commits[0]["graph_commit_id"]
    assert client.json("GET", f"/commits/{quote(newest)}")["graph_commit_id"] == newest
    same = {"schema_source": SCHEMA}
    assert client.json("POST", "/schema/apply", body=same)["supported"] is True
    return newest


def merged(client: Client, answer: Any, *, source: str, target: str, deletes: bool) -> None:
    """Check a receipt of a merge as the client does before it believes it."""
    assert (answer["source"], answer["target"]) == (source, target)
    assert answer["outcome"] in ("fast_forward", "merged")
    commit = answer["commit"]
    assert commit["graph_commit_id"]
    assert commit["graph_manifest_version"] > 0
    assert (commit["graph_branch"] or "main") == target
    assert commit["parent_commit_id"]
    assert commit["merged_parent_commit_id"]
    assert commit["actor_id"] == answer["actor_id"] == ACTOR
    assert answer.get("branch_deleted") is (True if deletes else None)
    assert answer.get("branch_delete_error_details") is None


def test_versions_06_to_08(server: Api) -> None:
    client = Client(server.url)
    read_and_write(client)
    assert client.send("GET", "/graphs").status_code == 405
    made = client.json("POST", "/branches", body={"name": "work", "from": "main"})
    assert made["name"] == "work"
    assert client.json("GET", "/branches") == {"branches": ["main", "work"]}
    body = {"data": '{"type":"Paper","data":{"title":"t"}}\n', "branch": "work", "mode": "merge"}
    assert client.json("POST", "/ingest", body=body)["branch"] == "work"
    merge = client.json("POST", "/branches/merge", body={"source": "work"})
    merged(client, merge, source="work", target="main", deletes=False)
    assert client.json("DELETE", "/branches/work")["name"] == "work"
    queries = client.json("GET", "/queries")["queries"]
    assert {item["name"]: item["mutation"] for item in queries} == {"add": True, "all": False}
    assert client.json("POST", "/queries/all", body={})["row_count"] == 4
    wrong = client.send("POST", "/queries/all", body={"expect_mutation": True})
    assert wrong.status_code == 400
    client.close()


def test_versions_from_010_on(client: Client) -> None:
    newest = read_and_write(client)
    ready = client.send("GET", "/readyz")
    assert ready.status_code in (200, 503)
    assert client.send("GET", "/.well-known/oauth-protected-resource").status_code == 200
    lines = ('{"type":"Paper","data":{"title":"t"}}\n', "application/x-ndjson")
    query = {"branch": "main", "mode": "append"}
    loaded = client.json("POST", "/load/ndjson", raw=lines, query=query)
    head = loaded["commit"]["graph_commit_id"]
    body = {"query": ADD, "params": {"n": "gus"}}
    late = {"Omnigraph-If-Graph-Commit": newest}
    refused = client.send("POST", "/mutate/if-graph-commit", body=body, headers=late)
    assert refused.status_code == 412
    assert refused.json()["precondition_failure"] == {"expected": newest, "actual": head}
    assert refused.headers["x-request-id"]
    now = {"Omnigraph-If-Graph-Commit": head}
    done = client.json("POST", "/mutate/if-graph-commit", body=body, headers=now)
    now = {"Omnigraph-If-Graph-Commit": done["commit"]["graph_commit_id"]}
    body = {"params": {"n": "hal"}}
    done = client.json("POST", "/queries/add/if-graph-commit", body=body, headers=now)
    head = done["commit"]["graph_commit_id"]
    changes = client.json("GET", f"/commits/{head}/changes", query={"limit": "10"})
    assert [item["id"] for item in changes["changes"]] == ["hal"]
    assert client.json("POST", "/query", body={"query": ALL})["graph_commit_id"] == head


def test_merges_from_010_on(client: Client) -> None:
    client.json("POST", "/load", body={"data": LINES, "mode": "merge"})
    client.json("POST", "/branches", body={"name": "work", "from": "main"})
    nothing = client.json("POST", "/branches/merge", body={"source": "work"})
    assert (nothing["outcome"], nothing["commit"]) == ("already_up_to_date", None)
    body = {"query": ADD, "params": {"n": "ivy"}, "branch": "work"}
    client.json("POST", "/mutate", body=body)
    client.json("POST", "/mutate", body={"query": ADD, "params": {"n": "jon"}})
    merging = {"source": "work", "target": "main", "delete_branch": True}
    answer = client.json("POST", "/branches/merge", body=merging)
    merged(client, answer, source="work", target="main", deletes=True)


def test_the_feed_and_blobs_from_010_on(client: Client) -> None:
    line = '{"type":"Person","data":{"name":"ann","face":"base64:aGVsbG8="}}\n'
    client.json("POST", "/load", body={"data": line, "mode": "merge"})
    only: dict[str, Any] = {"kind": ["node"], "op": ["insert"]}
    baseline = client.lines("POST", "/changes/baseline", body={"branch": "main", **only})
    assert [row.get("type") for row in baseline[:-1]] == ["Person"]
    last = baseline[-1]["baseline"]
    assert isinstance(last["snapshot_commit_id"], str)
    client.json("POST", "/mutate", body={"query": ADD, "params": {"n": "kim"}})
    query = {"cursor": last["resume_cursor"], **only}
    page = client.json("GET", "/changes", query=query)
    assert [item["id"] for block in page["blocks"] for item in block["changes"]] == ["kim"]
    face = {"entity": "node", "type": "Person", "id": "ann", "property": "face"}
    octets = {"accept": "application/octet-stream"}
    whole = client.send("GET", "/blob", query=face, headers=octets)
    assert (whole.status_code, whole.content) == (200, b"hello")
    etag = {"if-none-match": whole.headers["etag"]}
    assert client.send("GET", "/blob", query=face, headers=octets | etag).status_code == 304
    part = client.send("GET", "/blob", query=face, headers=octets | {"range": "bytes=1-2"})
    assert (part.status_code, part.content) == (206, b"el")
    past = client.send("GET", "/blob", query=face, headers=octets | {"range": "bytes=9-"})
    assert past.status_code == 416
    head = client.send("HEAD", "/blob", query=face, headers=octets)
    assert (head.status_code, head.headers["content-length"]) == (200, "5")


def test_failures_are_read_as_the_client_reads_them(client: Client) -> None:
    client.json("POST", "/branches", body={"name": "work"})
    for method, path, body, status in (
        ("POST", "/query", {"query": "no"}, 400),
        ("GET", "/commits/none", None, 404),
        ("POST", "/branches", {"name": "work"}, 409),
        ("GET", "/runs", None, 404),
    ):
        found = client.send(method, path, body=body)
        assert found.status_code == status, found.text
        assert isinstance(found.json()["error"], str)
        assert found.headers["x-request-id"]


def test_an_answer_names_the_interface_to_those_who_do(server: Api) -> None:
    quiet = server.get("/healthz")
    assert INTERFACE not in quiet.headers
    for asked in ("0.12", "0.99"):
        found = server.get("/healthz", headers={INTERFACE: asked})
        assert found.headers[INTERFACE] == "0.12"
    refused = httpx.get(f"{server.url}/schema", headers={INTERFACE: "0.12"})
    assert (refused.status_code, refused.headers[INTERFACE]) == (401, "0.12")
