"""Follows edges over several hops: each node counts at its shortest distance."""

from __future__ import annotations

import numpy as np

from omnigraph.read.arrays import Rows
from omnigraph.read.frame import check_rows
from omnigraph.read.topology import Adjacency


def reach(
    adjacency: Adjacency,
    starts: Rows,
    *,
    least: int,
    most: int,
    nodes: int,
    reverse: bool = False,
) -> tuple[Rows, Rows]:
    """Return (row, node) for every node at a shortest distance between two bounds.

    The start itself is never returned to over a cycle. A self-loop is the exception: it gives the
    node it stands on one hop later, if that was not given already. With `reverse` paths lead from
    the nodes to the start, so the loop that counts is the one on the start.
    """
    width = max(nodes, 1)
    # Rows that start at one node reach the same nodes: walk once per distinct start.
    distinct, inverse = np.unique(starts, return_inverse=True)
    valid = distinct >= 0
    origin = np.nonzero(valid)[0].astype(np.int64)
    frontier = origin * width + distinct[valid]
    visited = np.sort(frontier)
    given: list[Rows] = []
    looped_starts = np.empty(0, dtype=np.int64)
    for hop in range(1, most + 1):
        if len(frontier) == 0:
            break
        owners, places = np.divmod(frontier, width)
        rows, at = adjacency.follow(places)
        check_rows(len(rows))
        targets = adjacency.targets[at]
        keys = owners[rows] * width + targets
        looped = rows[targets == places[rows]]
        if hop == 1:
            looped_starts = owners[looped]
        new = np.unique(keys)
        new = new[~np.isin(new, visited, assume_unique=True)]
        if hop == least:
            # Nodes one hop too near count by a loop; at later hops they were given already.
            given.append(frontier[np.isin(owners, looped_starts) if reverse else looped])
        if hop >= least:
            given.append(new)
        visited = np.sort(np.concatenate([visited, new]))
        check_rows(len(visited))
        frontier = new
    reached = np.sort(np.concatenate(given)) if given else np.empty(0, dtype=np.int64)
    return _per_row(reached, inverse, len(distinct), width)


def _per_row(reached: Rows, inverse: Rows, starts: int, width: int) -> tuple[Rows, Rows]:
    """Give every row the nodes its start reaches."""
    owners, nodes = np.divmod(reached, width)
    offsets = np.zeros(starts + 1, dtype=np.int64)
    np.cumsum(np.bincount(owners, minlength=starts), out=offsets[1:])
    rows, at = Adjacency(offsets, nodes, None).follow(inverse.astype(np.int64))
    check_rows(len(rows))
    return rows, nodes[at]
