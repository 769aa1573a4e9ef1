"""Which small writes of one process are published together."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class GroupWrites(Struct, frozen=True, kw_only=True):
    """Publish small writes that wait for the same branch together, each as a commit of its own.

    >>> alone = og.GroupWrites(never_for=frozenset({"importer"}))
    >>> og.open("tasks.omni", group_writes=alone).close()

    Args:
        never_for: Actors whose writes are each published alone.
    """

    never_for: frozenset[str] = frozenset()

    def admits(self, actor: str | None) -> bool:
        """Whether the writes of an actor may be published with others."""
        return actor not in self.never_for


def never(_actor: str | None) -> bool:
    """Publish every write alone."""
    return False


def shared(wanted: GroupWrites | bool) -> Callable[[str | None], bool]:
    """Return what tells whose writes may be published with others."""
    if isinstance(wanted, GroupWrites):
        return wanted.admits
    return GroupWrites().admits if wanted else never
