"""Neighbours of nodes, by number: an array of them, and where those of each node begin."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from omnigraph.limits import ROW_BYTES
from omnigraph.read.arrays import Mask, Rows
from omnigraph.read.frame import check_rows
from omnigraph.read.running import reserve


class Adjacency(Struct, frozen=True):
    """Neighbours of every node: those of node `i` are `targets[offsets[i]:offsets[i + 1]]`.

    `edges` holds the position of the edge in its table, or is None where parallel edges are one.
    Targets of one node are in ascending order where `edges` is None.
    """

    offsets: Rows
    targets: Rows
    edges: Rows | None

    def follow(self, nodes: Rows) -> tuple[Rows, Rows]:
        """Return, for every neighbour of every given node, the row it came from and its place."""
        if not self.size:
            # There are no nodes, so every given node is none.
            nothing = np.empty(0, dtype=np.int64)
            return nothing, nothing
        safe = np.maximum(nodes, 0)
        starts = self.offsets[safe]
        sizes = np.where(nodes < 0, 0, self.offsets[safe + 1] - starts)
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        check_rows(total)
        reserve(3 * total * ROW_BYTES)
        rows = np.repeat(np.arange(len(nodes), dtype=np.int64), sizes)
        return rows, np.arange(len(rows), dtype=np.int64) + np.repeat(starts - ends + sizes, sizes)

    def neighbours(self, nodes: Rows) -> Rows:
        """Return the neighbours of every given node, which must be there, one run after another."""
        starts = self.offsets[nodes]
        sizes = self.offsets[nodes + 1] - starts
        ends = sizes.cumsum()
        total = int(ends[-1]) if len(ends) else 0
        check_rows(total)
        reserve(2 * total * ROW_BYTES)
        neighbours: Rows = self.targets[np.arange(total) + (starts - ends + sizes).repeat(sizes)]
        return neighbours

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.offsets) - 1

    def joins(self, starts: Rows, ends: Rows) -> Mask:
        """Tell for each pair of nodes whether it is there; targets must be in order."""
        there = (starts >= 0) & (ends >= 0)
        if not self.size:
            return there
        safe = np.where(there, starts, 0)
        low, high = self.offsets[safe], np.where(there, self.offsets[safe + 1], 0)
        last = high
        # All pairs search their own run of targets at once, halving it at every turn.
        while (open_ := low < high).any():
            middle = (low + high) // 2
            right = open_ & (self.targets[np.where(open_, middle, 0)] < ends)
            low = np.where(right, middle + 1, low)
            high = np.where(open_ & ~right, middle, high)
        joined = there & (low < last)
        joined[joined] = self.targets[low[joined]] == ends[joined]
        return joined


def _offsets(starts: Rows, size: int) -> Rows:
    offsets = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(starts, minlength=size), out=offsets[1:])
    return offsets


def every_edge(starts: Rows, ends: Rows, edges: Rows, size: int) -> Adjacency:
    """Return the neighbours of every node over every edge."""
    # Sorting numbers that hold start and place is several times faster than an argsort.
    width = max(len(starts), 1)
    order = np.sort(starts.astype(np.int64) * width + np.arange(len(starts))) % width
    return Adjacency(_offsets(starts, size), ends[order], edges[order])


def every_pair(starts: Rows, ends: Rows, size: int, width: int) -> Adjacency:
    """Return the neighbours of every node, each a single time, of so many nodes they can be."""
    width = max(width, 1)
    # In place: of a large type each copy is as large as what is made.
    keys = starts.astype(np.int64)
    keys *= width
    keys += ends
    keys.sort()
    if len(keys) > 1:
        repeated = keys[1:] == keys[:-1]
        if repeated.any():
            keys = keys[np.concatenate([[True], ~repeated])]
    offsets = np.searchsorted(keys, np.arange(size + 1, dtype=np.int64) * width)
    keys %= width
    return Adjacency(offsets, keys.astype(np.int32), None)


def patched(known: Adjacency, starts: Rows, ends: Rows, size: int) -> Adjacency:
    """Return an adjacency of pairs with some more pairs in it, and perhaps more nodes."""
    pairs = sorted(set(zip(starts.tolist(), ends.tolist(), strict=True)))
    places, new = [], []
    for one, two in pairs:
        first, last = (
            (int(known.offsets[one]), int(known.offsets[one + 1]))
            if one < known.size
            else (len(known.targets), len(known.targets))
        )
        place = first + int(np.searchsorted(known.targets[first:last], two))
        if place == last or known.targets[place] != two:
            places.append(place)
            new.append((one, two))
    offsets = np.full(size + 1, len(known.targets), dtype=np.int64)
    offsets[: known.size + 1] = known.offsets
    added = np.array([one for one, _two in new], dtype=np.int64)
    offsets[1:] += np.cumsum(np.bincount(added, minlength=size))
    targets = np.insert(known.targets, places, [two for _one, two in new])
    return Adjacency(offsets, targets, None)
