"""Turns the rows of a pattern into result columns: grouping, distinct, order, cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute import constant_value, evaluate_value, group_key
from omnigraph.compute.types import arrow_type
from omnigraph.errors import QueryError
from omnigraph.limits import I64_MAX, MEAN_SCALE, SUM_DIGITS
from omnigraph.plan.expression import (
    Aggregate,
    AggregateFunction,
    ColumnOf,
    Expression,
    PropertyOf,
    transform,
    variables_of,
    walk,
)
from omnigraph.plan.read import ReadPlan, SortKey
from omnigraph.read.context import Context
from omnigraph.read.frame import Frame, FrameColumns
from omnigraph.read.groups import group_rows

_GROUPED = "#group"


@dataclass(slots=True)
class TableColumnsView:
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
        # Copies of a row matter to nobody who asks for distinct rows.
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
        groups = _listed_groups(context, keys, wanted, frame.listed())
    values: list[pa.Array] = []
    view = TableColumnsView(groups)
    for index, column in enumerate(plan.columns):
        if str(index) in keys:
            values.append(groups.column(f"k{index}").combine_chunks())
            continue
        rewritten = _with_results(column.expression, wanted)
        values.append(evaluate_value(rewritten, view, context.parameters, context.now))
    return _table(plan, values)


def _listed_groups(
    context: Context, keys: dict[str, Expression], wanted: list[Aggregate], frame: Frame
) -> pa.Table:
    """Group by evaluating the key for every row."""
    columns = FrameColumns(frame, context.columns)
    found = {
        f"k{name}": evaluate_value(expression, columns, context.parameters, context.now)
        for name, expression in keys.items()
    }
    source: dict[str, pa.Array] = {name: group_key(value) for name, value in found.items()}
    for index, item in enumerate(wanted):
        source[f"a{index}"] = _argument(context, item, columns)
    source["#row"] = pa.array(np.arange(columns.rows))
    groups = _aggregate(pa.table(source), list(found), wanted)
    for name, values in found.items():
        groups = groups.append_column(name, pc.take(values, groups.column("#row")))
    return groups


def cut_size(context: Context, plan: ReadPlan) -> int | None:
    """Return how many leading rows of a result are asked for; None for all."""
    size = _number(context, plan.limit, "limit")
    return None if size is None else size + (_number(context, plan.offset, "offset") or 0)


def _aggregates(expression: Expression) -> list[Aggregate]:
    return [item for item in walk(expression) if isinstance(item, Aggregate)]


def _argument(context: Context, item: Aggregate, columns: FrameColumns) -> pa.Array:
    if item.argument is None or not variables_of(item.argument) <= columns.variables:
        # Rows, or a variable that is never null and was therefore not listed.
        return pa.array(np.ones(columns.rows, dtype=np.int8))
    value = evaluate_value(item.argument, columns, context.parameters, context.now)
    if item.distinct:
        return group_key(value)
    if _sums_integers(item):
        # Wide enough that no sum of 64-bit integers can wrap.
        return pc.cast(value, pa.decimal128(SUM_DIGITS, 0))
    return value


def _sums_integers(item: Aggregate) -> bool:
    sums = item.function in (AggregateFunction.SUM, AggregateFunction.AVG)
    return sums and item.argument is not None and item.argument.type.is_integer


_FUNCTIONS = {
    AggregateFunction.COUNT: "count",
    AggregateFunction.SUM: "sum",
    AggregateFunction.AVG: "mean",
    AggregateFunction.MIN: "min",
    AggregateFunction.MAX: "max",
}


def _functions(item: Aggregate) -> list[str]:
    if item.distinct:
        return ["count_distinct"]
    return ["sum", "count"] if _sums_integers(item) else [_FUNCTIONS[item.function]]


def _aggregate(table: pa.Table, keys: list[str], wanted: list[Aggregate]) -> pa.Table:
    """Return one row per group: the number of its first row, and the aggregates."""
    calls = [("#row", "min")]
    calls += [(f"a{index}", name) for index, item in enumerate(wanted) for name in _functions(item)]
    found = table.group_by(keys, use_threads=False).aggregate(calls)
    arrays = {"#row": found.column("#row_min")}
    for index, item in enumerate(wanted):
        parts = [found.column(f"a{index}_{name}").combine_chunks() for name in _functions(item)]
        if item.function is AggregateFunction.AVG and len(parts) == 1:
            parts = [_finite_means(parts[0], table, keys, f"a{index}")]
        arrays[f"r{index}"] = _result(item, *parts)
    return pa.table(arrays)


def _finite_means(means: pa.Array, table: pa.Table, keys: list[str], name: str) -> pa.Array:
    """Return means again whose sums left the floats, though no mean of floats does."""
    infinite = pc.fill_null(pc.is_inf(means), False)
    if not pc.any(infinite).as_py():
        return means
    # By a power of two, so that no digit changes.
    small = pc.multiply(pc.cast(table.column(name), pa.float64()), MEAN_SCALE)
    part = table.select(keys).append_column(name, small)
    scaled = part.group_by(keys, use_threads=False).aggregate([(name, "mean")])
    again = pc.divide(scaled.column(f"{name}_mean").combine_chunks(), MEAN_SCALE)
    return pc.if_else(infinite, again, means)


def _result(item: Aggregate, value: pa.Array, size: pa.Array | None = None) -> pa.Array:
    wanted = arrow_type(item.type)
    if item.function is AggregateFunction.AVG and size is not None:
        # Of no values there is no sum, and null divided is null.
        return pc.divide(pc.cast(value, wanted), pc.cast(size, wanted))
    try:
        return pc.cast(value, wanted, safe=_sums_integers(item))
    except pa.ArrowInvalid as error:
        raise QueryError("integer overflow: a sum does not fit in 64 bits") from error


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
