"""Packages that are not always installed, and the rooms of this one that rest on them.

A room that leaves work to one above it does not import that one: the package, which stands above
all rooms, says here how it is had.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_offered: dict[str, Callable[[], ModuleType]] = {}


def offer(room: str, load: Callable[[], ModuleType]) -> None:
    """Say how a room is had. Called by the package itself, before any of its rooms is there."""
    _offered[room] = load


def offered(room: str) -> ModuleType:
    """Return a room that may stand above the caller's; it is imported now, with what it needs."""
    return _offered[room]()


def active_session() -> SparkSession | None:
    """Return the session of Spark in use, None if there is none. Imports nothing."""
    started = sys.modules.get("pyspark.sql")
    return None if started is None else started.SparkSession.getActiveSession()


def needed(package: str, purpose: str, *, extra: str | None = None) -> ModuleType:
    """Import a package, or say in a sentence how to install it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        # Not before: the package itself imports this module, and should cost little.
        from omnigraph.errors import BadRequestError

        named = package if extra is None else f"'omnigraph[{extra}]'"
        raise BadRequestError(
            f"{purpose} needs {package}, which is not installed", hint=f"pip install {named}"
        ) from error
