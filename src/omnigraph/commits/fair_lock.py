"""Writers of one process take turns on a branch, in the order they came."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class FairLock:
    """A lock whose next holder is who has waited longest.

    A plain lock may go to whoever asks at the right moment, so that somebody waits for seconds
    while others write again and again.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._guard:
            if not self._taken:
                self._taken = True
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append(gate)
        try:
            gate.acquire()
        except BaseException:
            self._give_up(gate)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._guard:
            self._pass_on()

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting.popleft().release()
        else:
            self._taken = False

    def _give_up(self, gate: threading.Lock) -> None:
        """Leave the queue, or pass on the turn that came while this was interrupted."""
        with self._guard:
            if gate in self._waiting:
                self._waiting.remove(gate)
            else:
                self._pass_on()
