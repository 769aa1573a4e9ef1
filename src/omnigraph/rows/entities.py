"""Rows as the JSON people exchange: envelopes that a load reads back exactly."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import FLOATS, EdgeType, Entity, PropertyType, Scalar
from omnigraph.errors import QueryError
from omnigraph.rows.blobs import encode_blob


def envelopes(entity: Entity, rows: pa.Table) -> Iterator[dict[str, object]]:
    """Yield rows as envelopes, in their order."""
    ids = rows["id"].to_pylist()
    columns = [
        _json_values(rows[p.name].combine_chunks(), p.type, f"{entity.name}.{p.name}")
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


def _json_values(column: pa.Array, declared: PropertyType, place: str) -> list[object]:
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
        if not pc.all(finite, min_count=0).as_py():
            raise QueryError(f"{place} holds a number that JSON cannot express")
    return list(column.to_pylist())
