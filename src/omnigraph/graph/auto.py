"""Maintenance in the background of a long-lived handle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from omnigraph.errors import OmniGraphError


class AutoMaintenance:
    """Runs some work in a thread of its own after every so many commits, one at a time.

    Writers never wait for it, and it never fails them: what went wrong is kept in `last_error`.
    """

    def __init__(self, work: Callable[[], object], *, every: int) -> None:
        self._work = work
        self._every = every
        self._lock = threading.Lock()
        self._commits = 0
        self._running: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="omnigraph-maintenance")
        self.last_error: OmniGraphError | None = None
        self.runs = 0

    def note_commit(self) -> None:
        """Count a commit, and start the work when it is time and the last run has ended."""
        with self._lock:
            self._commits += 1
            busy = self._running is not None and not self._running.done()
            if self._commits < self._every or busy:
                return
            self._commits = 0
            self._running = self._pool.submit(self._run)

    def _run(self) -> None:
        try:
            self._work()
            self.runs += 1
            self.last_error = None
        except OmniGraphError as error:
            self.last_error = error

    def close(self) -> None:
        """Wait for a run that is under way, and start no more."""
        self._pool.shutdown()
