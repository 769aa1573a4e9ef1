"""Memory of large answers, which allocators keep for the next one, goes back to the machine."""

from __future__ import annotations

import contextlib
import ctypes
import traceback
from collections.abc import Iterator

import pyarrow as pa

from omnigraph.errors import OmniGraphError, ResourceLimitError
from omnigraph.limits import MEMORY_RETURNED_BYTES
from omnigraph.read.running import QueryControl


def return_memory() -> None:
    """Give the memory back that nothing is in. It takes some milliseconds for each gigabyte."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def took_much(running: QueryControl) -> bool:
    """Whether a query took so much memory that giving it back is worth the time."""
    return running.reserved_bytes >= MEMORY_RETURNED_BYTES


@contextlib.contextmanager
def returned_if_refused(running: QueryControl) -> Iterator[None]:
    """Give the memory of a query back that is refused half-way, before the caller looks at why."""
    try:
        yield
    except OmniGraphError as error:
        if took_much(running) or isinstance(error, ResourceLimitError):
            # Its frames hold what they had made for as long as there is the error, and an error in
            # a cycle of references is there until the next collection.
            traceback.clear_frames(error.__traceback__)
            return_memory()
        raise
