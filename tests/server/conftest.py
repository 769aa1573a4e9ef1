"""Real servers on free ports of this machine, each with a graph of its own."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.policy import policy_from_text
from omnigraph.server import Settings, Token, Tokens, open_service, running
from omnigraph.server.logs import LOGGER
from tests.server.helpers import POLICY, SCHEMA, TOKENS, Api, Serve

SCRATCH = {"OMNIGRAPH_DURABILITY": "none"}


@pytest.fixture(autouse=True)
def plain_logs() -> Iterator[None]:
    """Takes back what a test that runs `serve` in this process did to the log."""
    loggers = [logging.getLogger(name) for name in (LOGGER, "uvicorn.error")]
    before = [(log, log.handlers, log.propagate, log.level) for log in loggers]
    yield
    for log, handlers, propagate, level in before:
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts servers; all of them stop when the module ends."""
    numbers = itertools.count()
    stack: list[Any] = []

    def start(
        schema: str = SCHEMA,
        *,
        tokens: Mapping[str, str] | None = None,
        policy: str | None = None,
        queries: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> Api:
        folder = tmp_path_factory.mktemp(f"server{next(numbers)}")
        og.init(folder / "g", schema, durability="none").close()
        if queries is not None:
            settings["queries"] = str(_write(folder / "queries", queries))
        service = open_service(
            Settings(store=str(folder / "g"), unauthenticated=tokens is None, **settings),
            Tokens(Token.of(actor, secret) for actor, secret in (tokens or {}).items()),
            SCRATCH,
            policy=None if policy is None else policy_from_text(policy),
        )
        context = running(service)
        api = Api(context.__enter__(), folder / "g", service)
        stack.append((context, service, api))
        return api

    yield start

    def end(started: tuple[Any, Any, Api]) -> None:
        context, service, api = started
        api.close()
        context.__exit__(None, None, None)
        service.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(end, stack))


def _write(folder: Path, texts: Mapping[str, str]) -> Path:
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def api(serve: Serve) -> Api:
    """A server anybody may use, with a graph nobody else has touched."""
    return serve()


@pytest.fixture(scope="module")
def guarded(serve: Serve) -> Api:
    """A server with tokens and a policy."""
    return serve(tokens=TOKENS, policy=POLICY)
