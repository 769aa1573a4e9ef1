"""Joins two sets of rows by equal keys, or by an order of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from msgspec import Struct

from omnigraph.compute.joins import JoinSide, ordered_numbers
from omnigraph.compute.key_tables import KeyTable
from omnigraph.compute.types import Column
from omnigraph.limits import ROW_BYTES
from omnigraph.plan.expression import CompareOp
from omnigraph.read.arrays import Counts, Rows
from omnigraph.read.frame import check_rows
from omnigraph.read.running import checkpoint, reserve
from omnigraph.read.walk import check_count


class Matches(Struct, frozen=True):
    """Two sets of rows as codes: rows are joined where the codes are equal and not -1."""

    left: Rows
    right: Rows
    size: int

    @staticmethod
    def of(left: JoinSide, right: JoinSide) -> Matches:
        """Match two sets of rows; the smaller one is put into a table."""
        if len(right) <= len(left):
            table = KeyTable(right, checkpoint)
            return Matches(table.find(left), table.first, len(right))
        table = KeyTable(left, checkpoint)
        return Matches(table.first, table.find(right), len(left))

    def runs(self) -> Runs:
        """Return for each left row the right rows that it is joined with."""
        if not self.size:
            nothing = np.zeros(len(self.left), dtype=np.int64)
            return Runs(nothing, nothing, None)
        # What equals nothing counts at the end, where -1 points to.
        counts = np.bincount(
            np.where(self.right < 0, self.size, self.right), minlength=self.size + 1
        )
        counts[-1] = 0
        checkpoint()
        if int(counts.max()) <= 1:
            row_of = np.zeros(self.size + 1, dtype=np.int32)
            row_of[self.right] = np.arange(len(self.right), dtype=np.int32)
            return Runs(row_of.take(self.left), counts.take(self.left), None)
        order = np.argsort(self.right, kind="stable")[int(np.count_nonzero(self.right < 0)) :]
        starts = np.cumsum(counts) - counts
        return Runs(starts.take(self.left), counts.take(self.left), order)


class Runs(Struct, frozen=True):
    """For each left row where its right rows begin in `order` and how many they are."""

    starts: Rows
    sizes: Rows
    order: Rows | None
    """Right rows; None when they are in order."""

    @staticmethod
    def all(left: int, right: int) -> Runs:
        """Return the runs that join each of so many rows with each of so many others."""
        return Runs(np.zeros(left, np.int64), np.full(left, right, np.int64), None)

    @staticmethod
    def beside(op: CompareOp, left: Column, right: Column) -> Runs | None:
        """Return the runs of an order between two columns; None where only pairs can tell."""
        numbers = ordered_numbers(left, right)
        if numbers is None:
            return None
        (mine, mine_known), (theirs, theirs_known) = numbers
        order = np.flatnonzero(theirs_known)
        order = order[np.argsort(theirs[order], kind="stable")]
        checkpoint()
        side: Literal["left", "right"] = "right" if op in (CompareOp.LT, CompareOp.GE) else "left"
        at = np.searchsorted(theirs[order], mine, side=side).astype(np.int64)
        starts = at if op in (CompareOp.LT, CompareOp.LE) else np.zeros(len(mine), np.int64)
        sizes = len(order) - at if op in (CompareOp.LT, CompareOp.LE) else at
        return Runs(starts, np.where(mine_known, sizes, 0), order)

    @property
    def pairs(self) -> int:
        """Number of joined pairs."""
        return int(self.sizes.sum(dtype=np.float64))

    def sums(self, weights: Counts | None) -> Counts:
        """Return for each left row how many right rows it is joined with, each by its weight."""
        if weights is None:
            return self.sizes.astype(np.int64)
        check_count(float(weights.sum(dtype=np.float64)))
        totals = np.zeros(len(weights) + 1, dtype=np.int64)
        placed = weights if self.order is None else weights[self.order]
        np.cumsum(placed, out=totals[1 : len(placed) + 1])
        sums: Counts = totals[self.starts + self.sizes] - totals[self.starts]
        return sums

    def blocks(self, rows: int) -> Iterator[tuple[Rows, Rows]]:
        """Yield pairs of left and right rows, so many at once."""
        ends = np.cumsum(self.sizes, dtype=np.int64)
        total = int(ends[-1]) if len(ends) else 0
        for low in range(0, total, rows):
            checkpoint()
            pairs = np.arange(low, min(low + rows, total), dtype=np.int64)
            left = np.searchsorted(ends, pairs, side="right")
            at = pairs - (ends[left] - self.sizes[left] - self.starts[left])
            yield left, at if self.order is None else self.order[at]

    def listed(self) -> tuple[Rows, Rows]:
        """Return all pairs of left and right rows."""
        check_rows(self.pairs)
        reserve(3 * self.pairs * ROW_BYTES)
        ends = np.cumsum(self.sizes, dtype=np.int64)
        left = np.repeat(np.arange(len(self.sizes), dtype=np.int64), self.sizes)
        at = np.arange(len(left)) + np.repeat(self.starts - ends + self.sizes, self.sizes)
        return left, at if self.order is None else self.order[at]
