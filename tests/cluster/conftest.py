"""Folders with a `cluster.yaml`, the command line, and processes that die."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.folders import Folder
from tests.faults.conftest import _place
from tests.faults.victim import Zygote
from tests.integration.conftest import cli

__all__ = ["cli"]


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder that costs no waiting for a disk, where there is such a thing."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-", dir=_place()) as found:
        yield Path(found)


@pytest.fixture
def folder(memory: Path) -> Folder:
    return Folder(memory / "c")


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as found:
        yield found
