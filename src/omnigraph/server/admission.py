"""How much one actor may have under way."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator

from omnigraph.errors import TooManyRequestsError
from omnigraph.limits import ACTOR_RETRY_AFTER_S

ANONYMOUS = "anonymous"


class Admission:
    """Counts the writes and bytes of each actor in flight, and refuses what is too much."""

    def __init__(self, *, writes_max: int, bytes_max: int) -> None:
        self._writes_max = writes_max
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._writes: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    @contextlib.contextmanager
    def admit(self, actor: str | None, size_bytes: int) -> Iterator[None]:
        """Hold a place for one write. Raises `TooManyRequestsError`."""
        name = ANONYMOUS if actor is None else actor
        with self._lock:
            if self._writes[name] >= self._writes_max:
                raise self._refusal(f"{self._writes_max} writes of '{name}' are in flight")
            if self._bytes[name] + size_bytes > self._bytes_max:
                raise self._refusal(f"the writes of '{name}' in flight hold too many bytes")
            self._writes[name] += 1
            self._bytes[name] += size_bytes
        try:
            yield
        finally:
            with self._lock:
                self._writes[name] -= 1
                self._bytes[name] -= size_bytes
                if not self._writes[name]:
                    del self._writes[name], self._bytes[name]

    def _refusal(self, message: str) -> TooManyRequestsError:
        return TooManyRequestsError(message, retry_after_s=ACTOR_RETRY_AFTER_S)
