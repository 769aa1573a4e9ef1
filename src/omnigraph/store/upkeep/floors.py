"""The durable floor of each branch: states below it may be gone, whatever files are still there.

A cleanup writes the floors before it removes anything, and they only rise. So a state is readable
or it is not, for every handle alike: a version that a late writer makes anew below the floor, or
one whose data went while its own file was kept, is never taken for history.

Who gives a state a name makes the name first and reads the floor then; a cleanup raises the floor
first and looks at the names then. One of the two always sees the other.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from omnigraph.errors import ConflictError, StorageError
from omnigraph.store.files.protocol import Files

FLOORS = "_floors.json"
FLOORS_FORMAT = 1


class Floor(Struct, frozen=True):
    """Which graph versions of a branch can still be read: from one on, and single ones below."""

    version: int = 0
    kept: tuple[int, ...] = ()

    def holds(self, version: int) -> bool:
        """Whether a version can be read."""
        return version >= self.version or version in self.kept

    def raised(self, other: Floor) -> Floor:
        """Return the floor after another cleanup: what was given up once stays given up."""
        kept = [item for item in other.kept if self.holds(item)]
        return Floor(max(self.version, other.version), tuple(sorted(kept)))


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    branches: dict[str, tuple[int, tuple[int, ...]]]


class Floors(Struct, frozen=True):
    """The floors of a graph by branch, as they were read. Without one, a branch is new."""

    data: bytes | None
    by_branch: Mapping[str, Floor]

    def raised(self, wanted: Mapping[str, Floor]) -> dict[str, Floor]:
        """Return the floors of the branches that exist after a cleanup; others are forgotten."""
        known = self.by_branch
        return {name: known.get(name, Floor()).raised(floor) for name, floor in wanted.items()}


def read_floors(files: Files, root: str) -> Floors:
    """Return the floors of a graph."""
    data = files.read(_path(root))
    return Floors(data, _decoded(data, root))


def write_floors(files: Files, root: str, before: Floors, floors: Mapping[str, Floor]) -> Floors:
    """Replace the floors; they are durable when this returns. Needs the control slot.

    Raises `ConflictError` when they are no longer those that were read: an owner that lost its
    slot without knowing can do nothing to what another cleanup wrote.
    """
    if before.data is None and all(floor.version <= 1 for floor in floors.values()):
        # Nothing is given up yet.
        return before
    branches = {name: (floor.version, floor.kept) for name, floor in sorted(floors.items())}
    data = msgspec.json.encode(_Stored(format=FLOORS_FORMAT, branches=branches))
    if data != before.data and not files.replace_if(_path(root), before.data, data, sync=True):
        raise ConflictError("another cleanup is running", hint="try again")
    return Floors(data, dict(floors))


def _path(root: str) -> str:
    return f"{root}/{FLOORS}"


def _decoded(data: bytes | None, root: str) -> dict[str, Floor]:
    if data is None:
        return {}
    try:
        stored = msgspec.json.decode(data, type=_Stored)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StorageError(
            f"{_path(root)} is damaged: {error}", hint="restore it from a backup"
        ) from error
    return {name: Floor(version, kept) for name, (version, kept) in stored.branches.items()}
