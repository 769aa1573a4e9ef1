"""Turns: one at a time, in the order they came, and nobody who left holds the others up."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.commits.fair_lock import FairLock


def wait_for(turn: FairLock, number: int) -> None:
    deadline = time.monotonic() + 10
    while len(turn._waiting) != number:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_the_longest_waiting_is_next() -> None:
    turn, order = FairLock(), []

    def work(number: int) -> None:
        with turn:
            order.append(number)

    threads = []
    with turn:
        for number in range(6):
            threads.append(threading.Thread(target=work, args=(number,)))
            threads[-1].start()
            wait_for(turn, number + 1)
    for thread in threads:
        thread.join(10)
    assert order == [0, 1, 2, 3, 4, 5]
    with turn:
        pass


def test_only_one_at_a_time() -> None:
    turn, inside, most = FairLock(), [0], [0]

    def work(_number: int) -> None:
        for _round in range(200):
            with turn:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert most == [1]
    assert not turn._taken


def test_an_error_passes_the_turn_on() -> None:
    turn = FairLock()
    with pytest.raises(ValueError, match="x"), turn:
        raise ValueError("x")
    with turn:
        pass


@pytest.mark.parametrize("handed", [False, True])
def test_who_is_interrupted_while_waiting_holds_nobody_up(
    handed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the turn had just come to it."""
    turn, real = FairLock(), threading.Lock

    class Interrupted:
        """A gate that is interrupted instead of waiting."""

        asked = 0

        def acquire(self) -> None:
            self.asked += 1
            if self.asked == 2:
                if handed:
                    turn.__exit__(None, None, None)
                raise KeyboardInterrupt

        def release(self) -> None:
            pass

    turn.__enter__()
    monkeypatch.setattr(threading, "Lock", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        turn.__enter__()
    monkeypatch.setattr(threading, "Lock", real)
    if not handed:
        turn.__exit__(None, None, None)
    assert not turn._taken
    with turn:
        pass
