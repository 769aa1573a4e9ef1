"""Fixtures of the fault tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.matrix import Stage
from tests.faults.victim import Zygote

MEMORY = "/dev/shm"  # noqa: S108 - only a place, the folder in it is private
MEMORY_BYTES_MIN = 200_000_000


def _place() -> str | None:
    """Return a disk in memory if there is one: these tests copy and remove many small files."""
    if not os.path.isdir(MEMORY) or not os.access(MEMORY, os.W_OK):
        return None
    found = os.statvfs(MEMORY)
    return MEMORY if found.f_bavail * found.f_frsize > MEMORY_BYTES_MIN else None


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="omnigraph-", dir=_place()) as folder:
        yield Stage(Path(folder))


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as found:
        yield found
