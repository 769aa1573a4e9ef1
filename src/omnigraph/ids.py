"""Identifiers: ULIDs for commits and operations, and the rules for branch names."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable

_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_RANDOM_BITS = 80
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
TAIL_CHARS = 8
_TAIL_BITS = 40
_SHIFTS = range(125, -1, -5)
_DRAWN_AT_ONCE = 64


class UlidSource:
    """Hands out ULIDs that grow, also within one millisecond and across threads.

    The clock (seconds) and the random source (bytes) are parameters so that tests can replay.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        entropy: Callable[[int], bytes] | None = None,
    ) -> None:
        self._clock = clock
        self._entropy = entropy or _drawn_ahead
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> str:
        """Return a ULID greater than every one returned before."""
        return _spelled(self._claim(1))

    def run(self, size: int) -> tuple[str, int]:
        """Reserve many growing ULIDs: the part they share, and the number their rest starts at.

        The rest is `TAIL_CHARS` characters of `ALPHABET`, counting up from that number.
        """
        first = self._claim(size)
        return _spelled(first)[:-TAIL_CHARS], first & ((1 << _TAIL_BITS) - 1)

    def _claim(self, size: int) -> int:
        """Reserve a run of values that does not carry beyond the last characters."""
        # Asked before the lock: the system may let other threads run meanwhile.
        randomness = int.from_bytes(self._entropy(_RANDOM_BITS // 8), "big")
        with self._lock:
            milliseconds = int(self._clock() * 1000)
            value = (milliseconds << _RANDOM_BITS) | randomness
            if value <= self._last:
                # Not just the next one: a forked process goes on from the same last one.
                value = self._last + 1 + (randomness >> _TAIL_BITS)
            room = (1 << _TAIL_BITS) - (value & ((1 << _TAIL_BITS) - 1))
            if size > room:
                value += room
            self._last = value + size - 1
            return value


def _spelled(value: int) -> str:
    """Return a number of 128 bits as a ULID: 26 characters of five bits, the first of three."""
    return "".join([ALPHABET[(value >> shift) & 31] for shift in _SHIFTS])


_ahead: deque[bytes] = deque()
"""Randomness asked of the system for several ids at once: each time, all threads pause."""
# A process and its child must not hand out the same.
os.register_at_fork(after_in_child=_ahead.clear)


def _drawn_ahead(size: int) -> bytes:
    while True:
        try:
            chunk = _ahead.popleft()
        except IndexError:
            drawn = os.urandom(size * _DRAWN_AT_ONCE)
            _ahead.extend(drawn[at : at + size] for at in range(0, len(drawn), size))
            continue
        if len(chunk) == size:
            return chunk


def is_ulid(text: str) -> bool:
    """Whether a text is a ULID in canonical spelling."""
    return _ULID.fullmatch(text) is not None
