"""Where blocking work runs: a bounded number of threads for reads, and another for writes."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """Runs the engine's calls. Writers that wait for each other never keep readers waiting.

    Work that was begun is finished, even if no request waits for it any more.
    """

    def __init__(self, *, reads: int, writes: int) -> None:
        self._reads = ThreadPoolExecutor(reads, thread_name_prefix="read")
        self._writes = ThreadPoolExecutor(writes, thread_name_prefix="write")

    def begin_read(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Begin something that only reads; it goes on even if the caller waits no longer."""
        return _begin(self._reads, work)

    async def read(self, work: Callable[[], T]) -> T:
        """Run something that only reads."""
        return await _finished(_begin(self._reads, work))

    async def write(self, work: Callable[[], T]) -> T:
        """Run something that writes."""
        return await _finished(_begin(self._writes, work))

    def close(self) -> None:
        """Let the threads end once they have nothing to do."""
        for pool in (self._reads, self._writes):
            pool.shutdown(wait=False)


def _begin(pool: ThreadPoolExecutor, work: Callable[[], T]) -> asyncio.Future[T]:
    context = contextvars.copy_context()
    return asyncio.get_running_loop().run_in_executor(pool, context.run, work)


async def _finished(work: asyncio.Future[T]) -> T:
    """Return what comes of some work; who is told to give up waits for its end nevertheless."""
    # A thread cannot be stopped half-way, and what it holds is not free before it has ended.
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise
