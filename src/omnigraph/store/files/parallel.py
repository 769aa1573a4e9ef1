"""Runs the same call for several things at once, as if one after the other."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def side_by_side(
    call: Callable[[Item], Found], items: Iterable[Item], *, at_once: int
) -> list[Found]:
    """Return the answers in the order of the items.

    Every call has ended when this returns or raises; of several failures the first is raised.
    """
    todo = list(items)
    if at_once <= 1 or len(todo) <= 1:
        return [call(item) for item in todo]
    with ThreadPoolExecutor(min(at_once, len(todo)), thread_name_prefix="omnigraph") as pool:
        # Work is counted where it was asked for.
        futures = [pool.submit(contextvars.copy_context().run, call, item) for item in todo]
    return [future.result() for future in futures]
