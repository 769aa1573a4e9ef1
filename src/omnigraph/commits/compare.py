"""What changed in a type's table between two published states."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.catalog import Entity
from omnigraph.rows.images import RowChanges, row_changes
from omnigraph.rows.table_schema import has_blobs, rows_schema
from omnigraph.store import Pin, Tables, table_delta


def table_changes(
    tables: Tables, entity: Entity, before: Pin | None, after: Pin | None, *, descends: bool
) -> RowChanges | None:
    """Return what turns one published version into the other; None when nothing does.

    `descends` says that the second grew out of the first. A type one side does not know yet
    counts as empty there.
    """
    if not may_differ(before, after):
        return None
    schema = rows_schema(entity)
    blobs = has_blobs(entity)
    if before is None or after is None:
        empty = schema.empty_table()
        old = empty if before is None else _all_rows(tables, before, schema, blobs)
        new = empty if after is None else _all_rows(tables, after, schema, blobs)
    else:
        delta = table_delta(
            tables.open(before.path, before.version),
            tables.open(after.path, after.version),
            schema.names,
            descends=descends,
            blob_bytes=blobs,
        )
        old, new = delta.before.cast(schema), delta.after.cast(schema)
    changes = row_changes(old, new)
    return None if changes.is_empty else changes


def may_differ(before: Pin | None, after: Pin | None) -> bool:
    """Whether two published versions of a table have to be looked at."""
    if before is None or after is None:
        return before is not after
    same = (before.path, before.version) == (after.path, after.version)
    return not same and bool(before.row_count or after.row_count)


def _all_rows(tables: Tables, pin: Pin, schema: pa.Schema, blobs: bool) -> pa.Table:
    table = tables.open(pin.path, pin.version)
    return table.scan(columns=schema.names, blob_bytes=blobs).cast(schema)
