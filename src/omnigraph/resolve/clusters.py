"""Clusters: nodes that matching pairs connect, directly or through others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.resolve.blocks import Indexes
from omnigraph.resolve.scores import LEFT, RIGHT

CLUSTER, MEMBER = "cluster", "id"


def clusters_of(pairs: pa.Table) -> pa.Table:
    """Return the nodes of all pairs, by id, each with the number of its cluster.

    Clusters are numbered in the order of their lowest ids.
    """
    ends = pa.chunked_array([*pairs[LEFT].chunks, *pairs[RIGHT].chunks], pa.string())
    ids = pc.unique(ends)
    ids = ids.take(pc.sort_indices(ids))
    left, right = (
        pc.index_in(pairs[name].combine_chunks(), value_set=ids).to_numpy()
        for name in (LEFT, RIGHT)
    )
    lowest = components(left.astype(np.int64), right.astype(np.int64), len(ids))
    _roots, numbers = np.unique(lowest, return_inverse=True)
    return pa.table({CLUSTER: pa.array(numbers.astype(np.int64)), MEMBER: ids})


def components(left: Indexes, right: Indexes, size: int) -> Indexes:
    """Return, for each of so many nodes, the lowest node it is connected with."""
    lowest = np.arange(size)
    while True:
        mine, other = lowest[left], lowest[right]
        if (mine == other).all():
            return lowest
        # Each root takes the lowest root beside it; then all nodes point to their root again.
        below = np.minimum(mine, other)
        np.minimum.at(lowest, mine, below)
        np.minimum.at(lowest, other, below)
        while not (lowest[lowest] == lowest).all():
            lowest = lowest[lowest]
