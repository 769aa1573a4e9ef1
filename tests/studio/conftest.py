"""A real browser before a real server on a real graph."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from omnigraph.policy import policy_from_text
from omnigraph.server import Settings, Token, Tokens, open_service, running
from tests.studio.worlds import build

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

CHROMIUM = os.environ.get("OMNIGRAPH_CHROMIUM") or shutil.which("chromium")
SCRATCH = {"OMNIGRAPH_DURABILITY": "none"}
TOKENS = {"lena": "lena-0a6f1be2d9", "guest": "guest-5d0e6b13c8"}
POLICY = """\
version: 1
groups:
  curators: [lena]
rules:
  - id: curators-all
    allow:
      actors: {group: curators}
      actions: [read, export, change, schema_apply, branch_create, branch_delete, branch_merge]
"""
WAIT_MS = 20_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yields one Chromium for the tests of a file.

    Not for all files: its driver keeps an event loop running, and others could start none.
    """
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: no browser is driven"
    )
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (on Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM)
        yield found
        found.close()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a graph that is copied for those who change it."""
    path = tmp_path_factory.mktemp("world") / "g"
    build(path)
    return path


@pytest.fixture(scope="session")
def open_url(world: Path) -> Iterator[str]:
    """Yields the address of a server that needs no tokens; its graph is only looked at."""
    with serving(world) as url:
        yield url


@pytest.fixture
def copied(world: Path, tmp_path: Path) -> Path:
    """Return a graph of one's own."""
    shutil.copytree(world, tmp_path / "g")
    return tmp_path / "g"


@pytest.fixture
def own_url(copied: Path) -> Iterator[str]:
    """Yields the address of a server whose graph may be changed; name it before `desk`."""
    with serving(copied) as url:
        yield url


@pytest.fixture
def guarded_url(world: Path) -> Iterator[str]:
    """Yields the address of a server with tokens and a policy; name it before `desk`."""
    with serving(world, guarded=True) as url:
        yield url


@contextlib.contextmanager
def serving(
    path: Path, *, guarded: bool = False, port: int = 0, queries: Path | None = None
) -> Iterator[str]:
    """Serve a graph, to everybody or to those with a token and a policy."""
    tokens = TOKENS if guarded else {}
    service = open_service(
        Settings(
            store=str(path),
            unauthenticated=not guarded,
            queries=None if queries is None else str(queries),
        ),
        Tokens(Token.of(actor, secret) for actor, secret in tokens.items()),
        SCRATCH,
        policy=policy_from_text(POLICY) if guarded else None,
    )
    try:
        with running(service, port) as url:
            yield url
    finally:
        service.close()


@dataclass
class Desk:
    """One page of a browser, and all that went wrong in it."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)
    allowed: tuple[str, ...] = ()

    def watch(self) -> None:
        """Note errors, and requests to any other server."""
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.problems.append(f"page: {error}"))
        self.page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning") and not self._is_expected(message.text):
            self.problems.append(f"console: {message.text}")

    def _is_expected(self, text: str) -> bool:
        return any(part in text for part in self.allowed)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url, "blob:", "data:")):
            self.problems.append(f"request: {request.url}")

    def go(self, view: str, **params: str) -> None:
        """Open a view by its address."""
        query = "&".join(f"{name}={value}" for name, value in params.items())
        self.page.goto(f"{self.url}/studio/g/default/{view}?{query}")
        self.page.wait_for_selector("main h1")

    def text(self) -> str:
        """Return what is to be read."""
        return str(self.page.inner_text("body"))


MakeDesk = Callable[..., Desk]


@pytest.fixture
def desk(browser: Browser) -> Iterator[MakeDesk]:
    """Opens pages; a test fails if anything went wrong in one of them."""
    contexts, desks = [], []

    def make(url: str, *allowed: str, width: int = 1280, **options: Any) -> Desk:
        context = browser.new_context(viewport={"width": width, "height": 860}, **options)
        contexts.append(context)
        found = Desk(context.new_page(), url, allowed=allowed)
        found.watch()
        desks.append(found)
        return found

    yield make
    for context in contexts:
        context.close()
    problems = [problem for found in desks for problem in found.problems]
    assert not problems, problems
