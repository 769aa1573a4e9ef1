"""How much an actor may have in flight, to the byte, and how the rest waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from omnigraph.errors import TooManyRequestsError
from omnigraph.server.admission import Admission


def admission(
    *, writes_max: int = 9, bytes_max: int = 100, queue_max: int = 1, wait_s: float = 60.0
) -> Admission:
    return Admission(writes_max=writes_max, bytes_max=bytes_max, queue_max=queue_max, wait_s=wait_s)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(work(), 10)

    asyncio.run(limited())


async def refused(found: Admission, actor: str | None, size_bytes: int = 1) -> str:
    with pytest.raises(TooManyRequestsError) as caught:
        async with found.admit(actor, size_bytes):
            pass
    assert 1 <= caught.value.retry_after_s <= 60
    return caught.value.message


class Writer:
    """One write that waits for its place and then until it is told to end."""

    def __init__(self, found: Admission, size_bytes: int = 1, *, actor: str = "a") -> None:
        self.admitted = asyncio.Event()
        self.hung_up = asyncio.Event()
        self._end = asyncio.Event()
        self.task = asyncio.ensure_future(self._write(found, actor, size_bytes))

    async def _write(self, found: Admission, actor: str, size_bytes: int) -> None:
        async with found.admit(actor, size_bytes, self.hung_up.wait):
            self.admitted.set()
            await self._end.wait()

    async def end(self) -> None:
        self._end.set()
        await self.task


async def pass_on() -> None:
    for _turn in range(5):
        await asyncio.sleep(0)


def test_writes_wait_in_the_order_they_came() -> None:
    async def work() -> None:
        found = admission(writes_max=2, queue_max=9)
        writers = [Writer(found) for _number in range(5)]
        await pass_on()
        assert [writer.admitted.is_set() for writer in writers] == [True, True, False, False, False]
        await writers[1].end()
        await pass_on()
        assert [writer.admitted.is_set() for writer in writers[2:]] == [True, False, False]
        for writer in (writers[0], *writers[2:]):
            await writer.end()

    run(work)


def test_a_full_queue_refuses() -> None:
    async def work() -> None:
        found = admission(writes_max=1, queue_max=1)
        first, second = Writer(found), Writer(found)
        await pass_on()
        assert await refused(found, "a") == "1 writes of 'a' are waiting"
        async with found.admit("b", 1):
            pass
        await first.end()
        await second.end()
        async with found.admit("a", 1):
            pass

    run(work)


def test_waiting_has_an_end() -> None:
    async def work() -> None:
        found = admission(writes_max=1, wait_s=0.01)
        first = Writer(found)
        await pass_on()
        assert await refused(found, "a") == "a write of 'a' waited for 0.01 seconds"
        await first.end()
        async with found.admit("a", 1):
            pass

    run(work)


def test_the_last_byte_fits_and_the_next_waits() -> None:
    async def work() -> None:
        found = admission(bytes_max=10, queue_max=9)
        assert "too many bytes" in await refused(found, "a", 11)
        first, second, third = Writer(found, 4), Writer(found, 7), Writer(found, 1)
        await pass_on()
        # The third would fit, but it came after the second.
        assert not second.admitted.is_set()
        assert not third.admitted.is_set()
        await first.end()
        await pass_on()
        assert second.admitted.is_set()
        assert third.admitted.is_set()
        await second.end()
        await third.end()
        async with found.admit("a", 10):
            pass

    run(work)


def test_actors_do_not_use_up_each_others_room() -> None:
    async def work() -> None:
        found = admission(writes_max=1, bytes_max=10, wait_s=0.01)
        async with found.admit("a", 10), found.admit("b", 10), found.admit(None, 10):
            assert "'a'" in await refused(found, "a", 0)
            assert "'anonymous'" in await refused(found, None, 0)
        assert found._actors == {}

    run(work)


def test_a_refusal_takes_no_room() -> None:
    async def work() -> None:
        found = admission(writes_max=2, bytes_max=10, wait_s=0.01)
        async with found.admit("a", 5):
            await refused(found, "a", 6)
            async with found.admit("a", 5):
                await refused(found, "a", 0)
        async with found.admit("a", 10):
            assert found._actors["a"].writes == 1

    run(work)


def test_a_write_that_fails_gives_its_room_back() -> None:
    async def work() -> None:
        found = admission(writes_max=1, bytes_max=10)
        for _attempt in range(3):
            with pytest.raises(ZeroDivisionError):
                async with found.admit("a", 10):
                    raise ZeroDivisionError
        assert found._actors == {}

    run(work)


@pytest.mark.parametrize("leaves", ["hangs up", "is cancelled"])
def test_who_leaves_the_queue_lets_the_next_pass(leaves: str) -> None:
    async def work() -> None:
        found = admission(writes_max=1, bytes_max=10, queue_max=9)
        first, large, small = Writer(found, 4), Writer(found, 10), Writer(found, 5)
        await pass_on()
        if leaves == "hangs up":
            large.hung_up.set()
            with pytest.raises(TooManyRequestsError, match="hung up while its write waited"):
                await large.task
        else:
            large.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await large.task
        assert not large.admitted.is_set()
        await first.end()
        await pass_on()
        assert small.admitted.is_set()
        await small.end()
        assert found._actors == {}

    run(work)


def test_a_place_handed_to_a_client_that_is_gone_goes_to_the_next() -> None:
    async def work() -> None:
        found = admission(writes_max=1, queue_max=9)
        first, second, third = Writer(found), Writer(found), Writer(found)
        await pass_on()
        second.hung_up.set()
        await first.end()
        with pytest.raises(TooManyRequestsError):
            await second.task
        await pass_on()
        assert third.admitted.is_set()
        await third.end()
        assert found._actors == {}

    run(work)


def test_a_refusal_says_when_those_that_wait_should_be_done() -> None:
    async def work() -> None:
        found = admission(writes_max=2, queue_max=4)
        found._mean_s = 3.0
        async with AsyncExitStack() as stack:
            for _number in range(2):
                await stack.enter_async_context(found.admit("a", 1))
            waiting = [Writer(found) for _number in range(4)]
            await pass_on()
            with pytest.raises(TooManyRequestsError) as caught:
                async with found.admit("a", 1):
                    pass
            assert caught.value.retry_after_s == 9
        for writer in waiting:
            await writer.end()

    run(work)
