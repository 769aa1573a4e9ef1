"""Bearer tokens and the actors they stand for.

A token of a file is kept only as its SHA-256 digest; one of an issuer is checked by its signature.
The actor of a request comes from its token and from nothing else that a client sends.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from omnigraph.errors import BadRequestError, NotFoundError, UnauthorizedError
from omnigraph.identity.keys import StaleKeysError
from omnigraph.policy import actor_problem, text_problem

if TYPE_CHECKING:
    from omnigraph.identity.issuers import Issuers

SCHEME = "Bearer "
TOKEN_CHARS_MAX = 4096
_SINGLE = "OMNIGRAPH_SERVER_BEARER_TOKEN"
_FILE = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
_JSON = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"
_AWS = "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET"


class Token(Struct, frozen=True, kw_only=True):
    """One token: whose it is, for which graphs (all when empty) and until when.

    One of an issuer has no digest, and may have roles, which a policy knows.
    """

    actor: str
    digest: bytes = b""
    graphs: frozenset[str] = frozenset()
    expires_at_s: float | None = None
    roles: tuple[str, ...] = ()

    @staticmethod
    def of(
        actor: str, secret: str, graphs: Iterable[str] = (), expires_at_s: float | None = None
    ) -> Token:
        """Return a token of which only the digest is kept."""
        if problem := actor_problem(actor):
            raise BadRequestError(f"a token cannot stand for this actor: {problem}")
        unfit = not secret or secret != secret.strip() or len(secret) > TOKEN_CHARS_MAX
        if unfit or text_problem(secret, "the token"):
            raise BadRequestError(f"the token of '{actor}' is empty, too long or has blanks around")
        return Token(
            actor=actor,
            digest=_digest(secret),
            graphs=frozenset(graphs),
            expires_at_s=expires_at_s,
        )

    def opens(self, graph_id: str) -> bool:
        """Whether the token is good for a graph."""
        return not self.graphs or graph_id in self.graphs


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


class Tokens:
    """The tokens a server knows."""

    def __init__(
        self,
        tokens: Iterable[Token] = (),
        *,
        issuers: Issuers | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tokens = tuple(tokens)
        self._issuers = issuers
        self._clock = clock
        for what in ("actor", "digest"):
            values = [getattr(token, what) for token in self._tokens]
            if len(set(values)) != len(values):
                noun = "an actor has two tokens" if what == "actor" else "two actors share a token"
                raise BadRequestError(noun, hint="every actor has one token of its own")

    def __len__(self) -> int:
        return len(self._tokens) + (0 if self._issuers is None else len(self._issuers))

    @property
    def issuers(self) -> tuple[str, ...]:
        """The issuers whose tokens are taken, beside those of a file."""
        return () if self._issuers is None else self._issuers.names

    def identify(self, authorization: str | None) -> Token:
        """Return the token a request carries. Raises `UnauthorizedError`.

        Keys of an issuer that are old, or not known yet, are fetched.
        """
        try:
            return self._identify(authorization)
        except StaleKeysError as stale:
            stale.keys.refresh()
        return self._identify_now(authorization)

    async def identify_soon(self, authorization: str | None) -> Token:
        """Return the token a request carries, as `identify` does; others do not wait for keys."""
        try:
            return self._identify(authorization)
        except StaleKeysError as stale:
            await asyncio.to_thread(stale.keys.refresh)
        return self._identify_now(authorization)

    def _identify_now(self, authorization: str | None) -> Token:
        """Return the token a request carries, by the keys that are known."""
        try:
            return self._identify(authorization)
        except StaleKeysError:
            raise UnauthorizedError("the keys of the issuer could not be fetched") from None

    def _identify(self, authorization: str | None) -> Token:
        if authorization is None:
            raise UnauthorizedError("a bearer token is needed")
        if not authorization.startswith(SCHEME):
            raise UnauthorizedError("the Authorization header must be 'Bearer <token>'")
        offered = _digest(authorization[len(SCHEME) :])
        match: Token | None = None
        for token in self._tokens:
            # Every digest is looked at, however early one fits: time tells nothing.
            if hmac.compare_digest(token.digest, offered):
                match = token
        if match is None and self._issuers is not None:
            return self._issuers.verify(authorization[len(SCHEME) :], now_s=self._clock())
        if match is None:
            raise UnauthorizedError("the token is not known")
        if match.expires_at_s is not None and match.expires_at_s <= self._clock():
            raise UnauthorizedError("the token has expired")
        return match


def tokens_from(
    env: Mapping[str, str], path: str | None = None, issuers: str | None = None
) -> Tokens:
    """Return the tokens of a file and of the environment, and the issuers of a file.

    A file (of `{actor: token}`) wins over the variable with the same; the variable with a single
    token adds the actor `default`. Raises `BadRequestError` for anything else.
    """
    if env.get(_AWS):
        raise BadRequestError(f"{_AWS} is not supported", hint=f"use {_FILE}")
    path = path or env.get(_FILE) or None
    tokens: list[Token] = []
    if path is not None:
        tokens = _parse(_read(path), what=path)
    elif env.get(_JSON):
        tokens = _parse(env[_JSON], what=_JSON)
    if env.get(_SINGLE):
        tokens.append(Token.of("default", env[_SINGLE]))
    return Tokens(tokens, issuers=_issuers(issuers))


def read_tokens(path: str | os.PathLike[str]) -> Tokens:
    """Return the tokens of a file, of which there is at least one. Raises `BadRequestError`."""
    tokens = Tokens(_parse(_read(os.fspath(path)), what=os.fspath(path)))
    if not len(tokens):
        raise BadRequestError(f"{os.fspath(path)} holds no token")
    return tokens


def _issuers(path: str | None) -> Issuers | None:
    if path is None:
        return None
    from omnigraph.identity.issuers import read_issuers

    return read_issuers(path, _read(path))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read()
    except FileNotFoundError:
        raise NotFoundError(f"token file not found: {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequestError(f"cannot read the tokens in {os.path.basename(path)}") from error


def _parse(text: str, *, what: str) -> list[Token]:
    try:
        tokens = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        # The text holds secrets: no part of it goes into a message.
        raise BadRequestError(
            f"{what} is not a JSON object of actors, each named once, and tokens"
        ) from None
    if not isinstance(tokens, dict):
        raise BadRequestError(f"{what} must hold a JSON object of actors and tokens")
    return [_token(actor, value) for actor, value in tokens.items()]


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name is given twice")
    return fields


def _token(actor: str, value: object) -> Token:
    if isinstance(value, str):
        return Token.of(actor, value)
    if not isinstance(value, dict) or not isinstance(value.get("token"), str):
        raise BadRequestError(f"the token of '{actor}' must be text, or an object with 'token'")
    if unknown := sorted(value.keys() - {"token", "graphs", "expires_at"}):
        raise BadRequestError(f"the token of '{actor}' has unknown fields: {', '.join(unknown)}")
    graphs, expires = value.get("graphs", []), value.get("expires_at")
    if not isinstance(graphs, list) or not all(isinstance(item, str) for item in graphs):
        raise BadRequestError(f"graphs of the token of '{actor}' must be a list of graph ids")
    if expires is not None and (isinstance(expires, bool) or not isinstance(expires, int | float)):
        raise BadRequestError(f"expires_at of the token of '{actor}' must be seconds since 1970")
    return Token.of(actor, value["token"], graphs, expires)
