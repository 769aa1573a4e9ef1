"""Commits that were published together: one manifest version, one version of each table.

No row is touched by two of them. So the image of a row before its commit is in the table version
before the group, the image after it in the version after, and all that has to be kept is which
rows each commit touched.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct


class RowIds(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"added": "+", "changed": "~", "deleted": "-"},
):
    """The rows of one table that one commit touched."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        """The rows that have a new image."""
        return (*self.added, *self.changed)

    @property
    def all(self) -> frozenset[str]:
        """Every row touched."""
        return frozenset((*self.added, *self.changed, *self.deleted))

    @property
    def growth(self) -> int:
        """By how many rows the table grew."""
        return len(self.added) - len(self.deleted)


Touched = Mapping[str, RowIds]
"""The rows a commit touched, by table key."""


class GroupMember(Struct, frozen=True, kw_only=True):
    """One commit of a group, and what it touched."""

    commit_id: str
    touched: Touched


class Group(Struct, frozen=True, kw_only=True):
    """The commits of one manifest version, in their order, if there are several."""

    seq: int
    members: tuple[GroupMember, ...]

    def touched_by(self, commit_id: str) -> Touched:
        """Return what one of the commits touched."""
        return next(item.touched for item in self.members if item.commit_id == commit_id)

    def author(self, table_key: str, entity_id: str) -> str | None:
        """Return the commit that touched a row, if one did."""
        for item in self.members:
            ids = item.touched.get(table_key)
            if ids is not None and entity_id in ids.all:
                return item.commit_id
        return None
