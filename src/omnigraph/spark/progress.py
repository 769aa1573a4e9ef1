"""Tells a listener how far a load is: stage by stage, with rows and tasks."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One look at a stage: `start`, `plan`, `parse`, `duplicates`, `check`, `write`, `publish`.

    Together they are the whole load; `start` is the time until there is a session.
    While it runs, `tasks_done` of `tasks` are known in a classic session; its rows at the end.
    """

    name: str
    seconds: float
    rows: int = 0
    tasks_done: int = 0
    tasks: int = 0
    finished: bool = False

    @property
    def rows_per_s(self) -> float:
        """Rows of a finished stage per second."""
        return self.rows / max(self.seconds, 1e-3)


Listener = Callable[[Stage], None]


class Counter:
    """Where a stage notes its rows."""

    rows = 0


class Reporter:
    """Runs stages and reports them; without a listener it does nothing."""

    def __init__(self, session: SparkSession, listener: Listener | None) -> None:
        self._session = session
        self._listener = listener

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[Counter]:
        """Report a stage while the block runs, and once it has ended well."""
        counter = Counter()
        if self._listener is None:
            yield counter
            return
        start = time.monotonic()
        ended = threading.Event()
        arguments = (self._listener, name, start, ended)
        watch = threading.Thread(target=self._watch, args=arguments, daemon=True)
        watch.start()
        try:
            yield counter
        finally:
            ended.set()
            watch.join()
        seconds = time.monotonic() - start
        self._listener(Stage(name=name, seconds=seconds, rows=counter.rows, finished=True))

    def _watch(self, listener: Listener, name: str, start: float, ended: threading.Event) -> None:
        while not ended.wait(POLL_S):
            done, total = self._tasks()
            seconds = time.monotonic() - start
            listener(Stage(name=name, seconds=seconds, tasks_done=done, tasks=total))

    def _tasks(self) -> tuple[int, int]:
        try:
            tracker = self._session.sparkContext.statusTracker()
            infos = [tracker.getStageInfo(item) for item in tracker.getActiveStageIds()]
        except Exception:
            # A Connect session has no tracker, and a stopped one no answer: neither matters here.
            return 0, 0
        known = [item for item in infos if item is not None]
        return (
            sum(int(item.numCompletedTasks) for item in known),
            sum(int(item.numTasks) for item in known),
        )
