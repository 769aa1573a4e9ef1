"""What the client does beside its requests, in threads: the event loop never waits for a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from omnigraph.values.changes import FeedPage

P = ParamSpec("P")
T = TypeVar("T")


async def aside(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Do work that reads or writes files, in a thread."""
    return await asyncio.to_thread(work, *args, **options)


def for_aside(ask: Callable[[], Coroutine[Any, Any, T]]) -> Callable[[], T]:
    """Return how work in a thread asks the server something."""
    loop = asyncio.get_running_loop()
    return lambda: asyncio.run_coroutine_threadsafe(ask(), loop).result()


def parts_for_aside(parts: AsyncIterator[bytes]) -> Iterator[bytes]:
    """Yield the parts of an answer to work in a thread, as it takes them."""
    loop = asyncio.get_running_loop()

    async def next_part() -> bytes | None:
        return await anext(parts, None)

    def taken() -> Iterator[bytes]:
        while (part := asyncio.run_coroutine_threadsafe(next_part(), loop).result()) is not None:
            yield part

    return taken()


async def pages_for_ever(
    ask: Callable[..., Awaitable[FeedPage]], cursor: str | None, interval_s: float
) -> AsyncIterator[FeedPage]:
    """Yield answers of a feed; `ask` takes where to go on, and waits are between the newest."""
    token: str | None = None
    while True:
        page = await ask(cursor=cursor, page_token=token)
        token, cursor = page.next_page_token, page.cursor or cursor
        if page.blocks:
            yield page
        if page.caught_up:
            await asyncio.sleep(interval_s)
