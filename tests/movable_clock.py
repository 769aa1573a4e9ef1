"""A clock that tests move instead of waiting."""

from __future__ import annotations

import threading

from omnigraph.clock import SystemClock


class MovableClock(SystemClock):
    """The clock of the machine, set ahead by as much as a test says. A sleep is such a step.

    Use it with `omnigraph.clock.using`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ahead_s = 0.0

    def advance(self, seconds: float) -> None:
        """Set the clock ahead."""
        with self._lock:
            self._ahead_s += seconds

    def now_us(self) -> int:
        """Return the current moment as this clock has it."""
        return super().now_us() + int(self._ahead_s * 1e6)

    def elapsed_s(self) -> float:
        """Return elapsed seconds as this clock has them."""
        return super().elapsed_s() + self._ahead_s

    def sleep(self, seconds: float) -> None:
        """Return at once, with the pause over."""
        self.advance(seconds)
