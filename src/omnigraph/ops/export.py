"""Writes a snapshot as envelopes that a load reads back exactly."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import msgspec

from omnigraph.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import NotFoundError, StorageError
from omnigraph.store import Table, quoted
from omnigraph.write.entities import envelopes
from omnigraph.write.table_schema import has_blobs, rows_schema

Entity = NodeType | EdgeType
BATCH_ROWS = 8192


def select_tables(
    catalog: Catalog, tables: Mapping[str, Table], types: tuple[str, ...]
) -> list[str]:
    """Return table keys in export order: nodes before edges, so that a stream can be loaded."""
    known = {entity.name for entity in catalog.entities()}
    for name in types:
        if name not in known:
            raise NotFoundError(f"unknown export type '{name}'")
    wanted = [e for e in catalog.entities() if not types or e.name in types]
    return [e.table_key for e in wanted if e.table_key in tables]


def export_rows(
    catalog: Catalog, table_key: str, table: Table, *, only_id: str | None = None
) -> Iterator[dict[str, object]]:
    """Yield the envelopes of one table, by id."""
    kind, _, name = table_key.partition(":")
    entity: Entity = catalog.edges[name] if kind == "edge" else catalog.nodes[name]
    where = None if only_id is None else f"id = {quoted(only_id)}"
    rows = table.scan(where=where, blob_bytes=has_blobs(entity)).select(rows_schema(entity).names)
    rows = rows.sort_by("id")
    for start in range(0, rows.num_rows, BATCH_ROWS):
        yield from envelopes(entity, rows.slice(start, BATCH_ROWS))


def export_envelopes(
    catalog: Catalog, tables: Mapping[str, Table], types: tuple[str, ...]
) -> Iterator[dict[str, object]]:
    """Return the envelopes of several tables, in export order; unknown types fail at once."""
    keys = select_tables(catalog, tables, types)
    return (row for key in keys for row in export_rows(catalog, key, tables[key]))


def export_lines(
    catalog: Catalog,
    tables: Mapping[str, Table],
    types: tuple[str, ...],
    dest: str | os.PathLike[str],
    *,
    last: Mapping[str, object] | None = None,
    durable: bool = False,
) -> int:
    """Write envelopes as JSONL; the file appears only when it is complete.

    `last` is a line of its own after them. Returns the number of envelopes.
    """
    target = os.fspath(dest)
    temporary = f"{target}.partial"
    encoder = msgspec.json.Encoder()
    lines = 0
    try:
        with open(temporary, "wb", buffering=1 << 20) as handle:
            for envelope in export_envelopes(catalog, tables, types):
                handle.write(encoder.encode(envelope))
                handle.write(b"\n")
                lines += 1
            if last is not None:
                handle.write(encoder.encode(last))
                handle.write(b"\n")
            if durable:
                handle.flush()
                os.fsync(handle.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror}") from error
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return lines
