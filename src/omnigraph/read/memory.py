"""Memory of large answers, which allocators keep for the next one, goes back to the machine."""

from __future__ import annotations

import ctypes

import pyarrow as pa

from omnigraph.limits import MEMORY_RETURNED_BYTES
from omnigraph.read.running import Running


def return_memory() -> None:
    """Give the memory back that nothing is in. It takes some milliseconds for each gigabyte."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def took_much(running: Running) -> bool:
    """Whether a query took so much memory that giving it back is worth the time."""
    return running.reserved_bytes >= MEMORY_RETURNED_BYTES
