"""The client for asyncio tells the stories that the other graphs tell."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.values.changes import FeedPage
from tests.server.helpers import ADD, ALL, SCHEMA, Serve
from tests.server.stories import STORIES, Notes


def is_a_graph(served: og.AsyncRemoteGraph) -> og.AsyncGraphApi:
    """The type checker proves it."""
    return served


class Loop:
    """An event loop in a thread, for stories that know of none."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        self.wait(self._loop.shutdown_asyncgens())
        self.wait(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()


class Waiting:
    """A thing on asyncio, used without it."""

    def __init__(self, loop: Loop, thing: Any) -> None:
        self._loop, self._thing = loop, thing

    def __getattr__(self, name: str) -> Any:
        async def look() -> Any:
            return getattr(self._thing, name)

        # Looked up in the loop: a property may start work there.
        return self._plain(self._loop.wait(look()))

    def __copy__(self) -> Any:
        return Waiting(self._loop, copy.copy(self._thing))

    def __enter__(self) -> Any:
        return self._plain(self._thing.__aenter__())

    def __exit__(self, *error: Any) -> None:
        self._plain(self._thing.__aexit__(*error))

    def _plain(self, found: Any) -> Any:
        if inspect.iscoroutine(found):
            return self._plain(self._loop.wait(found))
        if isinstance(found, AsyncIterator):
            return self._each(found)
        if isinstance(found, contextlib.AbstractAsyncContextManager):
            return Waiting(self._loop, found)
        if inspect.ismethod(found) and _is_of_the_client(found.__self__):
            return lambda *args, **options: self._plain(
                self._loop.wait(_called(found, args, options))
            )
        return Waiting(self._loop, found) if _is_of_the_client(found) else found

    def _each(self, found: AsyncIterator[Any]) -> Iterator[Any]:
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield self._loop.wait(anext(found))  # type: ignore[arg-type]


async def _called(method: Any, args: Any, options: Any) -> Any:
    found = method(*args, **options)
    return await found if inspect.isawaitable(found) else found


def _is_of_the_client(found: Any) -> bool:
    return type(found).__module__.startswith("omnigraph.remote.aio")


# The calls are made from the same declarations: these stories try every way of waiting.
TOLD = ("snapshots", "loads", "exports", "branches", "feeds", "blobs", "schemas", "looking_around")


@pytest.mark.parametrize("name", TOLD)
def test_the_client_for_asyncio_tells_the_same_story(
    name: str, serve: Serve, tmp_path: Path
) -> None:
    (story,) = (story for story in STORIES if story.__name__ == name)
    embedded, served = Notes(), Notes()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with og.init(tmp_path / "g", SCHEMA, durability="none") as graph:
        story(graph, embedded, tmp_path / "a")
    loop = Loop()
    try:
        with Waiting(loop, og.AsyncRemoteGraph(serve().url)) as remote:
            story(remote, served, tmp_path / "b")
    finally:
        loop.close()
    for number, (mine, theirs) in enumerate(zip(embedded.lines, served.lines, strict=True)):
        assert mine == theirs, f"note {number} of {name}"


async def fail_in_a_transaction(graph: og.AsyncRemoteGraph) -> None:
    async with graph.transaction() as work:
        await work.mutate(ADD, {"n": "never"})
        raise ZeroDivisionError


def test_tasks_share_a_graph_and_its_connections(serve: Serve) -> None:
    api = serve()

    async def main() -> None:
        async with og.AsyncRemoteGraph(api.url) as graph:
            await asyncio.gather(*(graph.mutate(ADD, {"n": f"p{n}"}) for n in range(8)))
            found = await asyncio.gather(*(graph.query(ALL) for _turn in range(8)))
            assert [len(result) for result in found] == [8] * 8
            async with graph.transaction() as work:
                await work.mutate(ADD, {"n": "more"})
            assert len(await graph.query(ALL)) == 9
            with pytest.raises(ZeroDivisionError):
                await fail_in_a_transaction(graph)
            assert await graph.branches.list() == ["main"]

    asyncio.run(main())


def test_a_feed_is_followed_as_commits_arrive(serve: Serve) -> None:
    api = serve()

    async def main() -> None:
        async with og.AsyncRemoteGraph(api.url) as graph:
            arrived: asyncio.Queue[FeedPage] = asyncio.Queue()

            async def follow() -> None:
                async for page in graph.feed.follow("beginning", interval_s=0.01):
                    await arrived.put(page)

            task = asyncio.create_task(follow())
            await graph.mutate(ADD, {"n": "ann"})
            page = await asyncio.wait_for(arrived.get(), 30)
            assert page.blocks
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
