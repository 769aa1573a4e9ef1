"""Places that actors take in turn."""

from __future__ import annotations

import asyncio

from omnigraph.server.turns import Turns


async def hold(turns: Turns, actor: str, order: list[str], free: asyncio.Event) -> None:
    async with turns.turn(actor):
        order.append(actor)
        await free.wait()


async def settle() -> None:
    for _time in range(5):
        await asyncio.sleep(0)


def test_nobody_has_all_places() -> None:
    async def run() -> list[str]:
        turns, order, free = Turns(2), list[str](), asyncio.Event()
        tasks = [asyncio.ensure_future(hold(turns, "a", order, free)) for _one in range(3)]
        await settle()
        assert order == ["a"]
        tasks.append(asyncio.ensure_future(hold(turns, "b", order, free)))
        await settle()
        seen = list(order)
        free.set()
        await asyncio.gather(*tasks)
        return seen

    assert asyncio.run(run()) == ["a", "b"]


def test_those_who_wait_get_a_place_in_turn() -> None:
    async def run() -> list[str]:
        turns, order, free = Turns(1), list[str](), asyncio.Event()
        tasks = [
            asyncio.ensure_future(hold(turns, actor, order, free))
            for actor in ("a", "a", "a", "b", "b", "c")
        ]
        await settle()
        free.set()
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(run()) == ["a", "a", "b", "c", "a", "b"]


def test_one_that_gives_up_leaves_no_place_behind() -> None:
    async def run() -> list[str]:
        turns, order, free = Turns(1), list[str](), asyncio.Event()
        first = asyncio.ensure_future(hold(turns, "a", order, free))
        await settle()
        waiting = asyncio.ensure_future(hold(turns, "b", order, free))
        last = asyncio.ensure_future(hold(turns, "c", order, free))
        await settle()
        waiting.cancel()
        await settle()
        free.set()
        await asyncio.gather(first, last)
        # One that is cancelled in the moment it gets its place gives it back.
        again = asyncio.ensure_future(hold(turns, "d", order, asyncio.Event()))
        await settle()
        late = asyncio.ensure_future(hold(turns, "e", order, free))
        await settle()
        again.cancel()
        await asyncio.wait({again})
        late.cancel()
        await asyncio.wait({late})
        async with asyncio.timeout(5):
            await hold(turns, "f", order, free)
        return order

    assert asyncio.run(run())[:3] == ["a", "c", "d"]
