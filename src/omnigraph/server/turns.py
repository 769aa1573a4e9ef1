"""Who may begin next where only a few can work at a time: actors take turns."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator


class Turns:
    """So many places. Actors that wait get them one after the other, however many each asks for.

    No actor has all of them, so that one who comes later need not wait for another's longest work.
    It belongs to one event loop.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._each_max = max(1, places - 1)
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @contextlib.asynccontextmanager
    async def turn(self, actor: str) -> AsyncIterator[None]:
        """Hold a place while the block runs."""
        await self._take_place(actor)
        try:
            yield
        finally:
            self._give_back(actor)

    async def _take_place(self, actor: str) -> None:
        if self._may_begin(actor) and actor not in self._waiting:
            self._hold(actor)
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(actor, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._give_back(actor)
            else:
                self._forget(actor, place)
            raise

    def _may_begin(self, actor: str) -> bool:
        return self._free > 0 and self._held[actor] < self._each_max

    def _hold(self, actor: str) -> None:
        self._free -= 1
        self._held[actor] += 1

    def _give_back(self, actor: str) -> None:
        self._free += 1
        self._held[actor] -= 1
        if not self._held[actor]:
            del self._held[actor]
        for other in list(self._waiting):
            if self._may_begin(other):
                place = self._waiting[other].popleft()
                # The actor that has just got a place is the last to get the next one.
                queue = self._waiting.pop(other)
                if queue:
                    self._waiting[other] = queue
                self._hold(other)
                place.set_result(None)

    def _forget(self, actor: str, place: asyncio.Future[None]) -> None:
        self._waiting[actor].remove(place)
        if not self._waiting[actor]:
            del self._waiting[actor]
