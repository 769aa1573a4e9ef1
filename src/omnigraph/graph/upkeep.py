"""Upkeep in the background of a long-lived handle: small files joined, old states removed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from msgspec import Struct

from omnigraph.clock import elapsed_s
from omnigraph.errors import BadRequestError, OmniGraphError
from omnigraph.limits import (
    CLEANUP_GRACE_S,
    RETAIN_S,
    RETAIN_VERSIONS,
    RETAIN_VERSIONS_MAX,
    UPKEEP_COMMITS,
    UPKEEP_S,
)
from omnigraph.ops.cleanup import Retention


class Upkeep(Struct, frozen=True, kw_only=True):
    """When a handle looks after its graph by itself, and which states stay.

    >>> og.open("tasks.omni", upkeep=og.Upkeep(keep=50)).close()

    Args:
        every_commits: It is time after so many commits of this handle.
        every_s: Or at the first commit after so many seconds.
        keep: Newest states of each branch that stay.
        older_than_s: States younger than this stay, too.
        most: The newest states of each branch that stay for their age at most.
        grace_s: States that were current less than this ago stay: a reader may use them.
        optimize: Whether branches written to are optimized as well.
    """

    every_commits: int = UPKEEP_COMMITS
    every_s: float = UPKEEP_S
    keep: int = RETAIN_VERSIONS
    older_than_s: float = RETAIN_S
    most: int | None = RETAIN_VERSIONS_MAX
    grace_s: float = CLEANUP_GRACE_S
    optimize: bool = True

    def __post_init__(self) -> None:
        if self.every_commits < 1 or self.every_s <= 0:
            raise BadRequestError("upkeep needs a number of commits, and a time, above 0")
        if self.most is not None and self.most < 1:
            raise BadRequestError("at least one version must be kept")
        self.retention()

    def retention(self) -> Retention:
        """Return which states stay."""
        most = None if self.most is None else max(self.most, self.keep)
        return Retention(
            keep=self.keep, older_than_s=self.older_than_s, most=most, grace_s=self.grace_s
        )

    @classmethod
    def of(cls, wanted: Upkeep | bool) -> Upkeep | None:
        """Return the settings that True or False stand for."""
        if isinstance(wanted, Upkeep):
            return wanted
        return cls() if wanted else None


class Caretaker:
    """Does the upkeep of a handle in a thread of its own, one run at a time.

    Writers never wait for it, and it never fails them: what went wrong is kept in `last_error`.
    """

    def __init__(self, upkeep: Upkeep, work: Callable[[frozenset[str]], object]) -> None:
        self._upkeep = upkeep
        self._work = work
        self._lock = threading.Lock()
        self._commits = 0
        self._written: set[str] = set()
        self._since = elapsed_s()
        self._running: Future[None] | None = None
        self._begun: Future[None] | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False
        self.last_error: OmniGraphError | None = None
        self.runs = 0

    def note_commit(self, branch: str, commits: int = 1) -> None:
        """Count commits, and start the work when it is time and the last run has ended."""
        with self._lock:
            self._commits += commits
            self._written.add(branch)
            busy = self._running is not None and not self._running.done()
            due = (
                self._commits >= self._upkeep.every_commits
                or elapsed_s() - self._since >= self._upkeep.every_s
            )
            if not due or busy or self._closed:
                return
            written, self._written = frozenset(self._written), set()
            self._commits, self._since = 0, elapsed_s()
            self._running = self._submit(lambda: self._work(written))

    def begin(self, work: Callable[[], object]) -> bool:
        """Do something after what is under way; False if that is not possible any more."""
        with self._lock:
            if not self._closed:
                self._begun = self._submit(work)
            return not self._closed

    def _submit(self, work: Callable[[], object]) -> Future[None]:
        if self._pool is None:
            # Made when it is first needed: most handles never come to it.
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="omnigraph-upkeep")
        return self._pool.submit(self._run, work)

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
            self.runs += 1
            self.last_error = None
        except OmniGraphError as error:
            self.last_error = error

    def wait(self) -> None:
        """Wait for what is under way."""
        with self._lock:
            under_way = self._running, self._begun
        for work in under_way:
            if work is not None:
                work.result()

    def close(self) -> None:
        """Wait for a run that is under way, and start no more."""
        with self._lock:
            self._closed = True
            pool = self._pool
        if pool is not None:
            pool.shutdown()
