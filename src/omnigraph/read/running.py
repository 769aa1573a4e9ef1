"""A query under way: how long it may take, whether it was cancelled, and what its steps did."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from omnigraph.clock import elapsed_s
from omnigraph.errors import QueryError, ResourceLimitError
from omnigraph.limits import QUERY_MEMORY, QUERY_MEMORY_SHARE, QUERY_TIME
from omnigraph.values.results import Stage as Stage


class QueryControl(Struct, kw_only=True):
    """What the caller wants of a query besides its answer."""

    timeout_s: float | None = None
    memory_bytes: int | None = None
    """The most memory of one table that is made on the way; None for a share of the machine."""
    cancel: threading.Event | None = None
    trace: bool = False
    stages: list[Stage] = field(default_factory=list)
    estimate: float = 1.0
    repeating: bool = False
    reserved_bytes: int = 0
    """Memory of the largest table that was made on the way."""
    _begun: float = field(default_factory=elapsed_s)

    def record(self, stage: Stage) -> None:
        """Note what a step did; one that is done again, for more rows, stays one."""
        for index, known in enumerate(self.stages if self.repeating else ()):
            if known.text == stage.text:
                rows, seconds = known.rows + stage.rows, known.seconds + stage.seconds
                self.stages[index] = msgspec.structs.replace(known, rows=rows, seconds=seconds)
                return
        self.stages.append(stage)

    def check(self) -> None:
        """Stop a query that was cancelled or has had its time."""
        if self.cancel is not None and self.cancel.is_set():
            raise QueryError("the query was cancelled")
        if self.timeout_s is None:
            return
        taken = elapsed_s() - self._begun
        if taken > self.timeout_s:
            raise out_of_time(self.timeout_s, taken)


def out_of_time(timeout_s: float, taken_s: float) -> ResourceLimitError:
    """Return what a query that had its time is told."""
    return ResourceLimitError(
        f"the query took longer than the {timeout_s:g} seconds it may take",
        resource=QUERY_TIME,
        limit=math.ceil(timeout_s * 1e3),
        actual=math.ceil(taken_s * 1e3),
        hint="narrow the pattern, or give it more time",
    )


def out_of_memory(name: str) -> ResourceLimitError:
    """Return what is told of a query that the machine had no memory for."""
    limit = memory_share()
    return ResourceLimitError(
        f"query '{name}' needs more memory than there is",
        resource=QUERY_MEMORY,
        limit=limit,
        actual=limit,
        hint="narrow the pattern, return fewer columns, or count instead of listing",
    )


class Sized(Protocol):
    """What a step leaves: so many rows."""

    @property
    def size(self) -> int:
        """Number of rows."""


F = TypeVar("F", bound=Sized)
_current: ContextVar[QueryControl | None] = ContextVar("omnigraph_query", default=None)


class watched:
    """Run a query so that its steps can be stopped and are recorded."""

    def __init__(self, running: QueryControl) -> None:
        self._running = running

    def __enter__(self) -> None:
        self._token = _current.set(self._running)

    def __exit__(self, *_error: object) -> None:
        _current.reset(self._token)


def checkpoint() -> None:
    """Stop here if the query may not go on. Called wherever rows are made."""
    running = _current.get()
    if running is not None:
        running.check()


def is_traced() -> bool:
    """Whether the steps of the query are recorded."""
    running = _current.get()
    return running is not None and running.trace


def reserve(size_bytes: float) -> None:
    """Refuse to make a table that memory is not meant for, before it is made."""
    checkpoint()
    running = _current.get()
    limit = None if running is None else running.memory_bytes
    if limit is None:
        limit = memory_share()
    if size_bytes > limit:
        raise ResourceLimitError(
            resource=QUERY_MEMORY,
            limit=limit,
            actual=int(size_bytes),
            hint="narrow the pattern, return fewer columns, or count instead of listing",
        )
    if running is not None:
        running.reserved_bytes = max(running.reserved_bytes, int(size_bytes))


def memory_share() -> int:
    """Return how much memory one table of a query may take, unless it was said."""
    return machine_bytes() // QUERY_MEMORY_SHARE


def machine_bytes() -> int:
    """Return the memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextlib.contextmanager
def apart(*, again: bool = False) -> Iterator[None]:
    """Estimate rows of steps that start anew, and go on with the estimate from before.

    With `again` they are the same steps for more rows.
    """
    running = _current.get()
    if running is not None:
        running.repeating = again
    before = 1.0 if running is None else running.estimate
    if running is not None:
        running.estimate = 1.0
    try:
        yield
    finally:
        if running is not None:
            running.estimate = before


def traced(text: Callable[[], str], work: Callable[[], F], grows: Callable[[], float]) -> F:
    """Do a step; when the query is traced, record it.

    `grows` says by how much the step was expected to multiply the rows before it.
    """
    running = _current.get()
    if running is None or not running.trace:
        return work()
    begun = elapsed_s()
    frame = work()
    seconds = elapsed_s() - begun
    running.estimate *= grows()
    running.record(
        Stage(
            text=text(),
            estimated_rows=round(running.estimate),
            rows=frame.size,
            seconds=seconds,
        )
    )
    return frame


def noted(text: str, rows: int, begun: float) -> None:
    """Record something that was not expected to leave a certain number of rows."""
    running = _current.get()
    if running is not None and running.trace:
        seconds = elapsed_s() - begun
        running.stages.append(Stage(text=text, estimated_rows=None, rows=rows, seconds=seconds))
