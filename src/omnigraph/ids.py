"""Identifiers: ULIDs for commits and operations, and the rules for branch names."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import NewType

from ulid import ULID

CommitId = NewType("CommitId", str)
OperationId = NewType("OperationId", str)

_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}\Z")
_RANDOM_BITS = 80
_TAIL_CHARS = 8
_TAIL_BITS = 40
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(a + b for a in _ALPHABET for b in _ALPHABET)


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
        self._entropy = entropy or _os_entropy
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> str:
        """Return a ULID greater than every one returned before."""
        return str(ULID.from_int(self._claim(1)))

    def batch(self, size: int) -> list[str]:
        """Return many growing ULIDs at once."""
        first = self._claim(size)
        head = str(ULID.from_int(first))[:-_TAIL_CHARS]
        tail = first & ((1 << _TAIL_BITS) - 1)
        # The claim left room, so only the last characters differ.
        return [head + _crockford(tail + offset) for offset in range(size)]

    def _claim(self, size: int) -> int:
        """Reserve a run of values that does not carry beyond the last characters."""
        with self._lock:
            milliseconds = int(self._clock() * 1000)
            randomness = int.from_bytes(self._entropy(_RANDOM_BITS // 8), "big")
            value = max((milliseconds << _RANDOM_BITS) | randomness, self._last + 1)
            room = (1 << _TAIL_BITS) - (value & ((1 << _TAIL_BITS) - 1))
            if size > room:
                value += room
            self._last = value + size - 1
            return value


def _crockford(value: int) -> str:
    high, low = divmod(value, 1 << 20)
    return _PAIRS[high >> 10] + _PAIRS[high & 1023] + _PAIRS[low >> 10] + _PAIRS[low & 1023]


def _os_entropy(size: int) -> bytes:
    import os

    return os.urandom(size)


def is_ulid(text: str) -> bool:
    """Whether a text is a ULID in canonical spelling."""
    return _ULID.match(text) is not None
