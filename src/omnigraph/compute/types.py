"""Arrow types of schema types."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

from omnigraph.catalog import PropertyType, Scalar

Column: TypeAlias = pa.Array | pa.ChunkedArray
"""One value for each row."""

Value: TypeAlias = pa.Array | pa.ChunkedArray | pa.Scalar
"""One value for each row, or the same one for all."""

_SCALARS = {
    Scalar.STRING: pa.string(),
    Scalar.BLOB: pa.large_binary(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: pa.timestamp("ms", tz="UTC"),
}


def arrow_type(declared_type: PropertyType) -> pa.DataType:
    """Return the Arrow type values of a schema type have in memory."""
    if declared_type.scalar is Scalar.VECTOR:
        return pa.list_(pa.float32(), declared_type.vector_dim)
    if declared_type.scalar is Scalar.OBJECT:
        return pa.struct([(name, arrow_type(declared)) for name, declared in declared_type.fields])
    element = _SCALARS[declared_type.scalar]
    return pa.list_(element) if declared_type.is_list else element
