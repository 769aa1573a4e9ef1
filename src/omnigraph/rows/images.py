"""Compares rows value by value: exactly, by bits, nested values included."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.compute.types import Column

Mask: TypeAlias = NDArray[np.bool_]
_BITS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


class RowChanges(Struct, frozen=True, kw_only=True):
    """What turns one set of rows into another, by id. `old` and `new` are the same entities."""

    inserted: pa.Table
    deleted: pa.Table
    old: pa.Table
    new: pa.Table

    @property
    def is_empty(self) -> bool:
        """Whether both sets are equal."""
        return not (self.inserted.num_rows or self.deleted.num_rows or self.new.num_rows)

    def ids(self) -> pa.Array:
        """Return the ids of every changed entity."""
        parts = (self.inserted, self.deleted, self.new)
        return pa.concat_arrays([_flat(part["id"]) for part in parts])

    def only(self, ids: Collection[str]) -> RowChanges:
        """Return the changes of some entities."""
        wanted = pa.array(list(ids), pa.string())

        def kept(rows: pa.Table) -> pa.Table:
            return rows.filter(pc.is_in(rows["id"], value_set=wanted))

        return RowChanges(
            inserted=kept(self.inserted),
            deleted=kept(self.deleted),
            old=kept(self.old),
            new=kept(self.new),
        )


def row_changes(before: pa.Table, after: pa.Table) -> RowChanges:
    """Compare two tables of the same columns; `id` names a row in each."""
    if before.num_rows == 0:
        # Only new rows, perhaps very many: they are not copied.
        return RowChanges(inserted=after, deleted=before, old=before, new=after.slice(0, 0))
    old_ids, new_ids = _flat(before["id"]), _flat(after["id"])
    position = pc.index_in(new_ids, value_set=old_ids)
    common = pc.is_valid(position)
    new = after.filter(common)
    old = before.take(position.filter(common))
    differs = pc.invert(equal_rows(old, new))
    return RowChanges(
        inserted=after.filter(pc.invert(common)),
        deleted=before.filter(pc.invert(pc.is_in(old_ids, value_set=new_ids))),
        old=old.filter(differs),
        new=new.filter(differs),
    )


def equal_rows(left: pa.Table, right: pa.Table) -> pa.Array:
    """Tell, row by row, whether two tables of equal length hold the same values."""
    same = np.ones(left.num_rows, dtype=bool)
    for name in left.column_names:
        same &= equal_values(left[name], right[name])
    return pa.array(same)


def equal_values(left: Column, right: Column) -> Mask:
    """Tell, value by value, whether two columns are the same. Null is the same as null only."""
    left, right = _flat(left), _flat(right)
    if left.type != right.type:
        right = right.cast(left.type)
    nulls_left, nulls_right = pc.is_null(left), pc.is_null(right)
    same = _flags(pc.equal(nulls_left, nulls_right)).copy()
    valid = pc.and_(pc.invert(nulls_left), pc.invert(nulls_right))
    if not pc.any(valid).as_py():
        return same
    same[_flags(valid)] &= _equal_valid(left.filter(valid), right.filter(valid))
    return same


def _equal_valid(left: pa.Array, right: pa.Array) -> Mask:
    kind = left.type
    if pa.types.is_fixed_size_list(kind):
        width = kind.list_size
        if not width:
            return np.ones(len(left), dtype=bool)
        flat = equal_values(pc.list_flatten(left), pc.list_flatten(right))
        return np.asarray(flat.reshape(-1, width).all(axis=1))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _equal_lists(left, right)
    if pa.types.is_floating(kind):
        # By bits: 0.0 is not -0.0, and a NaN is itself.
        bits = _BITS[kind.bit_width]
        return _flags(pc.equal(left.view(bits), right.view(bits)))
    return _flags(pc.equal(left, right))


def _equal_lists(left: pa.Array, right: pa.Array) -> Mask:
    sizes = pc.list_value_length(left)
    same = _flags(pc.equal(sizes, pc.list_value_length(right))).copy()
    rows = np.flatnonzero(same)
    if len(rows) == 0:
        return same
    chosen = pa.array(rows)
    left, right = left.take(chosen), right.take(chosen)
    wrong = ~equal_values(pc.list_flatten(left), pc.list_flatten(right))
    owners = pc.list_parent_indices(left).to_numpy(zero_copy_only=False)[wrong]
    same[rows[np.unique(owners)]] = False
    return same


def _flags(column: pa.Array) -> Mask:
    flags: Mask = column.to_numpy(zero_copy_only=False)
    return flags


def _flat(column: Column) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
