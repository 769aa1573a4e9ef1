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
        with self._lock:
            milliseconds = int(self._clock() * 1000)
            randomness = int.from_bytes(self._entropy(_RANDOM_BITS // 8), "big")
            value = (milliseconds << _RANDOM_BITS) | randomness
            self._last = value if value > self._last else self._last + 1
            return str(ULID.from_int(self._last))


def _os_entropy(size: int) -> bytes:
    import os

    return os.urandom(size)


def is_ulid(text: str) -> bool:
    """Whether a text is a ULID in canonical spelling."""
    return _ULID.match(text) is not None
