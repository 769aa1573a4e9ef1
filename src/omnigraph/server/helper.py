"""A helper: a server for the commands of one user, on a socket of the file system.

It serves one graph, read-only, to who can say what it was started with, and goes when no command
has asked for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import socket
from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from omnigraph.clock import elapsed_s
from omnigraph.errors import BadRequestError
from omnigraph.identity import Tokens
from omnigraph.server.listening import BACKLOG
from omnigraph.server.run import Server, server_config
from omnigraph.server.service import Service, open_service
from omnigraph.server.settings import Settings
from omnigraph.values.headers import HELPER
from omnigraph.version import __version__

QUERY_S_MAX = 7 * 24 * 3600.0
"""How long a query may take: on the command line, as long as it takes."""

_MISDIRECTED = 421


class _Asked:
    """The app of a server, for who expects this helper; it knows since when no command asks."""

    def __init__(self, app: ASGIApp, fingerprint: str) -> None:
        self._app = app
        self._fingerprint = fingerprint.encode()
        self._busy = 0
        self._last_s = elapsed_s()

    @property
    def idle_s(self) -> float:
        """How long no command has asked."""
        return 0.0 if self._busy else elapsed_s() - self._last_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        expected = dict(scope["headers"]).get(HELPER.lower().encode(), b"")
        if not hmac.compare_digest(expected, self._fingerprint):
            await _answer(send, _MISDIRECTED, b"")
            return
        self._busy += 1
        try:
            if scope["path"] == "/helper":
                await _answer(send, 200, __version__.encode())
            else:
                await self._app(scope, receive, send)
        finally:
            self._busy -= 1
            self._last_s = elapsed_s()


async def _answer(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-length", str(len(body)).encode()), (b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _HelperServer(Server):
    """A server that stops when it was idle for long enough."""

    def __init__(self, service: Service, fingerprint: str, idle_s: float, path: str) -> None:
        asked: list[_Asked] = []

        def around(app: ASGIApp) -> ASGIApp:
            asked.append(_Asked(app, fingerprint))
            return asked[0]

        super().__init__(server_config(service, around), service)
        self._asked = asked[0]
        self._idle_s = idle_s
        self._path = path
        self._identity = os.stat(path)

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop."""
        if self._asked.idle_s >= self._idle_s:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; the name goes first, so that who sees a connection end finds no helper."""
        with contextlib.suppress(FileNotFoundError):
            # A helper that was started since has put its own socket there.
            if os.path.samestat(os.stat(self._path), self._identity):
                os.unlink(self._path)
        await super().shutdown(sockets)


def serve_helper(
    place: str,
    path: str,
    fingerprint: str,
    *,
    idle_s: float,
    env: Mapping[str, str],
    announce: Callable[[], None],
) -> None:
    """Serve a graph on a socket until it is told to stop, or no command asks any more."""
    settings = Settings(
        store=place,
        read_only=True,
        unauthenticated=True,
        query_seconds_max=QUERY_S_MAX,
        drain_notice_seconds=0.001,
    )
    service = open_service(settings, Tokens(()), env)
    with contextlib.closing(_listen(path)) as listening:
        server = _HelperServer(service, fingerprint, idle_s, path)
        announce()
        try:
            asyncio.run(server.serve(sockets=[listening]))
        finally:
            service.close()


def _listen(path: str) -> socket.socket:
    """Return a socket that listens, for its user alone; it takes the place of a dead one."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Shorter than the path itself, which may be as long as a socket's can be.
    beside = os.path.join(os.path.dirname(path), str(os.getpid()))
    before = os.umask(0o177)
    try:
        listener.bind(beside)
        listener.listen(BACKLOG)
        os.replace(beside, path)
    except OSError as error:
        listener.close()
        raise BadRequestError(f"cannot listen on {path}: {error}") from error
    finally:
        os.umask(before)
    return listener
