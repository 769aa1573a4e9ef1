"""What every request passes before any route: identity, graph, size and time.

The order is fixed: request id, places, bearer token, graph id, graph, body. Nothing of a body is
read for a client that is not known.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnigraph.errors import OmniGraphError, ResourceLimitError
from omnigraph.identity import Token
from omnigraph.ids import UlidSource
from omnigraph.policy import ServerState
from omnigraph.server.browsers import Names, Origins, is_loopback, listed
from omnigraph.server.connections import hung_up
from omnigraph.server.graph_ids import check_graph_id
from omnigraph.server.graphs import ServedGraph, ServedGraphs, unknown_graph
from omnigraph.server.handed_over import HANDED_OVER
from omnigraph.server.http_errors import HttpProblem, KnownFailure, failure
from omnigraph.server.logs import log
from omnigraph.server.peers import Answer, Ask
from omnigraph.server.responses import error_response
from omnigraph.server.routing import owners, write_of
from omnigraph.server.service import Service, Serving
from omnigraph.server.studio import front_door, is_page, page_response
from omnigraph.server.tracing import tracing
from omnigraph.values.headers import HTTP_API, HTTP_API_SPOKEN, IDEMPOTENCY_KEY

PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"

HEALTH = frozenset({"/healthz", "/readyz"})
PUBLIC = HEALTH | {"/openapi.json", PROTECTED_RESOURCE}
SERVER_WIDE = frozenset({"/graphs", "/metrics", "/whoami"})
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
LOADS = ("/load", "/ingest", "/load/ndjson", "/load/parquet", "/load/parquet/columns")
BUSY_RETRY_AFTER_S = 1
_KEY = IDEMPOTENCY_KEY.lower().encode()
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(slots=True)
class Passing:
    """One request on its way: what is known of it, for the routes and for the log."""

    request_id: str
    begun: float
    serving: Serving
    token: Token | None = None
    served: ServedGraph | None = None
    body_bytes: int = 0
    status: int = 0
    sent_bytes: int = 0
    started: bool = False
    is_read: bool = False
    """Whether all that was sent has been taken in."""
    body: bytes = b""
    """What was sent, until it is known where the request is worked on."""
    route: str | None = None
    worker: int | None = None
    """The worker it was handed to, and its route there."""


class Gate:
    """The outermost layer of the server."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._ids = UlidSource()
        self._trace = tracing(enabled=service.settings.tracing)
        settings = service.settings
        trusting = service.serving.state is ServerState.OPEN
        self._names = Names(
            listed(settings.hosts), only_loopback=trusting and is_loopback(settings.address()[0])
        )
        self._origins = Origins(listed(settings.cors_origins))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or pass on what is not a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._trace("request") as note:
            passing = await self._serve(scope, receive, send)
            note(_attributes(scope, passing))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> Passing:
        headers = Headers(scope=scope)
        asked = headers.get("x-request-id", "")
        request_id = asked if _REQUEST_ID.fullmatch(asked) else self._ids.next()
        passing = Passing(request_id, time.perf_counter(), self._service.serving)
        scope["state"] = {**scope.get("state", {}), "passing": passing, "service": self._service}
        handed_over = HANDED_OVER in scope
        # Those who only ask how the server is are answered however much it has to do, and what
        # was handed over has its place where it came from.
        free = handed_over or _is_health(scope["path"])
        entered = not free and self._service.enter()
        reply = _watched(send, passing, self._added(headers, passing))
        try:
            self._names.check(headers)
            if (early := self._origins.preflight(scope["method"], headers)) is not None:
                await early(scope, receive, reply)
                return passing
            if not entered and not free:
                raise _busy(self._service, "busy", "the server is working on too many requests")
            if (page := _page(scope, headers)) is not None:
                await page(scope, receive, reply)
                return passing
            handed = await self._admit(scope, headers, receive, passing)
            if not handed_over and (answer := await self._elsewhere(scope, receive, passing)):
                await answer(scope, receive, reply)
                return passing
            await self._app(scope, handed, reply)
        except Exception as error:
            await self._fail(error, scope, receive, reply, passing)
        finally:
            if entered:
                self._service.leave()
            if not handed_over:
                self._record(scope, passing)
        return passing

    async def _elsewhere(self, scope: Scope, receive: Receive, passing: Passing) -> Response | None:
        """Return the answer of the worker that a write belongs to; None if it is run here."""
        peers, served = self._service.peers, passing.served
        body, passing.body = passing.body, b""
        if peers is None or served is None:
            return None
        method, path, query = scope["method"], scope["path"], scope["query_string"]
        write = write_of(method, path, query, body, served.queries)
        if write is None:
            return None
        order = owners(served.graph_id, write.branch, peers.workers)
        if order[0] == peers.worker:
            return None

        headers = [item for item in scope["headers"] if item[0] != b"x-request-id"]
        headers.append((b"x-request-id", passing.request_id.encode()))
        keyed = any(name == _KEY for name, _value in headers)
        ask = Ask(
            0, method, scope["scheme"], path, scope["raw_path"], query, headers, body,
            scope["client"],
        )  # fmt: skip
        passing.route = write.route
        answer = await peers.forward(order, ask, partial(hung_up, receive), keyed=keyed)
        if answer is None:
            return None
        passing.worker = answer.worker
        return _HandedBack(answer)

    async def _admit(
        self, scope: Scope, headers: Headers, receive: Receive, passing: Passing
    ) -> Receive:
        path = scope["path"]
        if path in PUBLIC or _is_health(path):
            return receive
        tokens = passing.serving.tokens
        if len(tokens):
            try:
                passing.token = await tokens.identify_soon(headers.get("authorization"))
            except OmniGraphError:
                self._service.metrics.refused("unauthorized")
                raise
        if path not in SERVER_WIDE:
            passing.served = _graph(passing.serving.graphs, path, passing.token)
        return await self._body(path, headers, receive, passing)

    def _added(self, headers: Headers, passing: Passing) -> Callable[[], dict[str, str]]:
        """Return what finds the headers every answer gets, at the moment it is sent."""

        def found() -> dict[str, str]:
            more = {"X-Request-Id": passing.request_id}
            more |= self._origins.headers(headers.get("origin"))
            # Some clients look for it in every answer before they believe the answer.
            if HTTP_API in headers:
                more[HTTP_API] = HTTP_API_SPOKEN
            unread = not passing.is_read and _has_body(headers)
            # What was sent and not looked at is cut off; one that stops wants no more requests.
            if unread or self._service.draining:
                more["Connection"] = "close"
            return more

        return found

    async def _body(
        self, path: str, headers: Headers, receive: Receive, passing: Passing
    ) -> Receive:
        """Read the body whole, within its limits, and return what hands it on."""
        settings = self._service.settings
        _check_framing(headers)
        limit = settings.load_bytes_max if path.endswith(LOADS) else settings.request_bytes_max
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > limit:
            raise _too_large(limit, int(length))
        try:
            async with asyncio.timeout(settings.body_seconds_max):
                body = await _read(receive, limit)
        except TimeoutError:
            self._service.metrics.refused("slow_body")
            raise HttpProblem(
                408,
                f"the request body took longer than {settings.body_seconds_max:g} s to arrive",
                type_="request_timeout",
            ) from None
        passing.body_bytes, passing.body = len(body), body
        passing.is_read = True
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def handed() -> Message:
            return waiting.pop() if waiting else await receive()

        return handed

    async def _fail(
        self, error: Exception, scope: Scope, receive: Receive, send: Send, passing: Passing
    ) -> None:
        if not isinstance(error, OmniGraphError | HttpProblem | KnownFailure | _Gone):
            log(
                "request failed",
                level=logging.ERROR,
                error=True,
                request_id=passing.request_id,
                path=scope["path"],
            )
        told = failure(error)
        # An error in a cycle of references, as one of a future is, would hold what its frames had
        # made until the next collection, and a server collects seldom.
        traceback.clear_frames(error.__traceback__)
        if not passing.started:
            await error_response(told)(scope, receive, send)

    def _record(self, scope: Scope, passing: Passing) -> None:
        route = getattr(scope.get("route"), "path", None) or passing.route or "(none)"
        seconds = time.perf_counter() - passing.begun
        self._service.metrics.answered(
            method=scope["method"] if scope["method"] in METHODS else "other",
            route=route,
            status=passing.status,
            seconds=seconds,
        )
        more: dict[str, Any] = {} if passing.worker is None else {"handed_to": passing.worker}
        log(
            "request",
            request_id=passing.request_id,
            method=scope["method"],
            path=scope["path"],
            route=route,
            status=passing.status,
            ms=round(seconds * 1e3, 2),
            actor=None if passing.token is None else passing.token.actor,
            graph=None if passing.served is None else passing.served.graph_id,
            bytes_in=passing.body_bytes,
            bytes_out=passing.sent_bytes,
            **more,
        )


