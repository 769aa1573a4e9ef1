"""A query under way: how long it may take, whether it was cancelled, and what its steps did."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from omnigraph.clock import elapsed_s
from omnigraph.errors import QueryError, ResourceLimitError
from omnigraph.values.results import Stage as Stage


@dataclass(slots=True, kw_only=True)
class Running:
    """What the caller wants of a query besides its answer."""

    timeout_s: float | None = None
    cancel: threading.Event | None = None
    trace: bool = False
    stages: list[Stage] = field(default_factory=list)
    estimate: float = 1.0
    _begun: float = field(default_factory=elapsed_s)

    def check(self) -> None:
        """Stop a query that was cancelled or has had its time."""
        if self.cancel is not None and self.cancel.is_set():
            raise QueryError("the query was cancelled")
        if self.timeout_s is None:
            return
        taken = elapsed_s() - self._begun
        if taken > self.timeout_s:
            raise ResourceLimitError(
                resource="milliseconds of a query",
                limit=int(self.timeout_s * 1e3),
                actual=int(taken * 1e3),
                hint="narrow the pattern, or give it more time",
            )


class Sized(Protocol):
    """What a step leaves: so many rows."""

    @property
    def size(self) -> int:
        """Number of rows."""


F = TypeVar("F", bound=Sized)
_current: ContextVar[Running | None] = ContextVar("omnigraph_query", default=None)


@contextlib.contextmanager
def watched(running: Running) -> Iterator[None]:
    """Run a query so that its steps can be stopped and are recorded."""
    token = _current.set(running)
    try:
        yield
    finally:
        _current.reset(token)


def checkpoint() -> None:
    """Stop here if the query may not go on. Called wherever rows are made."""
    running = _current.get()
    if running is not None:
        running.check()


def traced(text: Callable[[], str], work: Callable[[], F], grows: Callable[[], float]) -> F:
    """Do a step; when somebody wants to know, record it.

    `grows` says by how much the step was expected to multiply the rows before it.
    """
    running = _current.get()
    if running is None or not running.trace:
        return work()
    begun = elapsed_s()
    frame = work()
    seconds = elapsed_s() - begun
    running.estimate *= grows()
    running.stages.append(
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
