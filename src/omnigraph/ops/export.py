"""Writes a snapshot as envelopes that a load reads back exactly."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import msgspec
import pyarrow as pa

from omnigraph.catalog import Catalog, EdgeType, Entity
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.rows.entities import envelopes
from omnigraph.rows.table_schema import has_blobs, rows_schema
from omnigraph.store import Table, new_local_file, quoted
from omnigraph.wording import names_hint

BATCH_ROWS = 8192


def select_tables(
    catalog: Catalog, tables: Mapping[str, Table], types: tuple[str, ...]
) -> list[str]:
    """Return table keys in export order: nodes before edges, so that a stream can be loaded."""
    known = {entity.name for entity in catalog.entities()}
    for name in types:
        if name not in known:
            raise NotFoundError(
                f"unknown export type '{name}'", hint=names_hint(name, sorted(known))
            )
    wanted = [e for e in catalog.entities() if not types or e.name in types]
    return [e.table_key for e in wanted if e.table_key in tables]


def type_of_table(table_key: str) -> str:
    """Return the type whose rows a table holds. Raises `BadRequestError`."""
    kind, separator, name = table_key.partition(":")
    if kind not in ("node", "edge") or not separator or not name:
        raise BadRequestError(
            f"{table_key!r} is not a table key", hint="use node:Type or edge:Type"
        )
    return name


def export_rows(
    catalog: Catalog, table_key: str, table: Table, *, only_id: str | None = None
) -> Iterator[dict[str, object]]:
    """Yield the envelopes of one table, by id."""
    entity = catalog.entity_of_table(table_key)
    rows = _rows(entity, table, only_id)
    for start in range(0, rows.num_rows, BATCH_ROWS):
        yield from envelopes(entity, rows.slice(start, BATCH_ROWS))


def export_table(catalog: Catalog, table_key: str, table: Table) -> pa.Table:
    """Return one table as Arrow, by id, with the columns that `load_table` takes."""
    entity = catalog.entity_of_table(table_key)
    ends = {"src": "from", "dst": "to"} if isinstance(entity, EdgeType) else {}
    rows = _rows(entity, table)
    return rows.rename_columns([ends.get(name, name) for name in rows.column_names])


def _rows(entity: Entity, table: Table, only_id: str | None = None) -> pa.Table:
    where = None if only_id is None else f"id = {quoted(only_id)}"
    rows = table.scan(where=where, blob_bytes=has_blobs(entity)).select(rows_schema(entity).names)
    return rows.sort_by("id")


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
    encoder = msgspec.json.Encoder()
    lines = 0
    with new_local_file(os.fspath(dest), durable=durable) as handle:
        for envelope in export_envelopes(catalog, tables, types):
            handle.write(encoder.encode(envelope))
            handle.write(b"\n")
            lines += 1
        if last is not None:
            handle.write(encoder.encode(last))
            handle.write(b"\n")
    return lines
