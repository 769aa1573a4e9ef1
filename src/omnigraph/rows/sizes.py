"""The size of an entity as a line of JSON: what is stored can be exported, and loaded again."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.catalog import Entity
from omnigraph.compute.types import Column
from omnigraph.errors import QueryError
from omnigraph.limits import LINE_BYTES_MAX
from omnigraph.rows.entities import envelopes
from omnigraph.rows.problems import Problem, Problems

_ESCAPED = 6
"""Bytes that one of a text takes at most: a control character is written as six."""

_NUMBER = 26
"""Bytes that a number takes at most, with its comma."""


def check_sizes(entity: Entity, rows: pa.Table, problems: Problems) -> None:
    """Report rows that a line cannot hold. Only what may be too large is looked at closely."""
    fixed = 256 + sum(len(name) * _ESCAPED + _NUMBER + 8 for name in entity.properties)
    if rows.nbytes * _ESCAPED + fixed <= LINE_BYTES_MAX:
        return
    most = np.full(rows.num_rows, fixed, np.int64)
    for name in rows.column_names:
        most += _bounds(rows[name])
    for row in np.flatnonzero(most > LINE_BYTES_MAX).tolist():
        size = _line_bytes(entity, rows.slice(row, 1))
        if size > LINE_BYTES_MAX:
            entity_id = rows["id"][row].as_py()
            problems.add(
                Problem(
                    message=f"the entity takes {size} bytes as a line of JSON; "
                    f"the limit is {LINE_BYTES_MAX}",
                    type_name=entity.name,
                    entity_id=entity_id,
                    line=problems.line_of(entity.table_key, entity_id),
                    table_key=entity.table_key,
                )
            )


def _line_bytes(entity: Entity, row: pa.Table) -> int:
    try:
        (envelope,) = envelopes(entity, row)
    except QueryError:
        # A number that is not finite; it is reported as that.
        return 0
    return len(msgspec.json.encode(envelope))


def _bounds(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return what each value of a column takes at most, beside its name."""
    kind = column.type
    if pa.types.is_string(kind):
        return _lengths(pc.binary_length(column)) * _ESCAPED
    if pa.types.is_large_binary(kind):
        return _lengths(pc.binary_length(column)) * 4 // 3 + 16
    if pa.types.is_list(kind):
        return np.concatenate([_list_bounds(chunk) for chunk in column.chunks] or [_NONE])
    if pa.types.is_fixed_size_list(kind):
        return np.full(len(column), kind.list_size * _NUMBER, np.int64)
    return np.zeros(len(column), np.int64)


_NONE = np.zeros(0, np.int64)


def _list_bounds(lists: pa.Array) -> NDArray[np.int64]:
    items = lists.flatten()
    owners = np.asarray(pc.list_parent_indices(lists), np.int64)
    sizes = np.full(len(items), _NUMBER, np.int64)
    if pa.types.is_string(items.type):
        sizes = sizes + _lengths(pc.binary_length(items)) * _ESCAPED
    return np.bincount(owners, weights=sizes, minlength=len(lists)).astype(np.int64)


def _lengths(lengths: Column) -> NDArray[np.int64]:
    return np.asarray(pc.fill_null(lengths, 0), np.int64)
