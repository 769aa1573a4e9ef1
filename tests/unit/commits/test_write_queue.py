"""Turns: one at a time, in the order they came, and nobody who left holds the others up."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from omnigraph.commits.write_queue import Ticket, WriteQueue


class Small:
    """A write that may be taken along."""

    shared = True


def small() -> Ticket:
    member: Any = Small()
    return Ticket(member)


def wait_for(queue: WriteQueue, number: int) -> None:
    deadline = time.monotonic() + 10
    while len(queue._waiting) != number:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def start(queue: WriteQueue, ticket: Ticket, seen: list[Any], name: object) -> threading.Thread:
    """Let a thread wait for its turn, and note whether it led."""

    def work() -> None:
        with queue.turn(ticket) as leads:
            seen.append((name, leads))

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_the_longest_waiting_is_next() -> None:
    queue, seen = WriteQueue(), list[Any]()
    threads = []
    with queue.turn():
        for number in range(6):
            threads.append(start(queue, Ticket(), seen, number))
            wait_for(queue, number + 1)
    for thread in threads:
        thread.join(10)
    assert seen == [(number, True) for number in range(6)]
    with queue.turn() as leads:
        assert leads


def test_only_one_at_a_time() -> None:
    queue, inside, most = WriteQueue(), [0], [0]

    def work(_number: int) -> None:
        for _round in range(200):
            with queue.turn():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert most == [1]
    assert not queue._taken


def test_an_error_passes_the_turn_on() -> None:
    queue = WriteQueue()
    with pytest.raises(ValueError, match="x"), queue.turn():
        raise ValueError("x")
    with queue.turn():
        pass


def test_small_writes_are_taken_up_to_one_that_is_not() -> None:
    queue, seen = WriteQueue(), list[Any]()
    tickets = [small(), small(), Ticket(), small()]
    threads = []
    with queue.turn():
        for number, ticket in enumerate(tickets):
            threads.append(start(queue, ticket, seen, number))
            wait_for(queue, number + 1)
        taken = queue.take(64)
        assert taken == tickets[:2]
        assert queue.take(64) == []
        for ticket in taken:
            ticket.wake()
        for thread in threads[:2]:
            thread.join(10)
        assert sorted(seen) == [(0, False), (1, False)]
    for thread in threads:
        thread.join(10)
    assert seen[2:] == [(2, True), (3, True)]


def test_what_is_put_back_comes_first_and_in_order() -> None:
    queue, seen = WriteQueue(), list[Any]()
    threads = []
    with queue.turn():
        for number in range(4):
            threads.append(start(queue, small(), seen, number))
            wait_for(queue, number + 1)
        taken = queue.take(3)
        assert len(taken) == 3
        queue.put_back(taken)
    for thread in threads:
        thread.join(10)
    assert seen == [(number, True) for number in range(4)]


def test_a_lone_writer_does_not_wait_for_others() -> None:
    queue = WriteQueue()
    queue.published(1, 60.0)
    started = time.monotonic()
    queue.gather(1)
    assert time.monotonic() - started < 0.01


def test_who_comes_back_after_a_group_waits_for_the_others_and_not_for_long() -> None:
    queue, seen = WriteQueue(), list[Any]()
    with queue.turn():
        queue.published(2, 60.0)
        started = time.monotonic()
        queue.gather(1)
        assert 0.04 < time.monotonic() - started < 5.0
        queue.published(2, 60.0)
        threading.Timer(0.005, start, (queue, small(), seen, "other")).start()
        queue.gather(1)
        wait_for(queue, 1)
    deadline = time.monotonic() + 10
    while not seen:
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Interrupted:
    """A gate that is interrupted instead of waiting, after something else happened."""

    def __init__(self, first: Any) -> None:
        self._first = first

    def acquire(self) -> None:
        self._first()
        raise KeyboardInterrupt

    def release(self) -> None:
        pass


@pytest.mark.parametrize("handed", [False, True])
def test_who_is_interrupted_while_waiting_holds_nobody_up(handed: bool) -> None:
    """Also when the turn had just come to it."""
    queue, ticket = WriteQueue(), Ticket()
    holder = queue.turn()
    holder.__enter__()
    ticket._gate = Interrupted(  # type: ignore[assignment]
        (lambda: holder.__exit__(None, None, None)) if handed else (lambda: None)
    )
    with pytest.raises(KeyboardInterrupt), queue.turn(ticket):
        pass
    if not handed:
        holder.__exit__(None, None, None)
    assert not queue._taken
    with queue.turn():
        pass


def test_who_is_interrupted_after_it_was_taken_is_not_put_back() -> None:
    queue, ticket = WriteQueue(), small()
    taken: list[Ticket] = []
    ticket._gate = Interrupted(lambda: taken.extend(queue.take(1)))  # type: ignore[assignment]
    with queue.turn():
        with pytest.raises(KeyboardInterrupt), queue.turn(ticket):
            pass
        assert taken == [ticket]
        queue.put_back(taken)
    assert not queue._taken
