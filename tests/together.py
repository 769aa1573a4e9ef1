"""Writes that wait for a branch at the same moment, so that one publish takes all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import omnigraph as og

Job = Callable[[], Any]


def run_together(graph: og.Session, jobs: Sequence[Job], *, branch: str = "main") -> list[Any]:
    """Run writes that queue up in this order behind a turn; return answers, or errors raised."""
    queue = graph._engine.lines.get(branch).writer.queue
    with ThreadPoolExecutor(len(jobs)) as pool:
        with queue.turn():
            running = []
            for number, job in enumerate(jobs):
                running.append(pool.submit(job))
                _wait_for(queue, number + 1, running[-1])
        return [item.exception() or item.result() for item in running]


def _wait_for(queue: Any, number: int, running: Future[Any]) -> None:
    deadline = time.monotonic() + 60
    while len(queue._waiting) < number:
        assert not running.done(), running.exception()
        assert time.monotonic() < deadline, "a write did not come to the queue"
        time.sleep(0.001)
