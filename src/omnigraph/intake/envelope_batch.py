"""Reads many envelopes of one type at once, if nothing about them is unusual.

Arrow parses as strictly as line by line reading does: a member twice, a foreign one, or a value of
another kind is refused. What Arrow cannot tell apart, and whatever is wrong, is left to the reader
of lines, which knows what to say about it. So this never decides that something is an error, and
what it accepts means the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import FLOATS, INTEGERS, EdgeType, Entity, Property, Scalar
from omnigraph.rows.arrow_columns import cast_column
from omnigraph.rows.convert import column_array
from omnigraph.rows.table_schema import rows_schema

_BLOCK_BYTES_MIN = 1 << 18


class _Unusual(Exception):
    """Something that is to be read line by line."""


class BatchParser:
    """Parses the envelopes of one type."""

    def __init__(self, entity: Entity) -> None:
        self._entity = entity
        self._schema = rows_schema(entity)
        data = [pa.field("id", pa.string())]
        data += [pa.field(name, _json_type(item)) for name, item in entity.properties.items()]
        head = [("type", pa.string())]
        if isinstance(entity, EdgeType):
            head = [(name, pa.string()) for name in ("edge", "from", "to", "id")]
        self._envelope = pa.schema([*head, ("data", pa.struct(data))])

    def parse(self, lines: Sequence[bytes]) -> pa.Table | None:
        """Return the rows of lines without surrounding blanks; None if not all are plain."""
        try:
            return self._parse(lines)
        except (_Unusual, pa.ArrowException):
            return None

    def _parse(self, lines: Sequence[bytes]) -> pa.Table:
        from pyarrow import json

        text = b"\n".join(lines)
        longest = max(map(len, lines))
        table = json.read_json(
            pa.BufferReader(text),
            json.ReadOptions(block_size=max(_BLOCK_BYTES_MIN, 2 * longest, len(text) // 4)),
            json.ParseOptions(explicit_schema=self._envelope, unexpected_field_behavior="error"),
        )
        if table.num_rows != len(lines):
            raise _Unusual
        table.validate(full=True)
        data = table["data"].combine_chunks()
        if data.null_count:
            raise _Unusual
        columns = dict(zip(data.type.names, data.flatten(), strict=True))
        arrays: list[pa.Array] = []
        for name in self._schema.names:
            if name in ("src", "dst"):
                ends = table["from" if name == "src" else "to"].combine_chunks()
                if ends.null_count:
                    raise _Unusual
                arrays.append(ends)
            elif name == "id":
                ids = columns[name]
                if isinstance(self._entity, EdgeType):
                    ids = _one_of(ids, table[name].combine_chunks())
                if columns[name].null_count:
                    _only_absent(text, name, ids)
                arrays.append(ids)
            else:
                arrays.append(_column(text, self._entity.properties[name], columns[name]))
        return pa.Table.from_arrays(arrays, schema=self._schema)


def _one_of(in_data: pa.Array, beside: pa.Array) -> pa.Array:
    """Return ids that are given in either place, in none of the rows in both."""
    if in_data.null_count == len(in_data):
        return beside
    if pc.any(pc.and_(pc.is_valid(in_data), pc.is_valid(beside))).as_py():
        raise _Unusual
    return pc.coalesce(in_data, beside)


def _column(text: bytes, declared: Property, column: pa.Array) -> pa.Array:
    if column.null_count and (declared.has_default or not declared.type.nullable):
        # An absent value may be fine where a null is not, or mean something else.
        _only_absent(text, declared.name, column)
        if declared.required and declared.embedding is None and not declared.has_default:
            raise _Unusual
        if declared.has_default and declared.default is not None:
            column = _filled(column, declared.default)
    flat = column.flatten() if declared.type.is_list or _is_vector(declared) else column
    if pa.types.is_floating(flat.type) and not pc.all(pc.is_finite(flat), min_count=0).as_py():
        raise _Unusual
    if flat is not column and flat.null_count:
        raise _Unusual
    if declared.type.is_list and pa.types.is_string(flat.type):
        return column_array(column.to_pylist(), declared.type, _refuse)
    return cast_column(column, declared.type, _refuse)


def _filled(column: pa.Array, default: object) -> pa.Array:
    if isinstance(default, tuple | list):
        values = [list(default) if value is None else value for value in column.to_pylist()]
        return pa.array(values, column.type)
    try:
        return pc.fill_null(column, pa.scalar(default, column.type))
    except (TypeError, ValueError) as error:
        raise _Unusual from error


def _only_absent(text: bytes, name: str, column: pa.Array) -> None:
    """Go on only if every null of a column is a member that is not there."""
    if text.count(f'"{name}"'.encode()) != len(column) - column.null_count:
        raise _Unusual


def _refuse(_row: int | None, _message: str) -> None:
    raise _Unusual


def _is_vector(declared: Property) -> bool:
    return declared.type.scalar is Scalar.VECTOR


def _json_type(declared: Property) -> pa.DataType:
    scalar = declared.type.scalar
    json_type = pa.string()
    if scalar is Scalar.BOOL:
        json_type = pa.bool_()
    elif scalar in INTEGERS:
        json_type = pa.int64()
    elif scalar in FLOATS or scalar is Scalar.VECTOR:
        json_type = pa.float64()
    return pa.list_(json_type) if declared.type.is_list or scalar is Scalar.VECTOR else json_type
