"""A published table version by name: what a graph's state is made of, and all that a read needs."""

from __future__ import annotations

from msgspec import Struct

from omnigraph.store.tables.branches import split_branch

Place = tuple[str, int]
"""Where rows lie: a branch of a table, and a version of it."""


class Pin(Struct, frozen=True, kw_only=True):
    """The published version of one table as of a manifest version."""

    table_key: str
    incarnation: int
    path: str
    version: int
    row_count: int
    transaction_uuid: str
    seq: int

    @property
    def place(self) -> Place:
        """Where the published rows lie; numbers alone may agree by chance between two branches."""
        return self.path, self.version

    @property
    def table_branch(self) -> str | None:
        """The branch of the table, None for its main one."""
        return split_branch(self.path)[1]
