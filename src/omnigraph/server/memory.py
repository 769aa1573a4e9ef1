"""How a process that runs for weeks holds memory."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import pyarrow as pa

_M_ARENA_MAX = -8
ARENAS = 2


def save_memory(environ: Mapping[str, str]) -> None:
    """Let memory that is free be used again by every thread, before there are many of them.

    Else each thread keeps what it once needed, and so does Arrow: a sixth more in the end. What
    the environment says about it comes first.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" not in environ:
        pa.set_memory_pool(pa.system_memory_pool())
    library = ctypes.CDLL(None)
    if "MALLOC_ARENA_MAX" not in environ and hasattr(library, "mallopt"):
        library.mallopt(_M_ARENA_MAX, ARENAS)
