"""Connections of clients: one whose request does not begin in time is hung up on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def patient(seconds: float, given_up: Callable[[], None]) -> type[asyncio.Protocol]:
    """Return a protocol that waits so long for the head of a request.

    A client that sends it byte by byte, or nothing at all, would hold its connection for ever:
    the body is timed where it is read, and the pause between requests by the server.
    """

    class Patient(H11Protocol):
        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._stop_waiting()
            elif self._waiting is None:
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._waiting = self.loop.call_later(seconds, self._give_up)

        def _stop_waiting(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

        def _give_up(self) -> None:
            self._waiting = None
            if not self.transport.is_closing():
                given_up()
                self.transport.close()

    return Patient
