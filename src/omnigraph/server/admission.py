"""How much one actor may have under way; what is more waits its turn, within limits."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from omnigraph.clock import elapsed_s
from omnigraph.errors import TooManyRequestsError
from omnigraph.limits import ACTOR_RETRY_AFTER_S

ANONYMOUS = "anonymous"
_NEW_SHARE = 0.2
"""How much the newest write counts in the mean time a write takes."""

Gone = Callable[[], Awaitable[object]]
"""Ends when the client has hung up."""


@dataclass(slots=True)
class _Waiting:
    size_bytes: int
    place: asyncio.Future[None]


@dataclass(slots=True)
class _Actor:
    writes: int = 0
    bytes: int = 0
    queue: deque[_Waiting] = field(default_factory=deque)


class Admission:
    """Lets so many writes and bytes of each actor through; the next wait in the order they came.

    Another one does the same for reads, under that noun. It belongs to one event loop. Refusing
    costs next to nothing: no thread, no engine.
    """

    def __init__(
        self,
        *,
        writes_max: int,
        bytes_max: int,
        queue_max: int,
        wait_s: float,
        noun: str = "write",
    ) -> None:
        self._noun = noun
        self._writes_max = writes_max
        self._bytes_max = bytes_max
        self._queue_max = queue_max
        self._wait_s = wait_s
        self._actors: dict[str, _Actor] = {}
        self._mean_s = 0.0

    @contextlib.asynccontextmanager
    async def admit(
        self, actor: str | None, size_bytes: int, gone: Gone | None = None
    ) -> AsyncIterator[None]:
        """Hold a place for one write, after those that came before it.

        Raises `TooManyRequestsError` when too many wait already, when it has waited too long, and
        when its client hung up meanwhile: nothing of it was begun.
        """
        leave = await self.enter(actor, size_bytes, gone)
        try:
            yield
        finally:
            leave()

    async def enter(
        self, actor: str | None, size_bytes: int, gone: Gone | None = None
    ) -> Callable[[], None]:
        """Take a place as `admit` does, and return what gives it back: to be called once."""
        name = ANONYMOUS if actor is None else actor
        if size_bytes > self._bytes_max:
            raise self._refusal(name, f"a {self._noun} of '{name}' holds too many bytes")
        own = self._actors.setdefault(name, _Actor())
        if own.queue or not self._fits(own, size_bytes):
            await self._wait(name, own, size_bytes, gone)
        else:
            own.writes += 1
            own.bytes += size_bytes
        begun = elapsed_s()

        def leave() -> None:
            taken = elapsed_s() - begun
            self._mean_s += (taken - self._mean_s) * (_NEW_SHARE if self._mean_s else 1.0)
            self._leave(name, own, size_bytes)

        return leave

    def _fits(self, own: _Actor, size_bytes: int) -> bool:
        return own.writes < self._writes_max and own.bytes + size_bytes <= self._bytes_max

    async def _wait(self, name: str, own: _Actor, size_bytes: int, gone: Gone | None) -> None:
        if len(own.queue) >= self._queue_max:
            raise self._refusal(name, f"{self._queue_max} {self._noun}s of '{name}' are waiting")
        place = asyncio.get_running_loop().create_future()
        waiting = _Waiting(size_bytes, place)
        own.queue.append(waiting)
        watcher = None if gone is None else asyncio.ensure_future(gone())
        ends = {place} if watcher is None else {place, watcher}
        try:
            await asyncio.wait(ends, timeout=self._wait_s, return_when=asyncio.FIRST_COMPLETED)
            if place.done() and not (watcher is not None and watcher.done()):
                return
            text = f"a {self._noun} of '{name}' waited for {self._wait_s:g} seconds"
            if watcher is not None and watcher.done():
                text = f"the client of '{name}' hung up while its {self._noun} waited"
            raise self._refusal(name, text)
        except BaseException:
            self._give_up(name, own, waiting)
            raise
        finally:
            if watcher is not None:
                watcher.cancel()

    def _give_up(self, name: str, own: _Actor, waiting: _Waiting) -> None:
        """Take a write out of the queue, or give back the place it was just handed."""
        if waiting.place.done():
            self._leave(name, own, waiting.size_bytes)
            return
        waiting.place.cancel()
        own.queue.remove(waiting)
        # It may have been the one whose bytes had no room.
        self._hand_over(own)

    def _leave(self, name: str, own: _Actor, size_bytes: int) -> None:
        own.writes -= 1
        own.bytes -= size_bytes
        self._hand_over(own)
        if not own.writes and not own.queue:
            self._actors.pop(name, None)

    def _hand_over(self, own: _Actor) -> None:
        """Let those through that have waited longest, as far as there is room."""
        while own.queue and self._fits(own, own.queue[0].size_bytes):
            waiting = own.queue.popleft()
            own.writes += 1
            own.bytes += waiting.size_bytes
            waiting.place.set_result(None)

    def _refusal(self, name: str, message: str) -> TooManyRequestsError:
        """Return a refusal that says when those who wait now should be done."""
        own = self._actors.get(name)
        waiting = len(own.queue) if own is not None else 0
        seconds = math.ceil(self._mean_s * (waiting + self._writes_max) / self._writes_max)
        return TooManyRequestsError(
            message, retry_after_s=min(max(seconds, 1), ACTOR_RETRY_AFTER_S)
        )
