"""Runs the server: listens, serves, drains, stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from omnigraph.clock import elapsed_s
from omnigraph.errors import OmniGraphError
from omnigraph.identity import Tokens
from omnigraph.identity.certificates import load_certificate, tls_context
from omnigraph.limits import OPENAPI_AFTER_S
from omnigraph.policy import ServerState
from omnigraph.server.app import create_app, published
from omnigraph.server.connections import patient
from omnigraph.server.listening import LISTEN_RECORD, address_of, listen
from omnigraph.server.logs import log
from omnigraph.server.service import Service

KEEP_ALIVE_S = 75
HEADER_BYTES_MAX = 64 * 1024


class Server(uvicorn.Server):
    """A server that says it is not ready before it stops listening.

    For a moment it still serves: a load balancer that looks at `/readyz` sends no more. Then it
    takes no new connections and finishes what it has begun.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._stops_at: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def renew_certificate(self) -> None:
        """Read the certificate again. Raises `BadRequestError`; then the one in use stays."""
        files, context, loop = self._service.settings.certificate(), self.config.ssl, self._loop
        if context is None or files is None or loop is None:
            return
        tls_context(*files)
        # Where handshakes are made: one must not see a certificate change.
        loop.call_soon_threadsafe(load_certificate, context, *files)

    def handle_exit(self, sig: int, frame: object) -> None:
        """Begin to drain; a second signal ends at once."""
        if self._stops_at is not None:
            self.force_exit = True
            super().handle_exit(sig, frame)  # type: ignore[arg-type]  # a frame or None
            return
        self._stops_at = elapsed_s() + self._service.settings.drain_notice_seconds
        self._service.draining = True
        log("draining", signal=signal.Signals(sig).name)

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop listening: asked several times a second."""
        if self._stops_at is not None and elapsed_s() >= self._stops_at:
            self.should_exit = True
        return await super().on_tick(counter)

    async def _serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super()._serve(sockets)
        # Having stopped as asked is a success: the signal is not raised again.
        self._captured_signals.clear()


def make_server(service: Service) -> Server:
    """Return a server that is ready to run."""
    return Server(server_config(service), service)


def server_config(
    service: Service, around: Callable[[ASGIApp], ASGIApp] | None = None
) -> uvicorn.Config:
    """Return how a service is served; `around` puts something before its app."""
    app = create_app(service)
    config = uvicorn.Config(
        app if around is None else around(app),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(service.settings.drain_seconds),
        lifespan="off",
        ws="none",
        http=patient(
            service.settings.head_seconds_max,
            lambda: service.metrics.refused("slow_head"),
            head_bytes_max=HEADER_BYTES_MAX,
        ),
    )
    config.load()
    if (files := service.settings.certificate()) is not None:
        config.ssl = tls_context(*files)
    return config


def run(
    service: Service,
    announce: Callable[[str], None],
    read_tokens: Callable[[], Tokens] | None = None,
) -> None:
    """Serve until told to stop. `announce` gets the line that names the address.

    With `read_tokens`, which reads them anew, SIGHUP reloads what is served.
    """
    host, port = service.settings.address()
    server = make_server(service)
    if read_tokens is not None:
        reload_on_hangup(server, service, read_tokens)
    with contextlib.closing(listen(host, port)) as place:
        shown = address_of(place)
        publish_soon(service)
        announce(f"{LISTEN_RECORD}={shown}")
        log("listening", address=shown, state=str(service.serving.state))
        try:
            server.run(sockets=[place])
        finally:
            service.close()
            log("stopped")


def publish_soon(service: Service) -> None:
    """Make the published interface before a client asks for it, but after the first requests.

    It takes longer than all of them, and they would have to share the interpreter with it.
    """
    secured = service.serving.state is not ServerState.OPEN
    timer = threading.Timer(OPENAPI_AFTER_S, published, args=(secured,))
    timer.daemon = True
    timer.start()


def reload_on_hangup(server: Server, service: Service, read_tokens: Callable[[], Tokens]) -> None:
    """Let SIGHUP reload what is served."""
    signal.signal(signal.SIGHUP, lambda *_: _reload(server, service, read_tokens))


def _reload(server: Server, service: Service, read_tokens: Callable[[], Tokens]) -> None:
    """Reload in a thread of its own: requests go on meanwhile."""

    def work() -> None:
        try:
            # First: a certificate that is due must not wait for other files to be in order.
            server.renew_certificate()
            service.reload(read_tokens())
        except OmniGraphError as error:
            kind, reason = str(error.kind), error.message
            log("reload refused", level=logging.ERROR, error_type=kind, reason=reason)
        except Exception:
            log("reload failed", level=logging.ERROR, error=True)
        else:
            serving = service.serving
            log("reloaded", graphs=len(serving.graphs), tokens=len(serving.tokens))

    threading.Thread(target=work, name="reload").start()


@contextlib.contextmanager
def running(service: Service, port: int = 0) -> Iterator[str]:
    """Serve on a port of this machine (0: any) while the block runs; yields the address."""
    with contextlib.closing(listen("127.0.0.1", port)) as place:
        server = make_server(service)
        thread = threading.Thread(target=_serve, args=(server, place), daemon=True)
        thread.start()
        try:
            scheme = "http" if server.config.ssl is None else "https"
            yield f"{scheme}://127.0.0.1:{place.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=30)


def _serve(server: Server, place: socket.socket) -> None:
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    server.run(sockets=[place])
