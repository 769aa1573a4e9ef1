"""Bearer tokens in front of an HTTP application: who is calling."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from omnigraph.errors import UnauthorizedError
from omnigraph.identity import Token, Tokens

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

CALLER = "omnigraph.caller"
"""Key of a request's scope that holds its token: whose it is, and which roles that one has."""


class BearerGuard:
    """Lets requests with a known token through, and tells the application whose it is."""

    def __init__(self, app: ASGIApp, tokens: Tokens, graph_id: str) -> None:
        self._app = app
        self._tokens = tokens
        self._graph_id = graph_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        caller = await self._caller(headers[0]) if len(headers) == 1 else None
        if caller is None:
            await _refuse(send)
            return
        scope[CALLER] = caller
        await self._app(scope, receive, send)

    async def _caller(self, header: bytes) -> Token | None:
        try:
            token = await self._tokens.identify_soon(header.decode("utf-8", "replace"))
        except UnauthorizedError:
            return None
        return token if token.opens(self._graph_id) else None


async def _refuse(send: Send) -> None:
    body = json.dumps({"error": "a known bearer token is needed", "code": "unauthorized"}).encode()
    headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})
