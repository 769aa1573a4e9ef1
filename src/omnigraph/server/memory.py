"""How a process that runs for weeks holds memory."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Callable, Mapping

import pyarrow as pa

from omnigraph.limits import SERVER_MEMORY_KEPT_BYTES, SERVER_MEMORY_LOOK_S
from omnigraph.read.memory import return_memory

_M_MXFAST, _M_MMAP_THRESHOLD, _M_ARENA_MAX = 1, -3, -8
ARENAS = 2
MAPPED_BYTES = 4 * 1024 * 1024


def save_memory(environ: Mapping[str, str]) -> None:
    """Let memory that is free be used again by every thread, before there are many of them.

    Else each thread keeps what it once needed, and so does Arrow: a sixth more in the end. What
    the environment says about it comes first.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" not in environ:
        pa.set_memory_pool(pa.system_memory_pool())
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        if "MALLOC_ARENA_MAX" not in environ:
            library.mallopt(_M_ARENA_MAX, ARENAS)
        if "MALLOC_MMAP_THRESHOLD_" not in environ:
            # Larger columns have pages of their own, which go back as soon as they are free. Left
            # alone, glibc puts ever larger ones between small pieces that stay. With 256 KiB, two
            # hops over 100,000 edges took a third longer: new pages have their price.
            library.mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
        # Small pieces that are free are joined with what is free beside them: else the next ones
        # come from ever new pages, and holes stay between those that are kept.
        library.mallopt(_M_MXFAST, 0)


def resident_bytes() -> int | None:
    """Return the memory this process holds; None where that cannot be asked."""
    try:
        with open("/proc/self/statm", encoding="ascii") as told:
            return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def give_memory_back(
    resident: Callable[[], int | None] = resident_bytes,
    give_back: Callable[[], None] = return_memory,
) -> None:
    """Let a thread give memory back that many small requests, or connections, have left behind."""
    threading.Thread(target=_look, args=(resident, give_back), name="memory", daemon=True).start()


def _look(resident: Callable[[], int | None], give_back: Callable[[], None]) -> None:
    kept = now = resident()
    never = threading.Event()
    never.wait(SERVER_MEMORY_LOOK_S)
    # What is there by now stays: without it, looking for cycles takes no time worth mentioning.
    gc.collect()
    gc.freeze()
    while kept is not None and now is not None:
        # When there is less, much was freed, and what is between the pieces that stay was not.
        if abs(now - kept) > SERVER_MEMORY_KEPT_BYTES:
            # Clients that hung up leave tasks and errors behind that refer to each other.
            gc.collect()
            give_back()
            kept = resident()
        never.wait(SERVER_MEMORY_LOOK_S)
        now = resident()
