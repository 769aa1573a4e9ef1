"""Turns the rows of a pattern into result columns: grouping, distinct, order, cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.compute import constant_value, evaluate_value, group_key
from omnigraph.compute.types import arrow_type
from omnigraph.errors import QueryError
from omnigraph.limits import I64_MAX
from omnigraph.plan.expression import (
    Aggregate,
    ColumnOf,
    Expression,
    PropertyOf,
    transform,
    walk,
)
from omnigraph.plan.read import ReadPlan, SortKey
from omnigraph.read.aggregates import listed_groups
from omnigraph.read.context import Context
from omnigraph.read.frame import Frame, FrameColumns
from omnigraph.read.groups import group_rows

_GROUPED = "#group"


class TableColumnsView(Struct):
    """Columns of an Arrow table, by position, for expressions over computed values."""

    table: pa.Table

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    def column(self, variable: str, name: str) -> pa.Array:
        """Return a computed column."""
        return self.table.column(name).combine_chunks()


def build_output(context: Context, plan: ReadPlan, frame: Frame) -> pa.Table:
    """Return the result table of a plan, its columns named by position."""
    if plan.grouped:
        # Groups differ in their keys, so they are distinct as they are.
        table = _grouped(context, plan, frame)
        order = _sort_order(context, plan.sort_keys, table, None, ())
    else:
        # Copies of a row do not matter to a query that asks for distinct rows.
        columns = FrameColumns(frame if plan.distinct else frame.listed(), context.columns)
        values = [
            evaluate_value(c.expression, columns, context.parameters, context.now)
            for c in plan.columns
        ]
        table = _table(plan, values)
        if plan.distinct:
            table = _distinct(table)
            order = _sort_order(context, plan.sort_keys, table, None, ())
        else:
            tied = plan.variables if plan.sort_keys else ()
            ties = tuple(columns.column(name, "id") for name in tied)
            order = _sort_order(context, plan.sort_keys, table, columns, ties)
    if order is not None:
        table = table.take(order)
    return _cut(context, plan, table)


def _table(plan: ReadPlan, values: list[pa.Array]) -> pa.Table:
    names = [str(index) for index in range(len(plan.columns))]
    arrays = [
        pc.cast(value, arrow_type(column.type), safe=False)
        if not value.type.equals(arrow_type(column.type))
        else value
        for value, column in zip(values, plan.columns, strict=True)
    ]
    return pa.table(dict(zip(names, arrays, strict=True)))


def _distinct(table: pa.Table) -> pa.Table:
    """Return the first of all equal rows."""
    keys = pa.table({name: group_key(table.column(name)) for name in table.column_names})
    rows = keys.append_column("#row", pa.array(np.arange(table.num_rows)))
    # Without threads groups come in the order of their first row.
    groups = rows.group_by(table.column_names, use_threads=False).aggregate([("#row", "min")])
    return table.take(groups.column("#row_min"))


# ---- grouping -----------------------------------------------------------------------------


def _grouped(context: Context, plan: ReadPlan, frame: Frame) -> pa.Table:
    """Return one row per group: key columns as they are, aggregates computed."""
    keys = {
        str(index): column.expression
        for index, column in enumerate(plan.columns)
        if not _aggregates(column.expression)
    }
    wanted = list(
        dict.fromkeys(item for column in plan.columns for item in _aggregates(column.expression))
    )
    groups = None
    if context.factorise:
        groups = group_rows(context, plan, keys, wanted, frame, cut_size(context, plan))
    if groups is None:
        groups = listed_groups(context, keys, wanted, frame.listed())
    values: list[pa.Array] = []
    view = TableColumnsView(groups)
    for index, column in enumerate(plan.columns):
        if str(index) in keys:
            values.append(groups.column(f"k{index}").combine_chunks())
            continue
        rewritten = _with_results(column.expression, wanted)
        values.append(evaluate_value(rewritten, view, context.parameters, context.now))
    return _table(plan, values)


def cut_size(context: Context, plan: ReadPlan) -> int | None:
    """Return how many leading rows of a result are asked for; None for all."""
    size = _number(context, plan.limit, "limit")
    return None if size is None else size + (_number(context, plan.offset, "offset") or 0)


def _aggregates(expression: Expression) -> list[Aggregate]:
    return [item for item in walk(expression) if isinstance(item, Aggregate)]


def _with_results(expression: Expression, wanted: list[Aggregate]) -> Expression:
    """Return an expression with its aggregates replaced by their computed columns."""

    def computed(part: Expression) -> Expression | None:
        if not isinstance(part, Aggregate):
            return None
        return PropertyOf(variable=_GROUPED, property=f"r{wanted.index(part)}", type=part.type)

    return transform(expression, computed)


# ---- order and cut ------------------------------------------------------------------------


def _sort_order(
    context: Context,
    keys: tuple[SortKey, ...],
    table: pa.Table,
    columns: FrameColumns | None,
    ties: tuple[pa.Array, ...],
) -> pa.Array | None:
    """Return row positions in order; None when no order was asked for."""
    if not keys:
        return None
    arrays: dict[str, pa.Array | pa.ChunkedArray] = {}
    order: list[tuple[str, str]] = []
    for index, key in enumerate(keys):
        if isinstance(key.expression, ColumnOf):
            value = table.column(str(key.expression.index))
        elif columns is not None:
            value = evaluate_value(key.expression, columns, context.parameters, context.now)
        else:
            value = evaluate_value(
                key.expression, TableColumnsView(table), context.parameters, context.now
            )
        direction = "descending" if key.descending else "ascending"
        arrays[f"n{index}"] = _rank(value)
        arrays[f"v{index}"] = _sortable(value)
        order += [(f"n{index}", direction), (f"v{index}", direction)]
    for index, tie in enumerate(ties):
        if tie.null_count:
            arrays[f"m{index}"] = _rank(tie)
            order.append((f"m{index}", "ascending"))
        arrays[f"t{index}"] = tie
        order.append((f"t{index}", "ascending"))
    return pc.sort_indices(pa.table(arrays), sort_keys=order)


def _rank(value: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return a first key: nulls are lowest and not-a-number highest, whatever the direction."""
    rank = pc.cast(pc.is_valid(value), pa.uint8())
    if not pa.types.is_floating(value.type):
        return rank
    return pc.add(rank, pc.cast(pc.fill_null(pc.is_nan(value), False), pa.uint8()))


def _sortable(value: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return pc.cast(value, pa.uint8()) if pa.types.is_boolean(value.type) else value


def _cut(context: Context, plan: ReadPlan, table: pa.Table) -> pa.Table:
    start = _number(context, plan.offset, "offset") or 0
    size = _number(context, plan.limit, "limit")
    return table.slice(start) if size is None else table.slice(start, size)


def _number(context: Context, expression: Expression | None, word: str) -> int | None:
    if expression is None:
        return None
    value = constant_value(expression, context.parameters, context.now)
    if not isinstance(value, int) or value < 0:
        raise QueryError(f"`{word}` must not be negative, got {value}")
    return min(value, I64_MAX)
