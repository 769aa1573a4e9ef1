"""The state after a commit that was published together with later ones.

The manifest has no version for it: its tables are those before the group with the rows of the
commits up to it. Where that is neither the table before nor the table after the group, it is made
on demand as a version beside the branch of the table. Such versions are a cache: they are
remembered in this process only, no manifest names them, and a cleanup takes them. A handle that
must not write makes them in a folder of its own.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence

from msgspec.structs import replace

from omnigraph.bounded import BoundedCache
from omnigraph.catalog import AcceptedSchema, Entity
from omnigraph.commits.groups import Group, RowIds
from omnigraph.commits.history import History
from omnigraph.commits.manifest_reader import BranchState
from omnigraph.commits.records import GraphCommit
from omnigraph.commits.table_staging import stage_table
from omnigraph.errors import BadRequestError
from omnigraph.limits import INNER_STATES_MAX
from omnigraph.rows.changes import TableChange
from omnigraph.rows.table_schema import has_blobs, rows_schema
from omnigraph.store import (
    OPERATION_PROPERTY,
    Pin,
    Place,
    Table,
    Tables,
    commit_apart,
    commit_beside,
    copied_apart,
    id_filter,
)

_Key = tuple[str, int, int]
_NEVER = 0
"""No manifest version published these, so nothing is told from when they were published."""


class InnerStates:
    """Makes states inside groups, and remembers them."""

    def __init__(self, tables: Tables, *, writable: bool) -> None:
        self._tables = tables
        self._writable = writable
        self._made: BoundedCache[_Key, Place] = BoundedCache(INNER_STATES_MAX)
        self._own: tempfile.TemporaryDirectory[str] | None = None

    def state(
        self, after: BranchState, commit: GraphCommit, history: History, schema: AcceptedSchema
    ) -> BranchState:
        """Return the state a commit made, given the one its whole group made."""
        group = history.group_of(commit)
        if group is None or history.is_last(commit):
            return after
        pins = {
            key: pin if pin.seq != group.seq else self._pin(pin, group, commit, schema)
            for key, pin in after.pins.items()
        }
        return replace(after, head=commit, pins=pins, inner=True)

    def close(self) -> None:
        """Remove the folder of its own, if it has one."""
        if self._own is not None:
            self._own.cleanup()

    def _pin(self, pin: Pin, group: Group, commit: GraphCommit, schema: AcceptedSchema) -> Pin:
        """Return a table as it was after a commit of the group that moved it."""
        touched = [member.touched.get(pin.table_key, RowIds()) for member in group.members]
        until = [member.commit_id for member in group.members].index(commit.graph_commit_id) + 1
        earlier = sum_of(touched[:until])
        later = sum_of(touched[until:])
        if not later.all:
            return pin
        # On its own branch of the table the version before has the content of the one published
        # before, also where this is the first of a branch, or a restored one.
        count = pin.row_count - later.growth
        if not earlier.all:
            return replace(pin, version=pin.version - 1, row_count=count, seq=_NEVER)
        key = (pin.path, pin.version, until)
        made = self._made.get(key)
        if made is None or self._tables.is_gone(*made):
            entity = schema.catalog.entity_of_table(pin.table_key)
            made = self._make(pin, entity, earlier)
            self._made.put(key, made)
        return replace(pin, path=made[0], version=made[1], row_count=count, seq=_NEVER)

    def _make(self, pin: Pin, entity: Entity, earlier: RowIds) -> Place:
        after = self._tables.open(pin.path, pin.version)
        before = self._tables.open(pin.path, pin.version - 1)
        if not self._writable:
            before = self._copy(before)
        change = change_of(after, entity, earlier)
        staged = stage_table(before, change, {OPERATION_PROPERTY: f"state@{pin.version}"})
        commit = commit_beside if self._writable else commit_apart
        table = commit(self._tables, staged)
        return table.path, table.version

    def _copy(self, table: Table) -> Table:
        """Return a copy that can be written to, outside a graph that must not be."""
        if not self._tables.files.safe:
            self._own = self._own or tempfile.TemporaryDirectory(prefix="omnigraph-states-")
            name = uuid.uuid4().hex
            path = f"{table.path}@{name}"
            return copied_apart(self._tables, table, path, f"{self._own.name}/{name}")
        raise BadRequestError(
            "this commit was published together with later ones, and making the state between them "
            "readable writes small files, which a handle opened read-only must not",
            hint="open the graph read-write, or ask for the graph version, which holds all of them",
        )


def change_of(after: Table, entity: Entity, rows: RowIds) -> TableChange:
    """Return what commits of a group did to a table, given the table after all of them."""
    change = TableChange(entity, deleted=list(rows.deleted))
    if rows.written:
        schema, where = rows_schema(entity), id_filter("id", rows.written)
        written = after.scan(columns=schema.names, where=where, blob_bytes=has_blobs(entity))
        change.changed = written.cast(schema)
    return change


def sum_of(parts: Sequence[RowIds]) -> RowIds:
    """Return the rows that several commits touched; none is touched by two."""
    return RowIds(
        added=tuple(name for part in parts for name in part.added),
        changed=tuple(name for part in parts for name in part.changed),
        deleted=tuple(name for part in parts for name in part.deleted),
    )
