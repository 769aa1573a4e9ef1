"""Adjacency of one edge table version, over dense node numbers.

A node's number is its position in its table version. Edges are kept sorted by their start, once
with every edge and once with each pair of nodes a single time, for both directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc

from omnigraph.catalog import EdgeType
from omnigraph.manifest import Pin
from omnigraph.plan.read import Direction
from omnigraph.read.columns import ResidentCache, TableColumns
from omnigraph.store import count

Array = Any
"""A numpy array of integers."""


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Neighbours of every node: those of node `i` are `targets[offsets[i]:offsets[i + 1]]`.

    `edges` holds the position of the edge in its table, or is None where parallel edges are one.
    """

    offsets: Array
    targets: Array
    edges: Array | None

    def follow(self, nodes: Array) -> tuple[Array, Array]:
        """Return, for every neighbour of every given node, the row it came from and its place."""
        safe = np.maximum(nodes, 0)
        starts = self.offsets[safe]
        sizes = np.where(nodes < 0, 0, self.offsets[safe + 1] - starts)
        rows = np.repeat(np.arange(len(nodes), dtype=np.int64), sizes)
        ends = np.cumsum(sizes)
        within = np.arange(len(rows), dtype=np.int64) - np.repeat(ends - sizes, sizes)
        return rows, np.repeat(starts, sizes) + within


@dataclass
class Topology:
    """Edges of one type as pairs of node numbers; edges without both nodes are left out."""

    sources: Array
    targets: Array
    edges: Array
    source_count: int
    target_count: int

    @cached_property
    def by_edge(self) -> dict[Direction, Adjacency]:
        """Adjacency with every edge, by direction."""
        out = _adjacency(self.sources, self.targets, self.edges, self.source_count)
        into = _adjacency(self.targets, self.sources, self.edges, self.target_count)
        found = {Direction.OUT: out, Direction.IN: into}
        if self.source_count == self.target_count:
            # A self-loop touches its node once, whichever way it is read.
            loop = self.sources == self.targets
            found[Direction.BOTH] = _adjacency(
                np.concatenate([self.sources, self.targets[~loop]]),
                np.concatenate([self.targets, self.sources[~loop]]),
                np.concatenate([self.edges, self.edges[~loop]]),
                self.source_count,
            )
        return found

    @cached_property
    def by_pair(self) -> dict[Direction, Adjacency]:
        """Adjacency with each pair of nodes once, by direction."""
        found = {
            Direction.OUT: _distinct(
                self.sources, self.targets, self.source_count, self.target_count
            ),
            Direction.IN: _distinct(
                self.targets, self.sources, self.target_count, self.source_count
            ),
        }
        if self.source_count == self.target_count:
            both = np.concatenate([self.sources, self.targets])
            back = np.concatenate([self.targets, self.sources])
            found[Direction.BOTH] = _distinct(both, back, self.source_count, self.target_count)
        return found

    @property
    def size_bytes(self) -> int:
        """Memory of the pairs and of the adjacency built from them."""
        return int(self.sources.nbytes + self.targets.nbytes + self.edges.nbytes) * 6


def _adjacency(starts: Array, ends: Array, edges: Array, size: int) -> Adjacency:
    order = np.argsort(starts, kind="stable")
    offsets = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(starts, minlength=size), out=offsets[1:])
    return Adjacency(offsets, ends[order], edges[order])


def _distinct(starts: Array, ends: Array, size: int, width: int) -> Adjacency:
    keys = np.unique(starts.astype(np.int64) * max(width, 1) + ends)
    first, second = np.divmod(keys, max(width, 1))
    offsets = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(first, minlength=size), out=offsets[1:])
    return Adjacency(offsets, second, None)


class Topologies:
    """Builds topologies and keeps them per edge table version and node table versions."""

    def __init__(self, columns: TableColumns, cache: ResidentCache) -> None:
        self._columns = columns
        self._cache = cache

    def get(self, edge: EdgeType, pin: Pin, source: Pin, target: Pin) -> Topology:
        """Return the topology of an edge type in one snapshot."""
        key = ("topology", pin.path, pin.version, source.version, target.version)
        found = self._cache.get(key)
        if isinstance(found, Topology):
            return found
        count("topology_builds")
        source_ids = self._columns.column(source, "id")
        target_ids = self._columns.column(target, "id")
        starts = _numbers(self._columns.column(pin, "src"), source_ids)
        ends = _numbers(self._columns.column(pin, "dst"), target_ids)
        whole = (starts >= 0) & (ends >= 0)
        topology = Topology(
            sources=starts[whole],
            targets=ends[whole],
            edges=np.nonzero(whole)[0].astype(np.int64),
            source_count=len(source_ids),
            target_count=len(target_ids),
        )
        self._cache.put(key, topology, topology.size_bytes)
        return topology


def _numbers(values: Any, ids: Any) -> Array:
    """Return the position of each value among the ids, -1 where there is none."""
    found = pc.index_in(values, value_set=ids)
    return pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
