"""Clocks: the moment for records, and elapsed time that a sleeping machine cannot hide."""

from __future__ import annotations

import time

_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def now_us() -> int:
    """Return the current moment, in microseconds since 1970, UTC."""
    return time.time_ns() // 1000


def elapsed_s() -> float:
    """Return seconds on a clock that never goes back and goes on while the machine sleeps.

    A lease that others see lapse must lapse for its owner too, whatever stopped it.
    """
    if _BOOT_CLOCK is None:
        return time.monotonic()
    return time.clock_gettime(_BOOT_CLOCK)
