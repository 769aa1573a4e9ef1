"""One listening socket for several workers, each with about as many connections as the others."""

from __future__ import annotations

import asyncio
import mmap
import os
import socket
from collections.abc import Callable
from typing import Final

from omnigraph.limits import WORKER_HOLD_BACK_S, WORKER_PAUSE_S

_AWAY: Final = (1 << 64) - 1
_WIDTH: Final = 8


class Counts:
    """How many connections each worker has, and its beats, in a file that all of them map."""

    def __init__(self, path: str, workers: int) -> None:
        self._workers = workers
        size = 2 * workers * _WIDTH
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, size)
            self._map = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)

    def set(self, worker: int, connections: int) -> None:
        """Tell how many a worker has."""
        self._write(worker, connections)

    def leave(self, worker: int) -> None:
        """Count a worker no more: it takes no connections."""
        self.set(worker, _AWAY)

    def get(self, worker: int) -> int:
        """Return how many a worker has; more than any can have while it is away."""
        return self._read(worker)

    def beat(self, worker: int) -> None:
        """Tell that a worker still gets to its work."""
        self._write(self._workers + worker, self.beats(worker) + 1)

    def beats(self, worker: int) -> int:
        """Return how often a worker, or one before it in its place, has told so."""
        return self._read(self._workers + worker)

    def _write(self, place: int, number: int) -> None:
        start = place * _WIDTH
        self._map[start : start + _WIDTH] = number.to_bytes(_WIDTH, "little")

    def _read(self, place: int) -> int:
        start = place * _WIDTH
        return int.from_bytes(self._map[start : start + _WIDTH], "little")

    def least(self) -> int:
        """Return how many the worker with the fewest has."""
        return min(self.get(worker) for worker in range(self._workers))


class Acceptor:
    """Takes connections from a socket that other processes take them from as well."""

    def __init__(
        self,
        place: socket.socket,
        counts: Counts,
        worker: int,
        take: Callable[[socket.socket], None],
    ) -> None:
        self._place = place
        self._counts = counts
        self._worker = worker
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._later: asyncio.TimerHandle | None = None
        self._is_open = False

    def start(self) -> None:
        """Begin to take connections."""
        self._place.setblocking(False)
        self._is_open = True
        self.update(0)
        self._loop.add_reader(self._place, self._arrived)

    def stop(self) -> None:
        """Take no more, and let go of the socket; others may still take from it."""
        if not self._is_open:
            return
        self._is_open = False
        self._loop.remove_reader(self._place)
        if self._later is not None:
            self._later.cancel()
        self._place.close()
        self._counts.leave(self._worker)

    def update(self, connections: int) -> None:
        """Tell the others how many connections are here."""
        if self._is_open:
            self._counts.set(self._worker, connections)

    def _arrived(self) -> None:
        if self._counts.get(self._worker) <= self._counts.least():
            self._accept()
            return
        # Once only: one with fewer may be stopped, and the client must not wait for it.
        self._pause(WORKER_HOLD_BACK_S)

    def _pause(self, seconds: float) -> None:
        if self._later is None:
            self._loop.remove_reader(self._place)
            self._later = self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._later = None
        self._loop.add_reader(self._place, self._arrived)
        self._accept()

    def _accept(self) -> None:
        try:
            connection, _address = self._place.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # Another worker was first, or its client has gone.
        except OSError:
            self._pause(WORKER_PAUSE_S)  # No descriptor is left: some must be closed first.
            return
        self._counts.set(self._worker, self._counts.get(self._worker) + 1)
        connection.setblocking(False)
        self._take(connection)
