"""Changes of rows, per table, before anything is staged. All of it is data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from msgspec import Struct, field

from omnigraph.catalog import Entity, TypeKind


class RowFile(Struct, frozen=True, kw_only=True):
    """A file with rows of one type that workers can read.

    `piece` is the part of the input they are from; `ids` names a file with ids that replace theirs,
    `dropped` one with the lines of rows that do not count. `named` rows came with their id.
    """

    path: str
    rows: int
    named: int = 0
    piece: int = 0
    ids: str | None = None
    dropped: str | None = None


class RowsElsewhere(Struct, frozen=True, kw_only=True):
    """Rows that do not pass through this process; workers write them. No id is in two files."""

    files: tuple[RowFile, ...]
    may_replace: bool
    """Whether some of them may take the place of rows that are there."""


class TableChange(Struct):
    """The change of one table: final rows by id, and ids that go.

    `added` rows have ids the base does not have, `changed` rows replace base rows. With
    `replaced` the base counts as empty: the added rows are the whole new content. `mapped` rows
    lie in a temporary file, and reading them should not fill the memory. Of rows that lie
    `elsewhere` only ids, ends and unique columns need be here; their values were checked there.
    """

    entity: Entity
    added: pa.Table | None = None
    changed: pa.Table | None = None
    deleted: list[str] = field(default_factory=list)
    replaced: bool = False
    mapped: bool = False
    elsewhere: RowsElsewhere | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not (self.replaced or self.deleted or self.elsewhere or self.row_count)

    @property
    def row_count(self) -> int:
        """Number of rows written."""
        added = 0 if self.added is None else self.added.num_rows
        return added if self.changed is None else added + self.changed.num_rows

    @property
    def written_rows(self) -> int:
        """Number of rows written, here or by workers."""
        files = () if self.elsewhere is None else self.elsewhere.files
        return max(self.row_count, sum(item.rows for item in files))

    def rows(self) -> pa.Table | None:
        """Return added and changed rows together, None when there are none."""
        parts = [part for part in (self.added, self.changed) if part is not None and part.num_rows]
        if len(parts) == 1:
            return parts[0]
        return pa.concat_tables(parts) if parts else None

    def ids(self) -> list[str]:
        """Return the ids of added and changed rows."""
        rows = self.rows()
        return [] if rows is None else list(rows["id"].to_pylist())


def counts_of_kind(counts: Mapping[str, int], kind: str) -> dict[str, int]:
    """Return numbers by table key as numbers by type name, those of nodes or of edges."""
    own = {key: number for key, number in sorted(counts.items()) if key.startswith(f"{kind}:")}
    return {key.removeprefix(f"{kind}:"): number for key, number in own.items()}


class TableChanges(Struct):
    """Changes of rows, by table key."""

    tables: dict[str, TableChange] = field(default_factory=dict)

    def of(self, entity: Entity) -> TableChange:
        """Return the change of a type's table, creating an empty one."""
        return self.tables.setdefault(entity.table_key, TableChange(entity))

    def get(self, kind: TypeKind, name: str) -> TableChange | None:
        """Return the change of a type's table, if it has one."""
        return self.tables.get(f"{kind}:{name}")

    def effective(self) -> Iterator[TableChange]:
        """Yield the changes of rows that do something, by table key."""
        for key in sorted(self.tables):
            if not self.tables[key].is_empty:
                yield self.tables[key]