class _HandedBack(Response):
    """An answer that another worker gave."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.body, status_code=answer.status)
        # Whether the connection goes on is for the process that has it to say.
        self.raw_headers = [item for item in answer.headers if item[0].lower() != b"connection"]


def _page(scope: Scope, headers: Headers) -> Response | None:
    """Return a file of the studio, or the way to it; None for what is not about it."""
    method, path = scope["method"], scope["path"]
    if is_page(path):
        return page_response(method, path, headers)
    return front_door(method, path, headers)


def _graph(graphs: ServedGraphs, path: str, token: Token | None) -> ServedGraph | None:
    """Return the graph a path is about, if it is one for the caller."""
    parts = path.split("/")
    named = parts[2] if len(parts) > 2 and parts[1] == "graphs" else None
    if named is None and not graphs.is_single:
        return None  # the routes answer: no such path, or name a graph
    if named is not None:
        check_graph_id(named)
        if token is not None and not token.opens(named):
            raise unknown_graph(named)
    graph = graphs.find(named)
    if token is not None and not token.opens(graph.graph_id):
        raise unknown_graph(graph.graph_id)
    return graph


def _attributes(scope: Scope, passing: Passing) -> dict[str, str | int | float | bool]:
    """Return what a span says: as little as the log does."""
    return {
        "http.request.method": scope["method"],
        "http.route": getattr(scope.get("route"), "path", None) or "(none)",
        "http.response.status_code": passing.status,
        "omnigraph.request_id": passing.request_id,
        "omnigraph.graph": "" if passing.served is None else passing.served.graph_id,
    }


def _is_health(path: str) -> bool:
    """Whether a request asks for the health of the process, under whichever name."""
    if path in HEALTH:
        return True
    parts = path.split("/")
    return len(parts) == 4 and parts[1] == "graphs" and parts[3] == "healthz"


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _check_framing(headers: Headers) -> None:
    """Refuse a body whose end is doubtful, and one in an encoding that is not taken."""
    if "transfer-encoding" in headers and "content-length" in headers:
        raise HttpProblem(
            400,
            "a request has a Content-Length or a Transfer-Encoding, not both",
            type_="bad_request",
            headers={"Connection": "close"},
        )
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise HttpProblem(
            415,
            f"a body in the encoding '{encoding}' is not taken: send it as it is",
            type_="unsupported_media_type",
            headers={"Accept-Encoding": "identity"},
        )


class _Gone(Exception):
    """The client went away while it was sending."""


async def _read(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit, size)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _watched(send: Send, passing: Passing, added: Callable[[], dict[str, str]]) -> Send:
    """Return a sender that adds some headers and notes what was sent."""

    async def reply(message: Message) -> None:
        if message["type"] == "http.response.start":
            passing.started = True
            passing.status = message["status"]
            MutableHeaders(scope=message).update(added())
        elif message["type"] == "http.response.body":
            passing.sent_bytes += len(message.get("body", b""))
        await send(message)

    return reply


def _too_large(limit: int, actual: int) -> ResourceLimitError:
    return ResourceLimitError(
        resource="request body in bytes", limit=limit, actual=actual, hint="send it in parts"
    )


def _busy(service: Service, reason: str, message: str) -> HttpProblem:
    service.metrics.refused(reason)
    retry = {"Retry-After": str(BUSY_RETRY_AFTER_S)}
    return HttpProblem(503, message, type_="unavailable", headers=retry)
