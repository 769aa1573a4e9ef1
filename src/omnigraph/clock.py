"""Clocks: the moment for records, elapsed time that a sleeping machine cannot hide, and pauses.

Everything that decides by time asks here, so a test can move the clock instead of waiting.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Protocol

_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """What tells the time of a process."""

    def now_us(self) -> int:
        """Return the current moment, in microseconds since 1970, UTC."""

    def elapsed_s(self) -> float:
        """Return seconds on a clock that never goes back."""

    def sleep(self, seconds: float) -> None:
        """Pause."""


class SystemClock:
    """The clock of the machine."""

    def now_us(self) -> int:
        """Return the current moment, in microseconds since 1970, UTC."""
        return time.time_ns() // 1000

    def elapsed_s(self) -> float:
        """Return seconds on a clock that never goes back and goes on while the machine sleeps."""
        if _BOOT_CLOCK is None:
            return time.monotonic()
        return time.clock_gettime(_BOOT_CLOCK)

    def sleep(self, seconds: float) -> None:
        """Pause."""
        time.sleep(seconds)


_clock: Clock = SystemClock()


@contextlib.contextmanager
def using(clock: Clock) -> Iterator[None]:
    """Let another clock tell the time of the whole process, all threads, while the block runs."""
    global _clock
    before, _clock = _clock, clock
    try:
        yield
    finally:
        _clock = before


def now_us() -> int:
    """Return the current moment, in microseconds since 1970, UTC."""
    return _clock.now_us()


def now_s() -> float:
    """Return the current moment, in seconds since 1970, UTC."""
    return _clock.now_us() / 1e6


def elapsed_s() -> float:
    """Return seconds on a clock that never goes back and goes on while the machine sleeps.

    A lease that others see lapse must lapse for its owner too, whatever stopped it.
    """
    return _clock.elapsed_s()


def sleep(seconds: float) -> None:
    """Pause."""
    _clock.sleep(seconds)
