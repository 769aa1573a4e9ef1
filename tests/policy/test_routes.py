"""The server asks for the rights that the table of routes names, and reveals nothing without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from omnigraph.server import create_api, openapi_document
from tests.arch.project import ROOT
from tests.policy.routes import (
    FREE,
    HIDDEN,
    NAME,
    OF_CLUSTERS,
    OTHER,
    ROUTES,
    Question,
    Route,
    World,
    page,
)


@pytest.fixture(scope="module")
def denied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Where nothing is ever changed."""
    world = World(tmp_path_factory.mktemp("denied"))
    yield world
    world.close()


@pytest.fixture(scope="module")
def allowed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("allowed"))
    yield world
    world.close()


def ask(world: World, name: str, branch: str, may: set[Question]) -> tuple[httpx.Response, str]:
    """Send a request of somebody with some rights; return the answer, and what was sent."""
    route = ROUTES[name]
    wild = {action for action, where in may if where == "*"}
    world.policy.allows = lambda question: question in may or question[0] in wild
    path, body = route.send(world, branch)
    sent: dict[str, Any] = {"content": body} if isinstance(body, str | bytes) else {"json": body}
    if isinstance(body, str | bytes):
        kind = "x-ndjson" if isinstance(body, str) else "vnd.apache.parquet"
        sent["headers"] = {"Content-Type": f"application/{kind}"}
    if body is None:
        sent = {}
    sent["headers"] = {**sent.get("headers", {}), **route.headers(world, branch)}
    method = name.partition(" ")[0]
    try:
        found = world.http.request(method, path, **sent)
    finally:
        world.policy.allows = lambda _question: False
    return found, f"{path} {body!r} {sent['headers']}"


def leaked(world: World, found: httpx.Response, sent: str) -> set[str]:
    """Return what an answer tells of the hidden branch that was not in the question."""
    text = f"{found.text} {dict(found.headers)}"
    return {item for item in world.canaries if item in text and item not in sent}


def test_every_route_is_in_the_table() -> None:
    document = openapi_document(create_api())
    found = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
        if not path.startswith("/graphs/")
    }
    assert set(ROUTES) | set(FREE) | set(OF_CLUSTERS) == found
    # Those that name a graph are the same.
    under = {
        f"{method.upper()} {path.removeprefix('/graphs/{graph_id}')}"
        for path, methods in document["paths"].items()
        for method in methods
        if path.startswith("/graphs/")
    }
    assert under == set(ROUTES) - {"GET /metrics"} | {"GET /access"}


@pytest.mark.parametrize("name", ROUTES)
def test_without_rights_nothing_is_revealed(denied: World, name: str) -> None:
    for branch in (HIDDEN, "main"):
        found, sent = ask(denied, name, branch, set())
        assert found.status_code in (403, 404), found.text
        assert not leaked(denied, found, sent)


@pytest.mark.parametrize("name", ROUTES)
def test_rights_on_another_branch_reveal_nothing_of_this_one(denied: World, name: str) -> None:
    may: set[Question] = {(action, OTHER) for action in ("read", "export", "change")}
    may |= {("invoke_query", None)}
    found, sent = ask(denied, name, HIDDEN, may)
    assert not leaked(denied, found, sent)
    if not ROUTES[name].lists:
        assert found.status_code in (403, 404), found.text


def _each_missing() -> Iterator[tuple[str, int]]:
    for name, route in ROUTES.items():
        for number in range(len(route.needs(HIDDEN))):
            yield name, number


@pytest.mark.parametrize(("name", "number"), [*_each_missing()])
def test_each_right_is_needed(denied: World, name: str, number: int) -> None:
    needs = ROUTES[name].needs(HIDDEN)
    found, sent = ask(denied, name, HIDDEN, {*needs} - {needs[number]})
    assert found.status_code in (403, 404), found.text
    assert not leaked(denied, found, sent)


# What takes away something the others ask about comes last.
LAST = ("DELETE /tags/{name}", "DELETE /branches/{branch}")


@pytest.mark.parametrize("name", [*(name for name in ROUTES if name not in LAST), *LAST])
def test_the_rights_of_the_table_are_enough(allowed: World, name: str) -> None:
    route: Route = ROUTES[name]
    branch = OTHER if name in ("DELETE /branches/{branch}",) else HIDDEN
    found, _sent = ask(allowed, name, branch, {*route.needs(branch)})
    assert found.status_code in route.answers, found.text
    assert NAME not in found.text


def test_the_page_about_policies_shows_the_table() -> None:
    text = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    assert page() in text, "copy the output of `python -m tests.policy.routes`"
