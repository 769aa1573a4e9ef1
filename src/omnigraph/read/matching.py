"""Finds equal keys of two sets of rows with tables of hashes, many rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.compute.joins import JoinKeys, JoinSide, Words, ordered_numbers
from omnigraph.compute.types import Column
from omnigraph.limits import JOIN_CHUNK_ROWS, JOIN_ROUNDS_MAX, JOIN_THREADS, ROW_BYTES
from omnigraph.plan.expression import CompareOp
from omnigraph.read.arrays import Counts, Mask, Rows
from omnigraph.read.frame import check_rows
from omnigraph.read.running import checkpoint, reserve
from omnigraph.read.walk import check_count

A = TypeVar("A", bound=NDArray[Any])

_AGAIN = np.uint64(0xD6E8FEB86659FD93)


class _Round(Struct, frozen=True):
    """A table from some bits of a hash to a row that has it, -1 for none."""

    rows: Rows
    shift: np.uint64

    def places(self, hashes: Words) -> Rows:
        return (hashes >> self.shift).astype(np.int64)


class KeyTable:
    """Keys of some rows. Each distinct one is known by one of its rows, its `first`.

    Of the keys that share a place in a table one stays; the others go into the next table, under
    other bits. All rows of one key meet at one place, so they are settled together. What still
    collides after some rounds has equal hashes, which is no accident: it is looked up as it is.
    """

    def __init__(self, side: JoinSide) -> None:
        parts = [side.keys(*run) for run in _runs(len(side))]
        self._words = [
            np.concatenate(words) for words in zip(*(p.words for p in parts), strict=True)
        ]
        self._rounds: list[_Round] = []
        self.first: Rows = np.full(len(side), -1, dtype=np.int32)
        """For each row the first of its key, -1 where it equals nothing."""
        pending = np.flatnonzero(np.concatenate([part.known for part in parts])).astype(np.int32)
        hashes = np.concatenate([part.hashes()[part.known] for part in parts])
        while len(pending) and len(self._rounds) < JOIN_ROUNDS_MAX:
            hashes, pending = self._settle(hashes, pending)
        self._rest: dict[tuple[int, ...], int] = {}
        for row, key in zip(pending.tolist(), _spelled(self._words, pending), strict=True):
            self.first[row] = self._rest.setdefault(key, row)

    def _settle(self, hashes: Words, pending: Rows) -> tuple[Words, Rows]:
        bits = int(2 * len(pending) - 1).bit_length()
        table = _Round(np.full(1 << bits, -1, dtype=np.int32), np.uint64(64 - bits))
        runs = _runs(len(pending))
        for low, high in runs:
            table.rows[table.places(hashes[low:high])] = pending[low:high]
        self._rounds.append(table)

        def settled(low: int, high: int) -> Mask:
            rows = pending[low:high]
            winners = table.rows.take(table.places(hashes[low:high]))
            same = np.ones(len(rows), dtype=bool)
            for words in self._words:
                same &= words.take(winners) == words.take(rows)
            self.first[rows[same]] = winners[same]
            return ~same

        left = np.concatenate(_each(settled, runs))
        return _remixed(hashes[left]), pending[left]

    def find(self, side: JoinSide) -> Rows:
        """Return for each of other rows the first row here with its key, -1 where there is none."""
        return np.concatenate(
            _each(lambda low, high: self._found(side.keys(low, high)), _runs(len(side)))
        )

    def _found(self, keys: JoinKeys) -> Rows:
        found = np.full(len(keys.known), -1, dtype=np.int32)
        pending = np.flatnonzero(keys.known)
        hashes = keys.hashes()[pending]
        for table in self._rounds:
            if not len(pending):
                break
            winners = table.rows.take(table.places(hashes))
            # An empty place was empty for every key that might have gone on.
            there = winners >= 0
            same = there.copy()
            for mine, theirs in zip(self._words, keys.words, strict=True):
                same &= mine.take(winners, mode="wrap") == theirs.take(pending)
            found[pending[same]] = winners[same]
            there &= ~same
            hashes, pending = _remixed(hashes[there]), pending[there]
        if self._rest:
            rest = _spelled(keys.words, pending)
            found[pending] = [self._rest.get(key, -1) for key in rest]
        return found


def _runs(rows: int) -> list[tuple[int, int]]:
    """Return where the parts begin and end that are worked on at once; one at least."""
    starts = range(0, max(rows, 1), JOIN_CHUNK_ROWS)
    return [(low, min(low + JOIN_CHUNK_ROWS, rows)) for low in starts]


def _each(work: Callable[[int, int], A], runs: list[tuple[int, int]]) -> list[A]:
    """Work on parts, several at once if they are many: NumPy leaves the interpreter meanwhile."""
    found: list[A] = []
    if len(runs) < JOIN_THREADS:
        for run in runs:
            checkpoint()
            found.append(work(*run))
        return found
    with ThreadPoolExecutor(JOIN_THREADS) as pool:
        for item in pool.map(work, *zip(*runs, strict=True)):
            checkpoint()
            found.append(item)
    return found


def _spelled(words: Sequence[Words], rows: Rows) -> list[tuple[int, ...]]:
    return list(zip(*(item[rows].tolist() for item in words), strict=True))


def _remixed(hashes: Words) -> Words:
    mixed = hashes * _AGAIN
    mixed ^= mixed >> np.uint64(29)
    return mixed * _AGAIN


class Matches(Struct, frozen=True):
    """Two sets of rows as codes: rows are joined where the codes are equal and not -1."""

    left: Rows
    right: Rows
    size: int

    @staticmethod
    def of(left: JoinSide, right: JoinSide) -> Matches:
        """Match two sets of rows; the smaller one is put into a table."""
        if len(right) <= len(left):
            table = KeyTable(right)
            return Matches(table.find(left), table.first, len(right))
        table = KeyTable(left)
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
        found = ordered_numbers(left, right)
        if found is None:
            return None
        (mine, mine_known), (theirs, theirs_known) = found
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
        found: Counts = totals[self.starts + self.sizes] - totals[self.starts]
        return found

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
