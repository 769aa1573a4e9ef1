"""Fixtures of the fault tests."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.store.slots import leases
from tests.faults.matrix import Stage
from tests.faults.victim import Zygote
from tests.places import AnyPath, new_prefix

MEMORY = "/dev/shm"  # noqa: S108 - only a place, the folder in it is private
MEMORY_BYTES_MIN = 200_000_000
LEASE_S = 0.6


def _place() -> str | None:
    """Return a disk in memory if there is one: these tests copy and remove many small files."""
    if not os.path.isdir(MEMORY) or not os.access(MEMORY, os.W_OK):
        return None
    found = os.statvfs(MEMORY)
    return MEMORY if found.f_bavail * found.f_frsize > MEMORY_BYTES_MIN else None


@pytest.fixture(scope="module")
def folder(backend: str, request: pytest.FixtureRequest) -> Iterator[AnyPath]:
    """An empty place for the graphs of a module."""
    if backend == "s3":
        with pytest.MonkeyPatch.context() as patch:
            # The owners here are dead: there is no need to give them long.
            patch.setattr(leases, "LEASE_S", LEASE_S)
            patch.setattr(leases, "LEASE_MARGIN_S", 0.1)
            yield new_prefix(request.getfixturevalue("s3").bucket)
        return
    with tempfile.TemporaryDirectory(prefix="omnigraph-", dir=_place()) as found:
        yield Path(found)


@pytest.fixture
def place(folder: AnyPath) -> AnyPath:
    """An empty place for the graphs of one test."""
    return folder / secrets.token_hex(4)


@pytest.fixture(scope="module")
def stage(folder: AnyPath) -> Stage:
    return Stage(folder)


@pytest.fixture(scope="module")
def zygote(backend: str) -> Iterator[Zygote]:
    with Zygote() as found:
        yield found
