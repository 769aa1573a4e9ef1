"""Shows at a terminal that a command is still at work, and for how long."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress

SHOWN_AFTER_S: Final = 1.0


class Waiting:
    """A line on stderr with what is done and the time so far, gone when it is done.

    It appears after a second, so a fast command shows nothing; without a terminal it never does.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._done = False
        self._line: Progress | None = None
        self._timer = threading.Timer(SHOWN_AFTER_S, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._timer.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._done = True
            if self._line is not None:
                self._line.stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with self._lock:
            if not self._done:
                console = Console(file=sys.stderr)
                self._line = Progress(*columns, console=console, transient=True)
                self._line.add_task(self._what)
                self._line.start()
