"""What the server tests share: a schema, tokens, a policy, and a client that only speaks HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import httpx

from omnigraph.server import Service

SCHEMA = """\
node Person {
    name: String @key
    age: I32?
    born: Date?
    seen: DateTime?
    score: F64?
    big: I64?
    tags: [String]?
    face: Blob?
}

node Paper {
    title: String @key
}

edge Knows: Person -> Person {
    since: Date?
    @unique(src, dst)
}

edge Wrote: Person -> Paper
"""

TOKENS = {
    "act-lena": "lena-0a6f1be2d9",
    "act-omar": "omar-77c1d2a0f4",
    "act-guest": "guest-5d0e6b13c8",
    "act-nobody": "nobody-91f3c7aa20",
}

POLICY = """\
version: 1
groups:
  curators: [act-lena]
  writers: [act-omar]
  readers: [act-guest]
protected_branches: [main, secret]
rules:
  - id: curators-all
    allow:
      actors: {group: curators}
      actions: [read, export, change, schema_apply, branch_create, branch_delete, branch_merge,
                invoke_query]
  - id: writers-read
    allow: {actors: {group: writers}, actions: [read, export, change], branch_scope: unprotected}
  - id: writers-branch
    allow:
      actors: {group: writers}
      actions: [branch_create, branch_delete]
      target_branch_scope: unprotected
  - id: readers-read
    allow: {actors: {group: readers}, actions: [read], branch_scope: unprotected}
"""

ALL = "query all() { match { $p: Person } return { $p.name, $p.age } order { $p.name asc } }"
ADD = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"
LINES = (
    '{"type":"Person","data":{"name":"ann","age":31}}\n'
    '{"type":"Person","data":{"name":"bob"}}\n'
    '{"edge":"Knows","from":"ann","to":"bob","data":{"since":"2020-01-02"}}\n'
)


class Api:
    """One running server and a plain HTTP client for it."""

    def __init__(self, url: str, store: Path, service: Service) -> None:
        self.url = url
        self.store = store
        self.service = service
        self.http = httpx.Client(base_url=url, timeout=30)

    def close(self) -> None:
        self.http.close()

    def get(self, path: str, actor: str | None = None, **options: Any) -> httpx.Response:
        return self.send("GET", path, actor, **options)

    def post(
        self, path: str, json: object = None, actor: str | None = None, **options: Any
    ) -> httpx.Response:
        return self.send("POST", path, actor, json=json, **options)

    def send(
        self,
        method: str,
        path: str,
        actor: str | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> httpx.Response:
        sent = dict(headers or {})
        if actor is not None:
            sent["Authorization"] = f"Bearer {TOKENS[actor]}"
        return self.http.request(method, path, headers=sent, **options)

    def ok(self, response: httpx.Response) -> Any:
        assert response.status_code == 200, response.text
        return response.json()

    def load(self, data: str = LINES, **options: Any) -> Any:
        return self.ok(self.post("/load", {"data": data, **options}))

    def add(self, name: str, branch: str | None = None, **options: Any) -> Any:
        body = {"query": ADD, "params": {"n": name}, "branch": branch}
        return self.ok(self.post("/mutate", body, **options))

    def names(self, branch: str = "main", **options: Any) -> list[str]:
        found = self.ok(self.post("/query", {"query": ALL, "branch": branch}, **options))
        return [row["p.name"] for row in found["rows"]]


class Serve(Protocol):
    """Starts a server with a new graph."""

    def __call__(
        self,
        schema: str = SCHEMA,
        *,
        tokens: Mapping[str, str] | None = None,
        policy: str | None = None,
        queries: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> Api: ...


def error(response: httpx.Response, status: int, code: str | None) -> Any:
    """Check that a response is a well-formed failure and return its body."""
    assert response.status_code == status, response.text
    body = response.json()
    assert isinstance(body["error"], str)
    assert body["error"]
    assert isinstance(body["type"], str)
    assert body.get("code") == code
    assert response.headers["x-request-id"]
    return body
