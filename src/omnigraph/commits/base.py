"""What a write reads: the captured graph, table by table, with the reads it rests on recorded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from omnigraph.catalog import AcceptedSchema, EdgeType, Entity
from omnigraph.commits.manifest_reader import BranchState
from omnigraph.limits import PROBE_KEYS_MAX, SCAN_INSTEAD_OF_PROBE_MIN
from omnigraph.rows.table_schema import has_blobs, rows_schema
from omnigraph.store import IdLookup, Pin, Table, Tables, id_filter


class StoredRows(Struct, kw_only=True):
    """Tables at the versions that are `pins`; `read_pins` are those a decision rests on.

    A process that has no branch open can be handed some of them.
    """

    accepted: AcceptedSchema | None
    tables: Tables
    id_lookup: IdLookup
    pins: Mapping[str, Pin]
    read_pins: dict[str, int] = field(default_factory=dict)

    @property
    def schema(self) -> AcceptedSchema:
        """The schema of the state. Operations on tables as such are made without one."""
        if self.accepted is None:
            raise AssertionError("the operation did not say which schema it was made for")
        return self.accepted

    def pin(self, entity: Entity) -> Pin:
        """Return the published version of a type's table and record that it was read."""
        pin = self.pins[entity.table_key]
        self.read_pins[entity.table_key] = pin.version
        return pin

    def table(self, entity: Entity) -> Table:
        """Open a type's table at its published version."""
        pin = self.pin(entity)
        return self.tables.open(pin.path, pin.version)

    def row_count(self, entity: Entity) -> int:
        """Return how many rows a type has; 0 means that there is nothing to look at."""
        return self.pin(entity).row_count

    def scan(
        self, entity: Entity, columns: Sequence[str], where: str | None, *, blobs: bool = False
    ) -> pa.Table:
        """Return rows that match a filter, and maybe some that do not; `blobs` as bytes."""
        return self.table(entity).scan(columns=columns, where=where, blob_bytes=blobs)

    def existing_ids(self, entity: Entity, ids: Collection[str]) -> set[str]:
        """Return those of the ids that exist."""
        if not ids or self.pin(entity).row_count == 0:
            return set()
        if len(ids) < SCAN_INSTEAD_OF_PROBE_MIN:
            return self.id_lookup.existing(self.table(entity), ids)
        column = self.table(entity).scan(columns=["id"])["id"]
        wanted = pa.array(list(ids), pa.string())
        return set(wanted.filter(pc.is_in(wanted, value_set=column.combine_chunks())).to_pylist())

    def rows_where(self, entity: Entity, column: str, values: Sequence[str]) -> pa.Table:
        """Return committed rows whose id or endpoint is one of the values, blobs as bytes."""
        table = self.table(entity)
        blobs = has_blobs(entity)
        parts = [
            table.scan(
                columns=rows_schema(entity).names,
                where=id_filter(column, values[start : start + PROBE_KEYS_MAX]),
                blob_bytes=blobs,
            )
            for start in range(0, len(values), PROBE_KEYS_MAX)
        ]
        return pa.concat_tables(parts) if parts else None

    def edge_ends(self, entity: EdgeType, column: str, values: Sequence[str]) -> pa.Table:
        """Return id, src and dst of committed edges with one of these endpoints."""
        columns = ["id", "src", "dst"]
        if not values or self.pin(entity).row_count == 0:
            return pa.table({name: pa.array([], pa.string()) for name in columns})
        table = self.table(entity)
        if len(values) >= SCAN_INSTEAD_OF_PROBE_MIN:
            rows = table.scan(columns=columns)
            return rows.filter(pc.is_in(rows[column], value_set=pa.array(values, pa.string())))
        parts = [
            table.scan(
                columns=columns, where=id_filter(column, values[start : start + PROBE_KEYS_MAX])
            )
            for start in range(0, len(values), PROBE_KEYS_MAX)
        ]
        return pa.concat_tables(parts)


class Base(StoredRows, kw_only=True):
    """The captured state of a branch."""

    capture: BranchState
