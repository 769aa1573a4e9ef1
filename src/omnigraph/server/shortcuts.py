"""The way to routes whose path is fixed: no search among all routes, nothing asked but what is due.

The framework declares and publishes these routes, and serves all the others. For each request it
would try the pattern of every route, solve what parameters depend on, and pass five layers that
catch what the gate catches as well. That takes longer than reading a row does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from omnigraph.server.call import Call, current_call
from omnigraph.server.json_routes import JsonRoute

NESTED = "/graphs/{graph_id}"
_GRAPHS = "/graphs/"

Endpoint = Callable[..., Awaitable[Response]]
Reads = tuple[tuple[str, Callable[[Request], Awaitable[Any]]], ...]


class _Place(Struct, frozen=True):
    """The path of a route, as the log and the metrics name it."""

    path: str


class _Short(Struct, frozen=True):
    """A route that needs the request, and at most its body."""

    route: JsonRoute
    endpoint: Endpoint
    call_name: str
    reads: Reads
    flat: _Place
    nested: _Place


class Shortcuts:
    """An app that serves fixed paths itself and leaves the rest to another one.

    What a route raises is raised here as well: the gate in front turns it into an answer.
    """

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter]) -> None:
        self._app = app
        self._routes: dict[tuple[str, str], _Short] = {}
        for router in routers:
            for route in router.routes:
                found = _short(route) if isinstance(route, JsonRoute) else None
                if found is not None:
                    for method in found.route.methods or ():
                        self._routes.setdefault((method, found.route.path), found)

    @property
    def known(self) -> frozenset[tuple[str, str]]:
        """Methods and paths that are served here."""
        return frozenset(self._routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = below = scope["path"]
        graph_id = None
        if path.startswith(_GRAPHS):
            graph_id, separator, rest = path[len(_GRAPHS) :].partition("/")
            below = separator + rest
        found = self._routes.get((scope["method"], below))
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = found.flat if graph_id is None else found.nested
        scope["path_params"] = {} if graph_id is None else {"graph_id": graph_id}
        request = Request(scope, receive, send)
        await found.route.check_sent(request)
        values: dict[str, Any] = {found.call_name: Call(request)}
        for name, read in found.reads:
            values[name] = await read(request)
        response = await found.endpoint(**values)
        await response(scope, receive, send)


def _short(route: JsonRoute) -> _Short | None:
    """Return the short way to a route; None if it has parameters, or depends on anything else."""
    needs = route.dependant
    given = (needs.path_params, needs.query_params, needs.header_params, needs.cookie_params)
    if any(given) or needs.body_params or needs.request_param_name:
        return None
    call_name = ""
    reads: list[tuple[str, Callable[[Request], Awaitable[Any]]]] = []
    for item in needs.dependencies:
        if item.call is current_call and item.name is not None:
            call_name = item.name
        elif hasattr(item.call, "kind") and item.name is not None:
            reads.append((item.name, item.call))  # type: ignore[arg-type]  # made by `Sent`
        else:
            return None
    if not call_name:
        return None
    return _Short(
        route=route,
        endpoint=route.endpoint,
        call_name=call_name,
        reads=tuple(reads),
        flat=_Place(route.path),
        nested=_Place(NESTED + route.path),
    )
