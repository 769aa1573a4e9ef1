"""Connections of clients: how long they may take to begin, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Receive
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

LINGER_S = 2.0
"""How long a client that is still sending gets to read its answer before it is hung up on."""


async def hung_up(receive: Receive) -> None:
    """Wait until the client hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass


class _Ending:
    """A connection that is closed with care: what a client still sends is thrown away.

    Closing at once would make the client's machine drop the answer along with what it sends.
    """

    def __init__(self, transport: asyncio.Transport, is_sending: Callable[[], bool]) -> None:
        self._transport = transport
        self._is_sending = is_sending
        self.lingers = False

    def __getattr__(self, name: str) -> object:  # all that a transport has
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingers or self._transport.is_closing()

    def forget(self) -> None:
        """Let go of the connection, which holds this."""
        self._is_sending = _sends_nothing

    def close(self) -> None:
        if self.lingers:
            return
        ends = self._transport.can_write_eof()  # Not over TLS, where closing says it.
        if self._transport.is_closing() or not ends or not self._is_sending():
            self._transport.close()
            return
        self.lingers = True
        self._transport.write_eof()
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)


def _sends_nothing() -> bool:
    return False


class _Patient(HttpToolsProtocol):
    """A connection that waits a limited time for the head of a request, of a limited size."""

    seconds: float
    head_bytes_max: int
    given_up: Callable[[], None]
    _waiting: asyncio.TimerHandle | None = None
    _ending: _Ending
    _head_is_here = False
    """Whether the head of the newest request has been read to its end."""
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._ending = _Ending(transport, self._is_sending)
        super().connection_made(self._ending)  # type: ignore[arg-type]  # does all one does
        self._wait()

    def _is_sending(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.more_body

    def _is_idle(self) -> bool:
        """Whether the next thing to come is the head of a request."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or (not cycle.more_body and cycle.response_complete)

    def data_received(self, data: bytes) -> None:
        if self._ending.lingers:
            return
        if not self._is_sending():
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_is_here:
            self._stop_waiting()
            self._head_bytes = 0
        elif self._head_bytes > self.head_bytes_max and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")
        elif self._waiting is None and self._is_idle():
            self._wait()

    def on_message_begin(self) -> None:
        self._head_is_here = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(n) + len(v) for n, v in self.headers) > self.head_bytes_max:
            raise ValueError("the head is too large")
        self._head_is_here = True
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._head_is_here = False
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)
        # What refers to itself stays until Python looks for cycles.
        self._ending.forget()
        self.cycle = None  # type: ignore[assignment]  # as before the first request

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            type(self).given_up()
            self.transport.close()


def patient(
    seconds: float, given_up: Callable[[], None], *, head_bytes_max: int
) -> type[asyncio.Protocol]:
    """Return a protocol that waits so long for the head of a request, which may be so large.

    A client that sends it byte by byte, or nothing at all, would hold its connection for ever:
    the body is timed where it is read, and the pause between requests by the server.
    """
    limits = {"seconds": seconds, "head_bytes_max": head_bytes_max}
    return type("Patient", (_Patient,), {**limits, "given_up": staticmethod(given_up)})
