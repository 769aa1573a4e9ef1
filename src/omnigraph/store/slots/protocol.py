"""Slots: the one-owner files that say "I am about to move tables of this branch".

Slots give order and progress; the exact publish gives safety. On a local disk an owner holds a
lock, in an object store a lease; other processes see the same thing.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Protocol, Self

from omnigraph.store.files.durability import Syncer
from omnigraph.store.files.local_files import LocalFiles
from omnigraph.store.files.location import Location
from omnigraph.store.slots.leases import LeasedSlots
from omnigraph.store.slots.locks import LockedSlots

RECOVERY_FOLDER = "__recovery"


class HeldSlot(Protocol):
    """A slot this process owns. A context manager: leaving it always frees the slot's owner."""

    name: str
    body: bytes

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    @property
    def lapsed(self) -> bool:
        """Whether another process may have taken the slot over: its owner was out for too long."""

    def rewrite(self, body: bytes) -> None:
        """Replace the body. Only before the first effect: a torn body was never armed."""

    def remove(self) -> None:
        """Delete the slot, if it is still ours, and stop owning it."""

    def close(self) -> None:
        """Stop owning the slot and leave it where it is."""


class Slots(Protocol):
    """The slots in one folder of a graph."""

    def take(self, name: str, body: bytes) -> HeldSlot | None:
        """Create a slot; None when the name is held."""

    def seize(self, name: str) -> HeldSlot | None:
        """Take over the slot of a dead owner; None when it is gone or its owner may live."""

    def peek(self, name: str) -> tuple[bytes, bool] | None:
        """Return a slot's body and whether its owner may live; None when it is gone."""

    def exists(self, name: str) -> bool:
        """Whether there is a slot of this name."""

    def names(self) -> list[str]:
        """List every slot."""

    def wait_until_known(self, names: Iterable[str]) -> None:
        """Wait until it can be told which of these owners live, if that takes time."""

    def wait(self, name: str, *, timeout_s: float) -> bool:
        """Wait until a slot is gone or its owner is; False when it is still held."""

    def remove_unfinished(self) -> int:
        """Remove what owners left that died before their slot had a name."""


def open_slots(location: Location, syncer: Syncer, *, folder: str = RECOVERY_FOLDER) -> Slots:
    """Return the slots in a folder of a graph, wherever it lives."""
    place = location.path(folder) if folder else location.root
    if isinstance(location.files, LocalFiles):
        return LockedSlots(place, syncer)
    return LeasedSlots(place, location.files)
