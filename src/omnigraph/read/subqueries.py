"""Patterns inside a pattern: if they have solutions for a row, how many, what these come to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.limits import PACKED_MAX
from omnigraph.plan.expression import Aggregate, AggregateFunction, variables_of
from omnigraph.plan.read import Apply, Step
from omnigraph.read.aggregates import aggregate_table, argument_of
from omnigraph.read.arrays import Counts, Rows
from omnigraph.read.context import Context
from omnigraph.read.frame import Frame, FrameColumns, Source
from omnigraph.read.tree import EVERYTHING, Needs, counts_rows, hanging_tree, never_null
from omnigraph.read.walk import grouped_sums, ways_through

Run = Callable[[Context, tuple[Step, ...], Frame, Needs], Frame]
"""Runs steps: subqueries stand in steps, and steps in subqueries."""

ROW = "#row"
"""Says which outer row a solution is for."""


def correlated(
    context: Context, steps: tuple[Step, ...], frame: Frame, run: Run, needs: Needs = EVERYTHING
) -> Frame:
    """Run an inner pattern with every outer row fixed."""
    rows = np.arange(frame.size, dtype=np.int64)
    inner = Frame(frame.size, {**frame.numbers, ROW: rows}, dict(frame.sources))
    return run(context, steps, inner, needs)


def solutions(
    context: Context, steps: tuple[Step, ...], frame: Frame, run: Run, *, bag: bool
) -> Counts:
    """Return for each row how many solutions an inner pattern has; without `bag`, if any."""
    tree = hanging_tree(steps, bag=bag) if context.factorise else None
    if tree is not None:
        return ways_through(context, tree, frame.sources[tree.root], frame.numbers[tree.root])
    # For which rows there is a solution is all that is read of the inner pattern.
    inner = correlated(context, steps, frame, run, Needs(frozenset([ROW]), bag=bag))
    return grouped_sums(inner.numbers[ROW], inner.weights, frame.size)


def apply_subquery(context: Context, step: Apply, frame: Frame, run: Run) -> Frame:
    """Return the same rows with the value of a subquery, found once for equal outer rows."""
    first, numbers = _different(frame, step.outer)
    outer = frame.take(first).only(step.outer)
    values = _values(context, step, outer, run)
    return frame.with_variable(step.variable, numbers, Source.computed(step.variable, values))


def _different(frame: Frame, names: tuple[str, ...]) -> tuple[Rows, Rows]:
    """Return one row of each kind that the variables tell apart, and for each row its kind."""
    codes = np.zeros(frame.size, dtype=np.int64)
    for name in names:
        numbers = frame.numbers[name].astype(np.int64) + 1
        size = int(numbers.max(initial=0)) + 1
        if (float(codes.max(initial=0)) + 1) * size > PACKED_MAX:
            every = np.arange(frame.size, dtype=np.int64)
            return every, every
        codes = codes * size + numbers
    _codes, first, kinds = np.unique(codes, return_index=True, return_inverse=True)
    return first, kinds


def _values(context: Context, step: Apply, outer: Frame, run: Run) -> pa.Array:
    wanted = step.aggregate
    if wanted is None:
        return pa.array(solutions(context, step.steps, outer, run, bag=False) > 0)
    if counts_rows(wanted, never_null(step.steps)):
        return pa.array(solutions(context, step.steps, outer, run, bag=True))
    return _aggregated(context, step, wanted, outer, run)


def _aggregated(
    context: Context, step: Apply, wanted: Aggregate, outer: Frame, run: Run
) -> pa.Array:
    """Return an aggregate over the solutions of each row."""
    needs = Needs(frozenset([ROW]) | variables_of(wanted))
    inner = correlated(context, step.steps, outer, run, needs).listed()
    arguments = argument_of(context, wanted, FrameColumns(inner, context.columns))
    rows = pa.array(inner.numbers[ROW])
    places = pa.array(np.arange(inner.size, dtype=np.int64))
    table = pa.table({"row": rows, "a0": arguments, "#row": places})
    groups = aggregate_table(table, ["row"], [wanted])
    results = groups.column("r0").combine_chunks()
    place = np.full(outer.size, -1, dtype=np.int64)
    place[inner.numbers[ROW][np.asarray(groups.column("#row"))]] = np.arange(len(results))
    values = pc.take(results, pa.array(place, mask=place < 0))
    return pc.fill_null(values, 0) if wanted.function is AggregateFunction.COUNT else values
