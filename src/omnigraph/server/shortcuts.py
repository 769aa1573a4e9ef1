"""The way to routes with a simple path: no search among all routes, nothing asked but what is due.

The framework declares and publishes these routes, and serves all the others. For each request it
would try the pattern of every route, solve what parameters depend on, and pass five layers that
catch what the gate catches as well. That takes longer than reading a row does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

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
Reads = tuple[tuple[str, Callable[[Request], Awaitable[object]]], ...]


class _Place(Struct, frozen=True):
    """The path of a route, as the log and the metrics name it."""

    path: str


class _Short(Struct, frozen=True):
    """A route that needs the request, parts of its path, and at most its body."""

    route: JsonRoute
    endpoint: Endpoint
    call_name: str
    reads: Reads
    named: tuple[str | None, ...]
    """For each part of the path the parameter it is, or None for a word that is fixed."""
    flat: _Place
    nested: _Place

    def values(self, parts: list[str]) -> dict[str, str] | None:
        """Return the parameters in the parts of a path; None if it is another path."""
        values = {}
        for name, part, word in zip(self.named, parts, self.route.path.split("/"), strict=True):
            if name is None and part != word:
                return None
            if name is not None and not part:
                return None
            if name is not None:
                values[name] = part
        return values


class Shortcuts:
    """An app that serves simple paths itself and leaves the rest to another one.

    What a route raises is raised here as well: the gate in front turns it into an answer.
    """

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter]) -> None:
        self._app = app
        self._routes: dict[tuple[str, str], _Short] = {}
        self._named: dict[tuple[str, int], list[_Short]] = {}
        for router in routers:
            for route in router.routes:
                short = _short(route) if isinstance(route, JsonRoute) else None
                if short is not None:
                    self._add(short)

    def _add(self, short: _Short) -> None:
        for method in short.route.methods or ():
            if any(short.named):
                self._named.setdefault((method, len(short.named)), []).append(short)
            else:
                self._routes.setdefault((method, short.route.path), short)

    @property
    def known(self) -> frozenset[tuple[str, str]]:
        """Methods and paths that are served here."""
        named = {
            (method, item.route.path)
            for (method, _parts), shorts in self._named.items()
            for item in shorts
        }
        return frozenset(self._routes) | named

    def _find(self, method: str, path: str) -> tuple[_Short, dict[str, str]] | None:
        """Return the route of a path and the parameters in it; fixed paths come first."""
        short = self._routes.get((method, path))
        if short is not None:
            return short, {}
        parts = path.split("/")
        for item in self._named.get((method, len(parts)), ()):
            values = item.values(parts)
            if values is not None:
                return item, values
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = below = scope["path"]
        graph_id = None
        if path.startswith(_GRAPHS):
            graph_id, separator, rest = path[len(_GRAPHS) :].partition("/")
            below = separator + rest
        shortcut = self._find(scope["method"], below)
        if shortcut is None:
            await self._app(scope, receive, send)
            return
        short, named = shortcut
        scope["route"] = short.flat if graph_id is None else short.nested
        scope["path_params"] = named if graph_id is None else {"graph_id": graph_id, **named}
        request = Request(scope, receive, send)
        await short.route.check_sent(request)
        values: dict[str, object] = {short.call_name: Call(request), **named}
        for name, read in short.reads:
            values[name] = await read(request)
        response = await short.endpoint(**values)
        await response(scope, receive, send)


def _short(route: JsonRoute) -> _Short | None:
    """Return the short way to a route; None if it depends on anything but call, path and body."""
    needs = route.dependant
    given = (needs.query_params, needs.header_params, needs.cookie_params)
    if any(given) or needs.body_params or needs.request_param_name:
        return None
    named = _path_parameters(route)
    call_name = ""
    reads: list[tuple[str, Callable[[Request], Awaitable[object]]]] = []
    for item in needs.dependencies:
        if item.call is current_call and item.name is not None:
            call_name = item.name
        elif hasattr(item.call, "kind") and item.name is not None:
            reads.append((item.name, item.call))  # type: ignore[arg-type]  # made by `Sent`
        else:
            return None
    if not call_name or named is None:
        return None
    return _Short(
        route=route,
        endpoint=route.endpoint,
        call_name=call_name,
        reads=tuple(reads),
        named=named,
        flat=_Place(route.path),
        nested=_Place(NESTED + route.path),
    )


def _path_parameters(route: JsonRoute) -> tuple[str | None, ...] | None:
    """Return which parts of a path are parameters; None if one is more than any text."""
    plain = {
        item.alias
        for item in route.dependant.path_params
        if item.field_info.annotation is str and not item.field_info.metadata
    }
    parts = route.path.split("/")
    names = tuple(part[1:-1] if part[:1] == "{" and part[-1:] == "}" else None for part in parts)
    is_simple = not any("{" in part for part, name in zip(parts, names, strict=True) if not name)
    return names if is_simple and {name for name in names if name} == plain else None
