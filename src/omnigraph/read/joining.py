"""Joins parts of a pattern that conditions connect, by their values.

Equalities are looked up in tables of hashes; any other condition is evaluated on pairs of rows, a
block of them at once. A side that is not read later is not listed: each row of the other side
learns how many rows of it fit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from omnigraph.compute import evaluate_condition, evaluate_value
from omnigraph.compute.compare import mirrored
from omnigraph.compute.joins import join_sides
from omnigraph.compute.types import Column
from omnigraph.errors import QueryError
from omnigraph.limits import JOIN_BLOCK_BYTES, JOIN_BLOCK_ROWS, JOIN_SAMPLE_ROWS, ROW_BYTES
from omnigraph.plan.explain import expression_text, step_text
from omnigraph.plan.expression import (
    And,
    Compare,
    CompareOp,
    Expression,
    Vanishing,
    can_overflow,
    variables_of,
    walk,
)
from omnigraph.plan.read import Filter, Join, Step
from omnigraph.read.arrays import Counts, Rows
from omnigraph.read.context import Context
from omnigraph.read.estimates import growth
from omnigraph.read.frame import Frame, FrameColumns, check_rows, row_numbers
from omnigraph.read.matching import Matches, Runs
from omnigraph.read.reads import column_name
from omnigraph.read.running import apart, reserve, traced
from omnigraph.read.tree import Needs, steps_tree
from omnigraph.read.walk import check_count, grouped_sums, product, walk_tree

Run = Callable[[Context, tuple[Step, ...], Frame, Needs], Frame]
"""Runs steps: joins stand in steps, and steps in joins."""


def join_parts(
    context: Context,
    joins: tuple[Join, ...],
    filters: tuple[Filter, ...],
    frame: Frame,
    needs: Needs,
    run: Run,
) -> Frame:
    """Join parts with a frame, in the order that makes few rows; filters come last.

    Each filter is evaluated on what all joins and the filters before it have left.
    """
    pool = [part for join in joins for part in _conjuncts(context, join.condition)]
    final = [part for item in filters for part in _conjuncts(context, item.condition)]
    wanted = needs
    if needs.variables is not None:
        names = frozenset(name for item in (*pool, *final) for name in variables_of(item))
        wanted = Needs(needs.variables | names, needs.bag)
    parts = [(join, _part(context, join, wanted, run)) for join in joins]
    while parts:
        parts.sort(key=lambda item: _rank(frame, item[1], pool))
        join, part = parts.pop(0)
        if needs.enough is not None and not pool and not final:
            frame, part = _cut(frame, part, parts, needs.enough)
        there = frozenset(frame.numbers) | frozenset(part.numbers)
        ready = [item for item in pool if variables_of(item) <= there]
        pool = [item for item in pool if item not in ready]
        last = [] if parts else final
        waiting = (*pool, *final) if parts else ()
        later = frozenset(name for item in waiting for name in variables_of(item))
        work = _Joining(context, frame, part, ready, last, _with(needs, later))
        frame = traced(partial(work.text, join), work.run, partial(growth, context, join))
    return frame


def _cut(
    frame: Frame, part: Frame, others: list[tuple[Join, Frame]], enough: int
) -> tuple[Frame, Frame]:
    """Return so much of two sets of rows that their product, which nothing narrows, is enough."""
    if not frame.size or not all(item.size for _join, item in others):
        return frame, part
    frame = frame.leading(max(enough, 1))
    return frame, part.leading(max(-(-enough // frame.size), 1))


def _with(needs: Needs, names: frozenset[str]) -> Needs:
    return needs if needs.variables is None else Needs(needs.variables | names, needs.bag)


def _conjuncts(context: Context, condition: Expression | None) -> list[Expression]:
    """Return the conditions that must all hold; one that vanished holds."""
    if isinstance(condition, Vanishing):
        if any(context.parameters[name] is None for name in condition.parameters):
            return []
        condition = condition.condition
    if isinstance(condition, And):
        return [part for item in condition.operands for part in _conjuncts(context, item)]
    return [] if condition is None else [condition]


def _part(context: Context, join: Join, wanted: Needs, run: Run) -> Frame:
    """Return the rows of a part. They are the same for all rows that it is joined with."""
    part = context.parts.get(id(join))
    if part is None:
        with apart():
            part = context.parts[id(join)] = _made(context, join, wanted, run)
    return part


def _made(context: Context, join: Join, wanted: Needs, run: Run) -> Frame:
    tree = steps_tree(join.steps, wanted, listed=False) if context.factorise else None
    if tree is None or wanted.variables is None:
        return run(context, join.steps, Frame(1), wanted)
    frame = run(context, tree.rest, walk_tree(context, tree), wanted)
    if wanted.variables & frozenset(frame.numbers):
        return frame
    # Nothing of it is read: it only says how often each other row occurs.
    if not wanted.bag or not frame.size:
        return Frame(min(frame.size, 1))
    total = frame.size if frame.weights is None else _total(frame.weights)
    return Frame(1, weights=np.array([total], dtype=np.int64))


def _rank(frame: Frame, part: Frame, pool: list[Expression]) -> tuple[int, int]:
    """Return what makes a part come early: an equality, another condition, few rows."""
    mine, theirs = frozenset(frame.numbers), frozenset(part.numbers)
    linked = [item for item in pool if variables_of(item) <= mine | theirs]
    equal = any(_is_equality(_sides(item, mine, theirs)) for item in linked)
    return (0 if equal else 1 if linked else 2), part.size


class _Sides(Struct, frozen=True):
    """A comparison of a value of the left rows with one of the right rows."""

    condition: Expression
    op: CompareOp
    left: Expression
    right: Expression


def _sides(condition: Expression, left: frozenset[str], right: frozenset[str]) -> _Sides | None:
    """Return what a comparison compares, if each side is of one part."""
    if not isinstance(condition, Compare):
        return None
    for one, other, op in (
        (condition.left, condition.right, condition.op),
        (condition.right, condition.left, mirrored(condition.op)),
    ):
        mine, theirs = variables_of(one), variables_of(other)
        if mine and theirs and mine <= left and theirs <= right:
            return _Sides(condition, op, one, other)
    return None


def _is_equality(sides: _Sides | None) -> bool:
    return sides is not None and sides.op is CompareOp.EQ


class _Joining(Struct):
    """Two sets of rows, the conditions on their pairs, and what is read of these later."""

    context: Context
    left: Frame
    right: Frame
    conditions: list[Expression]
    final: list[Expression]
    needs: Needs

    def text(self, join: Join) -> str:
        """Return what was done, for people."""
        equalities, others = self._split()
        if not equalities:
            return step_text(join)
        shown = " and ".join(expression_text(item.condition) for item in equalities)
        rest = f", then {' and '.join(expression_text(item) for item in others)}" if others else ""
        return f"hash join on {shown}{rest}"

    def run(self) -> Frame:
        """Return the joined rows."""
        if not self.left.size or not self.right.size:
            nothing = np.empty(0, dtype=np.int64)
            return self._pairs(nothing, nothing)
        if self._is_read(self.right) and not self._is_read(self.left):
            self.left, self.right = self.right, self.left
        equalities, others = self._split()
        read = self._is_read(self.right)
        if equalities:
            matches = self._matches(equalities)
            if not others and not read:
                return self._counted(matches)
            runs = matches.runs()
        else:
            runs, others = self._ranged(others)
        if others:
            return self._filtered(runs, others)
        return self._pairs(*runs.listed()) if read else self._weighed(runs.sums(self.right.weights))

    def _split(self) -> tuple[list[_Sides], list[Expression]]:
        """Return the equalities between both sides, and the other conditions."""
        left, right = frozenset(self.left.numbers), frozenset(self.right.numbers)
        equalities: list[_Sides] = []
        others: list[Expression] = []
        for condition in (*self.conditions, *self.final):
            sides = _sides(condition, left, right)
            if sides is None or not _is_equality(sides) or not self._is_safe(sides):
                others.append(condition)
            else:
                equalities.append(sides)
        return equalities, others

    def _is_safe(self, sides: _Sides) -> bool:
        """Whether a comparison can be made on all rows, though some may not be joined at all."""
        if not can_overflow(sides.condition):
            return True
        try:
            self._values(sides)
        except QueryError:
            return False
        return True

    def _is_read(self, side: Frame) -> bool:
        wanted = self.needs.variables
        return wanted is None or bool(wanted & frozenset(side.numbers))

    # ---- pairs ----------------------------------------------------------------------------

    def _values(self, sides: _Sides) -> tuple[Column, Column]:
        values = self.context.parameters, self.context.now
        left, right = (FrameColumns(side, self.context.columns) for side in (self.left, self.right))
        one = evaluate_value(sides.left, left, *values)
        return one, evaluate_value(sides.right, right, *values)

    def _matches(self, equalities: list[_Sides]) -> Matches:
        return Matches.of(*join_sides([self._values(item) for item in equalities]))

    def _ranged(self, conditions: list[Expression]) -> tuple[Runs, list[Expression]]:
        """Return the pairs to look at without an equality, and what they must satisfy still."""
        left, right = frozenset(self.left.numbers), frozenset(self.right.numbers)
        for condition in conditions:
            sides = _sides(condition, left, right)
            if sides is None or sides.op is CompareOp.NE or condition in self.final:
                continue
            runs = Runs.beside(sides.op, *self._values(sides))
            if runs is not None:
                return runs, [item for item in conditions if item is not condition]
        return Runs.all(self.left.size, self.right.size), conditions

    def _pairs(self, rows: Rows, others: Rows) -> Frame:
        """Return the frame of some pairs of rows."""
        left, right = self._kept(self.left).take(rows), self._kept(self.right).take(others)
        return replace(
            left,
            numbers={**left.numbers, **right.numbers},
            sources={**left.sources, **right.sources},
            weights=_times(left.weights, right.weights),
        )

    def _kept(self, side: Frame) -> Frame:
        wanted = self.needs.variables
        if wanted is None:
            return side
        return side.only([name for name in side.numbers if name in wanted])

    # ---- one side is not read -------------------------------------------------------------

    def _counted(self, matches: Matches) -> Frame:
        """Give each left row the number of right rows that fit; rows without any go."""
        known = matches.right >= 0
        weights = None if self.right.weights is None else self.right.weights[known]
        sums = grouped_sums(matches.right[known], weights, matches.size)
        ways = sums[np.maximum(matches.left, 0)]
        ways[matches.left < 0] = 0
        return self._weighed(ways)

    def _weighed(self, ways: Counts) -> Frame:
        left = self._kept(self.left)
        if left.weights is not None or (self.needs.bag and int(ways.max(initial=0)) > 1):
            left = left.weighted(ways if left.weights is None else product(left.weights, ways))
        keep = ways > 0
        return left if keep.all() else left.take(np.flatnonzero(keep))

    # ---- conditions on pairs --------------------------------------------------------------

    def _filtered(self, runs: Runs, conditions: list[Expression]) -> Frame:
        """Evaluate conditions on blocks of pairs; only what fits is kept."""
        listed = self._is_read(self.right)
        ways = np.zeros(0 if listed else self.left.size, dtype=np.int64)
        blocks: list[tuple[Rows, Rows]] = []
        total = 0
        for rows, others in runs.blocks(self._block_rows(conditions)):
            rows, others = self._fitting(conditions, rows, others)
            if listed:
                total += len(rows)
                check_rows(total)
                # Both sides, and again when the blocks become one.
                reserve(4 * total * ROW_BYTES)
                blocks.append((rows, others))
                continue
            weights = None if self.right.weights is None else self.right.weights[others]
            low = int(rows[0]) if len(rows) else 0
            sums = grouped_sums(rows - low, weights, 0)
            ways[low : low + len(sums)] += sums
        if not listed:
            return self._weighed(ways)
        if not blocks:
            blocks.append((np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)))
        rows, others = (np.concatenate([pair[side] for pair in blocks]) for side in (0, 1))
        return self._pairs(rows, others)

    def _block_rows(self, conditions: list[Expression]) -> int:
        """Return how many pairs to look at together: fewer if what is compared is large."""
        names = {column_name(part) for item in conditions for part in walk(item)} - {None}
        pair_bytes = 0.0
        for side in (self.left, self.right):
            few = side.leading(JOIN_SAMPLE_ROWS)
            columns = FrameColumns(few, self.context.columns)
            pair_bytes += sum(
                columns.column(*name).nbytes / max(few.size, 1)
                for name in names
                if name is not None and name[0] in side.numbers
            )
        fitting = int(JOIN_BLOCK_BYTES / max(pair_bytes, 1.0))
        rows = min(max(fitting, JOIN_SAMPLE_ROWS), JOIN_BLOCK_ROWS)
        reserve(rows * (pair_bytes + 2 * ROW_BYTES))
        return rows

    def _fitting(self, conditions: list[Expression], rows: Rows, others: Rows) -> tuple[Rows, Rows]:
        for condition in conditions:
            names = variables_of(condition)
            numbers, sources = {}, {**self.left.sources, **self.right.sources}
            for name in names:
                mine = name in self.left.numbers
                side, at = (self.left, rows) if mine else (self.right, others)
                numbers[name] = side.numbers[name][at]
            columns = FrameColumns(Frame(len(rows), numbers, sources), self.context.columns)
            keep = row_numbers(
                evaluate_condition(condition, columns, self.context.parameters, self.context.now)
            )
            rows, others = rows[keep], others[keep]
        return rows, others


def _times(one: Counts | None, other: Counts | None) -> Counts | None:
    if one is None or other is None:
        return other if one is None else one
    return product(one, other)


def _total(weights: Counts) -> int:
    check_count(float(weights.sum(dtype=np.float64)))
    return int(weights.sum())
