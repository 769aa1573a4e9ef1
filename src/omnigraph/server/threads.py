"""Where blocking work runs: a bounded number of threads for reads, and as many for writes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio import to_thread

T = TypeVar("T")


class Threads:
    """Runs the engine's calls. Writers that wait for each other never keep readers waiting."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._limiters: tuple[anyio.CapacityLimiter, anyio.CapacityLimiter] | None = None

    def _limiter(self, index: int) -> anyio.CapacityLimiter:
        # Made on first use: a limiter belongs to the loop it is made in.
        if self._limiters is None:
            self._limiters = (
                anyio.CapacityLimiter(self._number),
                anyio.CapacityLimiter(self._number),
            )
        return self._limiters[index]

    async def read(self, work: Callable[[], T]) -> T:
        """Run something that only reads."""
        return await to_thread.run_sync(work, limiter=self._limiter(0))

    async def write(self, work: Callable[[], T]) -> T:
        """Run something that writes. It is finished even if nobody waits for it any more."""
        # A thread cannot be stopped half-way, so a request that is given up waits for it.
        return await to_thread.run_sync(work, limiter=self._limiter(1))

    async def cancellable(
        self, work: Callable[[threading.Event], T], gone: Callable[[], Awaitable[object]]
    ) -> T:
        """Run a read that is told to stop when waiting for `gone` ends."""
        cancel = threading.Event()

        async def watch() -> None:
            await gone()
            cancel.set()

        watcher = asyncio.ensure_future(watch())
        try:
            return await self.read(lambda: work(cancel))
        finally:
            watcher.cancel()
