"""Groups weighted rows by the numbers of the variables in the key, and reads values last.

Rows with equal numbers have equal keys, so numbers are grouped first and partial results of those
few groups are put together by value. When the key identifies its rows, the groups are final, and
an order with a limit can pick its winners before a single name is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.compute import evaluate_value
from omnigraph.compute.types import arrow_type
from omnigraph.limits import DENSE_GROUPS_SHARE, FLOAT_EXACT_MAX, PACKED_MAX
from omnigraph.plan.expression import (
    Aggregate,
    AggregateFunction,
    ColumnOf,
    Expression,
    IdOf,
    PropertyOf,
    variables_of,
)
from omnigraph.plan.read import ReadPlan
from omnigraph.read.arrays import Counts, Rows
from omnigraph.read.context import Context
from omnigraph.read.frame import Frame, FrameColumns
from omnigraph.read.keys import identifies
from omnigraph.read.tree import counts_rows
from omnigraph.read.walk import grouped_sums

Partial = dict[str, Counts | pa.Array]
"""Arrays a result is made from, one value per group: `n` counts, `s` sums, `v` picks."""

_MERGES = {"n": "sum", "s": "sum"}
_PICKS = {AggregateFunction.MIN: "min", AggregateFunction.MAX: "max"}


class _Groups(Struct):
    """For each row its group (None: its own), and for each group one of its rows.

    Groups are `final` when no two of them can have the same key.
    """

    of_row: Rows | None
    first: Rows
    final: bool

    @property
    def size(self) -> int:
        return len(self.first)

    def sums(self, values: Counts | None, rows: int) -> Counts:
        """Return the sum of values per group, or the number of rows."""
        if self.of_row is None:
            return np.ones(rows, dtype=np.int64) if values is None else values
        return grouped_sums(self.of_row, values, self.size)


def group_rows(
    context: Context,
    plan: ReadPlan,
    keys: Mapping[str, Expression],
    wanted: Sequence[Aggregate],
    frame: Frame,
    cut: int | None,
) -> pa.Table | None:
    """Return key columns `k...` and aggregates `r...` of every group; None where it cannot.

    `cut` is how many leading rows of the ordered result are asked for.
    """
    groups = _grouped(frame, keys)
    if groups is None:
        return None
    partials: list[Partial] = []
    for item in wanted:
        partial = _partial(context, item, frame, groups)
        if partial is None:
            return None
        partials.append(partial)
    if groups.final and cut is not None:
        kept = _leading(plan, wanted, partials, cut)
        if kept is not None:
            groups = _Groups(None, groups.first[kept], final=True)
            partials = [
                {name: _select_rows(v, kept) for name, v in item.items()} for item in partials
            ]
    columns = FrameColumns(frame.take(groups.first), context.columns)
    arrays = {
        f"k{name}": evaluate_value(item, columns, context.parameters, context.now)
        for name, item in keys.items()
    }
    if not groups.final:
        if any(_compares_unlike_bits(values.type) for values in arrays.values()):
            return None
        arrays, partials = _merged(arrays, wanted, partials)
    for index, (item, partial) in enumerate(zip(wanted, partials, strict=True)):
        arrays[f"r{index}"] = _result(item, partial)
    size = len(next(iter(arrays.values()))) if arrays else groups.size
    arrays["#size"] = pa.array(np.zeros(size, dtype=np.int8))
    return pa.table(arrays)


# ---- groups -------------------------------------------------------------------------------


def _grouped(frame: Frame, keys: Mapping[str, Expression]) -> _Groups | None:
    if frame.size == 0:
        # One group without a key, none with one: left to the plain way.
        return None
    names = sorted({name for item in keys.values() for name in variables_of(item)})
    if not names:
        everything = np.zeros(frame.size, dtype=np.int64)
        return _Groups(everything, np.zeros(1, dtype=np.int64), final=True)
    known = [name for name in names if _identified(name, keys, frame)]
    for name in known:
        if frame.unique == name or int(np.bincount(frame.numbers[name] + 1).max()) <= 1:
            return _Groups(None, np.arange(frame.size), final=True)
    codes = frame.numbers[names[0]] + 1
    for name in names[1:]:
        other = frame.numbers[name] + 1
        size = int(other.max()) + 1
        if (float(codes.max()) + 1) * size > PACKED_MAX:
            return None
        codes = codes.astype(np.int64) * size + other
    return _by_code(codes, final=len(known) == len(names))


def _by_code(codes: Rows, *, final: bool) -> _Groups:
    size = int(codes.max()) + 1
    if size > DENSE_GROUPS_SHARE * len(codes):
        _codes, first, of_row = np.unique(codes, return_index=True, return_inverse=True)
        return _Groups(of_row, first, final)
    row_of = np.full(size, -1, dtype=np.int64)
    row_of[codes] = np.arange(len(codes))
    present = np.flatnonzero(row_of >= 0)
    group_of = np.empty(size, dtype=np.int64)
    group_of[present] = np.arange(len(present))
    return _Groups(group_of[codes], row_of[present], final)


def _identified(name: str, keys: Mapping[str, Expression], frame: Frame) -> bool:
    entity = frame.sources[name].entity
    return any(
        isinstance(item, IdOf | PropertyOf) and item.variable == name and identifies(entity, item)
        for item in keys.values()
    )


# ---- aggregates ---------------------------------------------------------------------------


def _partial(context: Context, item: Aggregate, frame: Frame, groups: _Groups) -> Partial | None:
    listed = frozenset(frame.numbers)
    # What is counted without being listed was found never to be null when the tree was planned.
    whole = frozenset(name for name in listed if not (frame.numbers[name] < 0).any())
    unlisted = frozenset() if item.argument is None else variables_of(item.argument) - listed
    if counts_rows(item, whole | unlisted):
        return {"n": groups.sums(frame.weights, frame.size)}
    if item.argument is None or unlisted or item.argument.type.is_list:
        return None
    if item.distinct and not groups.final:
        return None
    if item.distinct and isinstance(item.argument, IdOf | PropertyOf):
        name = item.argument.variable
        if identifies(frame.sources[name].entity, item.argument):
            return _distinct_numbers(frame, name, groups)
    columns = FrameColumns(frame, context.columns)
    values = evaluate_value(item.argument, columns, context.parameters, context.now)
    if item.distinct:
        unlike = _compares_unlike_bits(values.type)
        return None if unlike else _distinct_values(values, groups)
    if item.function in _PICKS:
        return _picked(values, groups, _PICKS[item.function])
    weights = np.ones(frame.size, dtype=np.int64) if frame.weights is None else frame.weights
    valid = np.asarray(pc.is_valid(values))
    counts = groups.sums(np.where(valid, weights, 0), frame.size)
    if item.function is AggregateFunction.COUNT:
        return {"n": counts}
    if not pa.types.is_integer(values.type):
        return None
    numbers = np.asarray(pc.fill_null(values, 0))
    if float((np.abs(numbers.astype(np.float64)) * weights).sum()) >= FLOAT_EXACT_MAX:
        return None
    sums = groups.sums(np.where(valid, numbers.astype(np.int64) * weights, 0), frame.size)
    return {"n": counts, "s": sums}


def _codes(groups: _Groups, rows: int) -> Rows:
    return np.arange(rows, dtype=np.int64) if groups.of_row is None else groups.of_row


def _distinct_numbers(frame: Frame, name: str, groups: _Groups) -> Partial | None:
    """Count the different rows of a variable in each group; nulls count for nothing."""
    numbers, of_row = frame.numbers[name], _codes(groups, frame.size)
    if frame.unique != name:
        width = int(numbers.max()) + 1
        if float(groups.size) * max(width, 1) > PACKED_MAX:
            return None
        there = numbers >= 0
        pairs = np.unique(of_row[there] * max(width, 1) + numbers[there])
        of_row = pairs // max(width, 1)
    return {"n": np.bincount(of_row, minlength=groups.size)}


def _distinct_values(values: pa.Array, groups: _Groups) -> Partial:
    table = pa.table({"g": pa.array(_codes(groups, len(values))), "v": values})
    counts = table.group_by("g", use_threads=False).aggregate([("v", "count_distinct")])
    spread = np.zeros(groups.size, dtype=np.int64)
    spread[counts["g"].to_numpy()] = counts["v_count_distinct"].to_numpy()
    return {"n": spread}


def _picked(values: pa.Array, groups: _Groups, function: str) -> Partial:
    if groups.of_row is None:
        return {"v": values}
    table = pa.table({"g": pa.array(groups.of_row), "v": values})
    picked = table.group_by("g", use_threads=False).aggregate([("v", function)])
    order = pc.sort_indices(picked["g"])
    return {"v": picked[f"v_{function}"].take(order).combine_chunks()}


def _compares_unlike_bits(data_type: pa.DataType) -> bool:
    """Whether values of a type may be equal without being stored alike, as both zeros are."""
    return bool(pa.types.is_floating(data_type) or pa.types.is_nested(data_type))


def _select_rows(values: Counts | pa.Array, rows: Rows) -> Counts | pa.Array:
    return values[rows] if isinstance(values, np.ndarray) else values.take(pa.array(rows))


def _merged(
    keys: dict[str, pa.Array], wanted: Sequence[Aggregate], partials: list[Partial]
) -> tuple[dict[str, pa.Array], list[Partial]]:
    """Put together groups whose keys are equal by value."""
    arrays = dict(keys)
    calls: list[tuple[str, str]] = []
    for index, (item, partial) in enumerate(zip(wanted, partials, strict=True)):
        for name, values in partial.items():
            column = f"{name}{index}"
            arrays[column] = pa.array(values) if isinstance(values, np.ndarray) else values
            calls.append((column, _MERGES[name] if name in _MERGES else _PICKS[item.function]))
    # Without threads groups come in the order of their first row.
    groups = pa.table(arrays).group_by(list(keys), use_threads=False).aggregate(calls)
    merged: list[Partial] = [{} for _item in wanted]
    for column, function in calls:
        values = groups[f"{column}_{function}"].combine_chunks()
        name, index = column[0], int(column[1:])
        merged[index][name] = values.to_numpy() if name in _MERGES else values
    return {name: groups[name].combine_chunks() for name in keys}, merged


def _result(item: Aggregate, partial: Partial) -> pa.Array:
    wanted = arrow_type(item.type)
    if "v" in partial:
        return pc.cast(partial["v"], wanted, safe=False)
    if item.function is AggregateFunction.COUNT:
        return pa.array(partial["n"], wanted)
    counts, sums = partial["n"], partial["s"]
    empty = counts == 0
    if item.function is AggregateFunction.SUM:
        return pa.array(sums, wanted, mask=empty)
    return pa.array(sums / np.maximum(counts, 1), wanted, mask=empty)


def _leading(
    plan: ReadPlan, wanted: Sequence[Aggregate], partials: list[Partial], cut: int
) -> Rows | None:
    """Return the groups among which the first `cut` of the ordered result are; None for all."""
    if not plan.sort_keys or plan.distinct or cut <= 0:
        return None
    key = plan.sort_keys[0]
    if not isinstance(key.expression, ColumnOf):
        return None
    expression = plan.columns[key.expression.index].expression
    if not isinstance(expression, Aggregate) or expression not in wanted:
        return None
    if expression.function is not AggregateFunction.COUNT:
        return None
    counts = partials[list(wanted).index(expression)]["n"]
    if cut >= len(counts):
        return None
    if key.descending:
        return np.flatnonzero(counts >= np.partition(counts, -cut)[-cut])
    return np.flatnonzero(counts <= np.partition(counts, cut - 1)[cut - 1])
