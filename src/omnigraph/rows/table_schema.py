"""Storage schema of a type's table, and rows in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from omnigraph.bounded import BoundedCache
from omnigraph.catalog import EdgeType, Entity, Scalar, TypeKind
from omnigraph.compute.types import Column, arrow_type
from omnigraph.limits import ROW_SCHEMAS_MAX
from omnigraph.rows.spill import release_mapped
from omnigraph.store import batch_rows, blob_array, blob_field, primary_key_field

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


def table_folder(kind: TypeKind, name: str) -> str:
    """Return where a type's first table lives: a hash of its name, so any name is a path."""
    value = _FNV_OFFSET
    for byte in name.encode():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return f"{kind}s/{value:016x}"


def table_schema(entity: Entity) -> pa.Schema:
    """Return the Arrow schema a type is stored with: implicit columns, then properties by name."""
    fields = [primary_key_field("id")]
    if isinstance(entity, EdgeType):
        fields += [pa.field(name, pa.string(), nullable=False) for name in ("src", "dst")]
    for declared in entity.properties.values():
        nullable = declared.type.nullable
        if declared.type.scalar is Scalar.BLOB:
            fields.append(blob_field(declared.name, nullable=nullable))
        else:
            fields.append(pa.field(declared.name, arrow_type(declared.type), nullable=nullable))
    return pa.schema(fields)


_ROWS_SCHEMAS: BoundedCache[int, tuple[Entity, pa.Schema]] = BoundedCache(ROW_SCHEMAS_MAX)


def rows_schema(entity: Entity) -> pa.Schema:
    """Return the schema rows have in memory: as stored, but blobs are plain bytes."""
    known = _ROWS_SCHEMAS.get(id(entity))
    # A type that is remembered is kept alive, so no other has its identity.
    if known is not None and known[0] is entity:
        return known[1]
    schema = _rows_schema(entity)
    _ROWS_SCHEMAS.put(id(entity), (entity, schema))
    return schema


def _rows_schema(entity: Entity) -> pa.Schema:
    fields = [pa.field("id", pa.string())]
    if isinstance(entity, EdgeType):
        fields += [pa.field(name, pa.string()) for name in ("src", "dst")]
    fields += [pa.field(p.name, arrow_type(p.type)) for p in entity.properties.values()]
    return pa.schema(fields)


def rows_from_values(entity: Entity, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Return rows given as plain values (already of the right types) as a table."""
    schema = rows_schema(entity)
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def stored_rows(entity: Entity, rows: pa.Table) -> pa.Table:
    """Return in-memory rows as the table stores them."""
    schema = table_schema(entity)
    columns: list[Column] = []
    for field in schema:
        column = rows[field.name]
        declared = entity.properties.get(field.name)
        if declared is not None and declared.type.scalar is Scalar.BLOB:
            columns.append(blob_array(column.to_pylist()))
        else:
            columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def stored_batches(
    entity: Entity, rows: pa.Table, *, mapped: bool
) -> pa.Table | pa.RecordBatchReader:
    """Return rows as the table stores them: a table, or a reader if they are many.

    Of `mapped` rows only a batch at a time is in memory.
    """
    at_once = batch_rows(rows)
    if rows.num_rows <= at_once and not mapped:
        return stored_rows(entity, rows)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows.to_batches(max_chunksize=at_once):
            yield from stored_rows(entity, pa.Table.from_batches([batch])).to_batches()
            if mapped:
                release_mapped()

    return pa.RecordBatchReader.from_batches(table_schema(entity), batches())


def has_blobs(entity: Entity) -> bool:
    """Whether rows of a type carry blobs, which a scan must be told to read."""
    return any(p.type.scalar is Scalar.BLOB for p in entity.properties.values())
