"""What the client does beside its requests, where a program that must not wait does it in a thread.

`omnigraph.remote.aio.waiting` has the same functions for `asyncio`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def aside(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Do work that reads or writes files."""
    return work(*args, **options)


def for_aside(ask: Callable[[], T]) -> Callable[[], T]:
    """Return how work that is done aside asks the server something."""
    return ask


def parts_for_aside(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Return the parts of an answer as work that is done aside takes them."""
    return parts
