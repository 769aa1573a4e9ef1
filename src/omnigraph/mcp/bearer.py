"""Bearer tokens in front of an HTTP application: who is calling."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.policy import check_actor, text_problem

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ACTOR = "omnigraph.actor"
"""Key of a request's scope that holds the actor its token stands for."""


class Tokens:
    """Knows actors by their tokens. Only digests are kept."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        for actor, token in tokens.items():
            check_actor(actor)
            if not token.strip() or text_problem(token, "the token"):
                raise BadRequestError(f"the token of '{actor}' is blank or not valid Unicode")
        self._actors = {hashlib.sha256(t.encode()).digest(): actor for actor, t in tokens.items()}
        if not tokens or len(self._actors) != len(tokens):
            raise BadRequestError("every actor needs a token of its own")

    def actor_of(self, header: bytes | None) -> str | None:
        """Return who a header names; None for no token, another scheme or an unknown one.

        Every known digest is compared, each in constant time.
        """
        if header is None or not header.startswith(b"Bearer "):
            return None
        offered = hashlib.sha256(header.removeprefix(b"Bearer ")).digest()
        found = None
        for digest, actor in self._actors.items():
            if hmac.compare_digest(digest, offered):
                found = actor
        return found


def read_tokens(path: str | os.PathLike[str]) -> Tokens:
    """Read a JSON file of actors and their tokens."""
    try:
        with open(path, encoding="utf-8") as handle:
            found = json.load(handle)
    except FileNotFoundError:
        raise NotFoundError(f"token file not found: {os.fspath(path)}") from None
    except (OSError, ValueError) as error:
        # The reason may quote the file, and the file holds secrets.
        raise BadRequestError(f"{os.fspath(path)} is no JSON file of tokens") from error
    valid = isinstance(found, dict) and all(isinstance(token, str) for token in found.values())
    if not valid:
        raise BadRequestError(f'{os.fspath(path)} must hold {{"<actor>": "<token>", ...}}')
    return Tokens(found)


class BearerGuard:
    """Lets requests with a known token through, and tells the application whose it is."""

    def __init__(self, app: App, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        actor = self._tokens.actor_of(headers[0]) if len(headers) == 1 else None
        if actor is None:
            await _refuse(send)
            return
        scope[ACTOR] = actor
        await self._app(scope, receive, send)


async def _refuse(send: Send) -> None:
    body = json.dumps({"error": "a known bearer token is needed", "code": "unauthorized"}).encode()
    headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})
