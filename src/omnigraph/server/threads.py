"""Where blocking work runs: a bounded number of threads for reads, and another for writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import to_thread

T = TypeVar("T")


class Threads:
    """Runs the engine's calls. Writers that wait for each other never keep readers waiting."""

    def __init__(self, *, reads: int, writes: int) -> None:
        self._numbers = (reads, writes)
        self._limiters: tuple[anyio.CapacityLimiter, anyio.CapacityLimiter] | None = None

    def _limiter(self, index: int) -> anyio.CapacityLimiter:
        # Made on first use: a limiter belongs to the loop it is made in.
        if self._limiters is None:
            reads, writes = self._numbers
            self._limiters = (anyio.CapacityLimiter(reads), anyio.CapacityLimiter(writes))
        return self._limiters[index]

    async def read(self, work: Callable[[], T]) -> T:
        """Run something that only reads."""
        return await to_thread.run_sync(work, limiter=self._limiter(0))

    async def write(self, work: Callable[[], T]) -> T:
        """Run something that writes. It is finished even if nobody waits for it any more."""
        # A thread cannot be stopped half-way, so a request that is given up waits for it.
        return await to_thread.run_sync(work, limiter=self._limiter(1))
