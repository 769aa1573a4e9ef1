"""Answers "one row by its key" from columns in memory, without the steps of a plan.

The result is the one the steps would give. What is not in memory is left to them: they know
whether to read a table or to fetch a row of it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import pyarrow as pa
from msgspec import Struct

from omnigraph.catalog import Catalog, Scalar
from omnigraph.catalog.model import LiteralValue
from omnigraph.compute import constant_value
from omnigraph.compute.types import arrow_type
from omnigraph.plan.expression import Expression, IdOf, PropertyOf
from omnigraph.plan.read import NodeScan, OutputColumn, ReadPlan
from omnigraph.read.columns import KEYS, KeyMap, TableColumns
from omnigraph.read.keys import id_named_by
from omnigraph.read.running import checkpoint
from omnigraph.store import Pin

_NO_ROW = pa.array([], pa.int64())


class RowByKey(Struct, frozen=True):
    """A row that is asked for: the table, the id it must have, and what is wanted of it."""

    table_key: str
    id: Expression
    columns: tuple[str, ...]
    shown: pa.Schema


def plan_row_by_key(plan: ReadPlan, catalog: Catalog) -> RowByKey | None:
    """Return what a plan asks for, if that is properties of one node named by its key."""
    is_plain = not plan.grouped and plan.limit is None and plan.offset is None
    if not is_plain or plan.ranking is not None or len(plan.steps) != 1:
        return None
    (scan,) = plan.steps
    if not isinstance(scan, NodeScan) or scan.condition is None:
        return None
    entity = catalog.nodes[scan.type_name]
    id = id_named_by(entity, scan.condition)
    wanted = [item for item in plan.columns if not item.hidden]
    names = [_stored_name(item, scan.variable) for item in wanted]
    if id is None or None in names or len(wanted) != len(plan.columns) or plan.sort_keys:
        return None
    fields = [pa.field(item.name, arrow_type(item.type)) for item in wanted]
    columns = tuple(name for name in names if name is not None)
    return RowByKey(entity.table_key, id, columns, pa.schema(fields))


def _stored_name(column: OutputColumn, variable: str) -> str | None:
    """Return the stored column that a result column shows as it is; None for any other."""
    match column.expression:
        case IdOf() if column.expression.variable == variable:
            return "id"
        case PropertyOf() if column.expression.variable == variable:
            is_blob = column.expression.type.scalar is Scalar.BLOB
            return None if is_blob else column.expression.property
        case _:
            return None


def row_by_key(
    wanted: RowByKey,
    tables: TableColumns,
    pins: Mapping[str, Pin],
    parameters: Mapping[str, LiteralValue],
    now: datetime.datetime,
) -> pa.Table | None:
    """Return the row, or no row, as the result; None when the steps of the plan must find it."""
    pin = pins[wanted.table_key]
    id = constant_value(wanted.id, parameters, now)
    keys = tables.known(pin, KEYS)
    if not isinstance(id, str) or not isinstance(keys, KeyMap):
        return None
    checkpoint()
    number = keys.find(id)
    rows = _NO_ROW if number < 0 else pa.array([number], pa.int64())
    found: list[pa.Array] = []
    for name, field in zip(wanted.columns, wanted.shown, strict=True):
        values = tables.known(pin, name)
        if values is None or not values.type.equals(field.type):
            return None
        found.append(values.take(rows))
    return pa.Table.from_arrays(found, schema=wanted.shown)
