"""Writes a snapshot as envelopes that a load reads back exactly."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import FLOATS, Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.errors import NotFoundError, QueryError, StorageError
from omnigraph.store import Table, quoted
from omnigraph.write.blobs import encode_blob
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
        yield from _envelopes(entity, rows.slice(start, BATCH_ROWS))


def export_envelopes(
    catalog: Catalog, tables: Mapping[str, Table], types: tuple[str, ...]
) -> Iterator[dict[str, object]]:
    """Return the envelopes of several tables, in export order; unknown types fail at once."""
    keys = select_tables(catalog, tables, types)
    return (row for key in keys for row in export_rows(catalog, key, tables[key]))


def _envelopes(entity: Entity, rows: Any) -> Iterator[dict[str, object]]:
    ids = rows["id"].to_pylist()
    columns = [
        _plain(rows[p.name].combine_chunks(), p.type, f"{entity.name}.{p.name}")
        for p in entity.properties.values()
    ]
    names = list(entity.properties)
    values = zip(*columns, strict=True) if columns else iter([()] * len(ids))
    if isinstance(entity, EdgeType):
        ends = zip(rows["src"].to_pylist(), rows["dst"].to_pylist(), strict=True)
        for entity_id, (src, dst), row in zip(ids, ends, values, strict=True):
            data = {"id": entity_id, **dict(zip(names, row, strict=True))}
            yield {"edge": entity.name, "from": src, "to": dst, "data": data}
        return
    for entity_id, row in zip(ids, values, strict=True):
        data = {"id": entity_id, **dict(zip(names, row, strict=True))}
        yield {"type": entity.name, "data": data}


def _plain(column: Any, declared: PropertyType, place: str) -> list[Any]:
    """Return a column as JSON values: dates as days, instants as milliseconds, blobs as text."""
    scalar = declared.scalar
    if declared.is_list and scalar in (Scalar.DATE, Scalar.DATETIME):
        inner = pa.int32() if scalar is Scalar.DATE else pa.int64()
        return list(pc.cast(column, pa.list_(inner)).to_pylist())
    if scalar is Scalar.DATE:
        return list(pc.cast(column, pa.int32()).to_pylist())
    if scalar is Scalar.DATETIME:
        return list(pc.cast(column, pa.int64()).to_pylist())
    if scalar is Scalar.BLOB:
        return [None if v is None else encode_blob(v) for v in column.to_pylist()]
    if scalar in FLOATS and not declared.is_list:
        finite = pc.fill_null(pc.is_finite(column), True)
        if not pc.all(finite).as_py():
            raise QueryError(f"{place} holds a number that JSON cannot express")
    return list(column.to_pylist())


def export_lines(
    catalog: Catalog,
    tables: Mapping[str, Table],
    types: tuple[str, ...],
    dest: str | os.PathLike[str],
) -> int:
    """Write envelopes as JSONL; the file appears only when it is complete."""
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
        os.replace(temporary, target)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror}") from error
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return lines
