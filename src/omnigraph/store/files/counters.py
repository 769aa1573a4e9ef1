"""Counts what an operation does to storage. Always on; a test reads them instead of a clock."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from contextvars import ContextVar

_active: ContextVar[tuple[Counter[str], ...]] = ContextVar("omnigraph_counters", default=())


def count(name: str, amount: int = 1) -> None:
    """Add to a counter of every operation being measured in this context."""
    for counters in _active.get():
        counters[name] += amount


@contextlib.contextmanager
def measured() -> Iterator[Counter[str]]:
    """Measure the storage work done inside the block (nested blocks count in both)."""
    counters: Counter[str] = Counter()
    token = _active.set((*_active.get(), counters))
    try:
        yield counters
    finally:
        _active.reset(token)
