"""Follows edges over several hops: each node counts at its shortest distance."""

from __future__ import annotations

import numpy as np

from omnigraph.limits import HOP_BLOCK_ROWS, HOP_STARTS, ROW_BYTES
from omnigraph.read.adjacency import Adjacency
from omnigraph.read.arrays import Rows
from omnigraph.read.frame import check_rows
from omnigraph.read.running import checkpoint, reserve


def reach(
    adjacency: Adjacency,
    starts: Rows,
    *,
    least: int,
    most: int,
    nodes: int,
) -> tuple[Rows, Rows]:
    """Return (row, node) for every node at a shortest distance between two bounds.

    The start itself is never returned to over a cycle; if it has an edge to itself, it is reached
    at hop 1. Loops on other nodes make nothing nearer or further.
    """
    width = max(nodes, 1)
    # Rows that start at one node reach the same nodes: walk once per distinct start.
    distinct, inverse = np.unique(starts, return_inverse=True)
    origin = np.flatnonzero(distinct >= 0)
    given: list[Rows] = []
    total, low, size = 0, 0, HOP_STARTS
    while low < len(origin):
        block = origin[low : low + size]
        keys, looked_at = _reached(
            adjacency, block * width + distinct[block], least=least, most=most, width=width
        )
        total += len(keys)
        check_rows(total)
        # Once in blocks and once as a whole.
        reserve(2 * total * ROW_BYTES)
        given.append(keys)
        low += size
        # As many starts at once as look at about so many neighbours.
        size = max(1, min(2 * size, size * HOP_BLOCK_ROWS // max(looked_at, 1)))
    reached = np.concatenate(given) if given else np.empty(0, dtype=np.int64)
    return _per_row(reached, inverse, len(distinct), width)


def _reached(
    adjacency: Adjacency, frontier: Rows, *, least: int, most: int, width: int
) -> tuple[Rows, int]:
    """Return what some starts reach, as numbers that hold both, and the most looked at in a hop."""
    visited = np.sort(frontier)
    given: list[Rows] = []
    looked_at = 0
    for hop in range(1, most + 1):
        if len(frontier) == 0:
            break
        owners, places = np.divmod(frontier, width)
        rows, at = adjacency.follow(places)
        looked_at = max(looked_at, len(rows))
        targets = adjacency.targets[at]
        keys = owners[rows] * width + targets
        if hop == least == 1:
            given.append(frontier[rows[targets == places[rows]]])
        new = np.unique(keys)
        checkpoint()
        new = new[~np.isin(new, visited, assume_unique=True)]
        if hop >= least:
            given.append(new)
        visited = np.sort(np.concatenate([visited, new]))
        check_rows(len(visited))
        frontier = new
    reached = np.sort(np.concatenate(given)) if given else np.empty(0, dtype=np.int64)
    return reached, looked_at


def _per_row(reached: Rows, inverse: Rows, starts: int, width: int) -> tuple[Rows, Rows]:
    """Give every row the nodes its start reaches."""
    owners, nodes = np.divmod(reached, width)
    offsets = np.zeros(starts + 1, dtype=np.int64)
    np.cumsum(np.bincount(owners, minlength=starts), out=offsets[1:])
    rows, at = Adjacency(offsets, nodes, None).follow(inverse.astype(np.int64))
    check_rows(len(rows))
    return rows, nodes[at]
