"""Aggregates over listed rows: every value is read, equal keys are found by value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute import evaluate_value, group_key
from omnigraph.compute.types import arrow_type
from omnigraph.errors import QueryError
from omnigraph.limits import MEAN_SCALE, SUM_DIGITS
from omnigraph.plan.expression import Aggregate, AggregateFunction, Expression, variables_of
from omnigraph.read.context import Context
from omnigraph.read.frame import Frame, FrameColumns


def listed_groups(
    context: Context, keys: dict[str, Expression], wanted: list[Aggregate], frame: Frame
) -> pa.Table:
    """Group by evaluating the key for every row."""
    columns = FrameColumns(frame, context.columns)
    key_values = {
        f"k{name}": evaluate_value(expression, columns, context.parameters, context.now)
        for name, expression in keys.items()
    }
    source: dict[str, pa.Array] = {name: group_key(value) for name, value in key_values.items()}
    for index, item in enumerate(wanted):
        source[f"a{index}"] = argument_of(context, item, columns)
    source["#row"] = pa.array(np.arange(columns.rows))
    groups = aggregate_table(pa.table(source), list(key_values), wanted)
    for name, values in key_values.items():
        groups = groups.append_column(name, pc.take(values, groups.column("#row")))
    return groups


def argument_of(context: Context, item: Aggregate, columns: FrameColumns) -> pa.Array:
    """Return the values an aggregate is of, in a type that can hold the result."""
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


def aggregate_table(table: pa.Table, keys: list[str], wanted: list[Aggregate]) -> pa.Table:
    """Return one row per group: the number of its first row, and the aggregates."""
    calls = [("#row", "min")]
    calls += [(f"a{index}", name) for index, item in enumerate(wanted) for name in _functions(item)]
    groups = table.group_by(keys, use_threads=False).aggregate(calls)
    arrays = {"#row": groups.column("#row_min")}
    for index, item in enumerate(wanted):
        parts = [groups.column(f"a{index}_{name}").combine_chunks() for name in _functions(item)]
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
