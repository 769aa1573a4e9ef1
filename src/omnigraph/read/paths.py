"""Shortest paths: the nodes a bounded traversal passes, beside the node it reaches.

Of several shortest paths between two nodes it is the one whose ids come first, compared from where
the path begins. So it depends neither on how rows are stored nor on the end the walk started from.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.catalog import united
from omnigraph.limits import HOP_BLOCK_ROWS, HOP_STARTS, PATH_NODE_BYTES
from omnigraph.plan.read import Direction, Expand, ExpandInto
from omnigraph.read.adjacency import Adjacency
from omnigraph.read.arrays import Mask, Rows
from omnigraph.read.context import Context
from omnigraph.read.frame import Frame, Source, check_rows
from omnigraph.read.running import checkpoint, reserve


class Wanted(Struct, frozen=True):
    """Which pairs of a start and a node are asked for: by the node, or one by one, in order."""

    nodes: Mask | None = None
    pairs: Rows | None = None

    def keep(self, pairs: Rows, width: int) -> Mask:
        """Tell of some pairs which are asked for."""
        if self.pairs is not None:
            return np.isin(pairs, self.pairs)
        return np.ones(len(pairs), bool) if self.nodes is None else self.nodes[pairs % width]

    def of_starts(self, low: int, high: int, width: int) -> int | None:
        """Return how many pairs of some starts are asked for; None if that is not known."""
        if self.pairs is None:
            return None
        first, last = np.searchsorted(self.pairs, [low * width, high * width])
        return int(last - first)


class Paths(Struct, frozen=True):
    """Pairs of a start and a node it reaches, in order, and for each the ids on the way."""

    pairs: Rows
    lists: pa.ListArray


class Walk(Struct, frozen=True):
    """How paths are looked for: over what, how far, and where they begin."""

    adjacency: Adjacency
    start_ids: pa.Array
    ids: pa.Array
    """Those of the nodes that are reached."""
    one_type: bool
    """Whether starts and reached nodes are of one type; only then there is a second hop."""
    least: int
    most: int
    backwards: bool
    """Whether a path begins at the node that the walk reaches, not at its start."""

    @property
    def width(self) -> int:
        """What a start is multiplied by to hold a node as well."""
        return max(len(self.start_ids), len(self.ids), 1)

    def paths(self, starts: Rows, wanted: Wanted) -> Paths:
        """Return the shortest paths from distinct nodes, each known by its place among them."""
        all_levels: list[_Level] = []
        low, size = 0, HOP_STARTS
        while low < len(starts):
            owners = np.arange(low, min(low + size, len(starts)), dtype=np.int64)
            levels, looked_at = self._from(owners, starts[owners], wanted)
            all_levels += levels
            low += size
            # As many starts at once as look at about so many neighbours.
            size = max(1, min(2 * size, size * HOP_BLOCK_ROWS // max(looked_at, 1)))
        return _together(all_levels)

    def _from(self, owners: Rows, starts: Rows, wanted: Wanted) -> tuple[list[_Level], int]:
        """Walk from some starts, level by level, each in the order of the paths to its nodes.

        Returns what is wanted, and the most neighbours looked at in a hop.
        """
        width = self.width
        left = wanted.of_starts(int(owners[0]), int(owners[-1]) + 1, width)
        frontier = owners * width + starts
        visited = np.sort(frontier) if self.one_type else frontier[:0]
        steps: list[tuple[Rows, Rows]] = [(frontier, frontier)]
        levels: list[_Level] = []
        looked_at = 0
        for hop in range(1, self.most + 1):
            places = frontier % width
            rows, at = self.adjacency.follow(places)
            looked_at = max(looked_at, len(rows))
            targets = self.adjacency.targets[at]
            pairs = frontier[rows] - places[rows] + targets
            if hop == self.least == 1 and self.one_type:
                # Only an edge to itself leads back to a start, as hop 1.
                loops = np.flatnonzero(targets == places[rows])
                levels += self._wanted(pairs[loops], rows[loops], steps, wanted)
            # What leads there is in order, so the first that does is the best.
            pairs, first = np.unique(pairs, return_index=True)
            new = ~np.isin(pairs, visited, assume_unique=True)
            pairs, parents = pairs[new], rows[first[new]]
            checkpoint()
            if hop >= self.least:
                levels += self._wanted(pairs, parents, steps, wanted)
            all_there = left is not None and sum(len(item.pairs) for item in levels) >= left
            if all_there or hop == self.most or not len(pairs):
                break
            visited = np.sort(np.concatenate([visited, pairs]))
            check_rows(len(visited))
            order = self._order(pairs % width, parents)
            frontier = pairs[order]
            steps.append((frontier, parents[order]))
        return levels, looked_at

    def _order(self, nodes: Rows, parents: Rows) -> Rows:
        """Return the order of the paths to some nodes, by ids from where paths begin."""
        distinct, inverse = np.unique(nodes, return_inverse=True)
        ranks = np.empty(len(distinct), dtype=np.int64)
        order = np.asarray(pc.sort_indices(self.ids.take(pa.array(distinct))))
        ranks[order] = np.arange(len(distinct))
        by_id = ranks[inverse]
        # Where paths begin here, ids decide; where they end here, first what came before.
        return np.argsort(by_id) if self.backwards else np.lexsort((by_id, parents))

    def _wanted(
        self, pairs: Rows, parents: Rows, steps: list[tuple[Rows, Rows]], wanted: Wanted
    ) -> list[_Level]:
        """Return those pairs that are wanted, with the nodes on the way."""
        kept = np.flatnonzero(wanted.keep(pairs, self.width))
        if not len(kept):
            return []
        pairs, places = pairs[kept], parents[kept]
        check_rows(len(pairs))
        reserve(len(pairs) * (len(steps) + 1) * PATH_NODE_BYTES)
        columns = [self.ids.take(pa.array(pairs % self.width))]
        for number in reversed(range(len(steps))):
            frontier, before = steps[number]
            ids = self.ids if number else self.start_ids
            columns.append(ids.take(pa.array(frontier[places] % self.width)))
            places = before[places] if number else places
        return [_Level(pairs, columns if self.backwards else columns[::-1])]


class _Level(Struct, frozen=True):
    """Pairs of one distance, and for each place on the way a column of ids."""

    pairs: Rows
    columns: list[pa.Array]

    def lists(self) -> pa.ListArray:
        """Return the ids on the way of each pair."""
        size, rows = len(self.columns), len(self.pairs)
        across = np.arange(size * rows).reshape(size, rows).T.ravel()
        values = pa.concat_arrays(self.columns).take(pa.array(across))
        return pa.ListArray.from_arrays(
            pa.array(np.arange(rows + 1, dtype=np.int32) * size), values
        )


def _together(levels: list[_Level]) -> Paths:
    """Return paths of all lengths, in the order of their pairs."""
    if not levels:
        return Paths(np.empty(0, dtype=np.int64), pa.array([], pa.list_(pa.string())))
    pairs = np.concatenate([level.pairs for level in levels])
    order = np.argsort(pairs)
    lists = pa.concat_arrays([level.lists() for level in levels])
    return Paths(pairs[order], lists.take(pa.array(order)))


# ---- steps --------------------------------------------------------------------------------


def expand_path(context: Context, step: Expand, variable: str, frame: Frame) -> Frame:
    """Follow edges to a new variable, and name the path to each node that is reached."""
    walk = _walk(context, step)
    starts, inverse = np.unique(frame.numbers[step.source], return_inverse=True)
    there = np.flatnonzero(starts >= 0)
    source = context.node(step.target_type)
    wanted = Wanted(nodes=context.matching(source, step.target_condition))
    paths = walk.paths(starts[there], wanted)
    owners, nodes = np.divmod(paths.pairs, walk.width)
    offsets = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(np.bincount(there[owners], minlength=len(starts)), out=offsets[1:])
    rows, at = Adjacency(offsets, nodes, None).follow(inverse.astype(np.int64))
    made = frame.take(rows).with_variable(step.target, nodes[at], source)
    return made.with_variable(variable, at, Source.computed(variable, paths.lists))


def expand_path_into(context: Context, step: ExpandInto, variable: str, frame: Frame) -> Frame:
    """Keep rows whose two nodes a path joins, and name it."""
    walk = _walk(context, step)
    ends = frame.numbers[step.target]
    there = np.flatnonzero((frame.numbers[step.source] >= 0) & (ends >= 0))
    starts, inverse = np.unique(frame.numbers[step.source][there], return_inverse=True)
    asked = inverse.astype(np.int64) * walk.width + ends[there]
    paths = walk.paths(starts, Wanted(pairs=np.unique(asked)))
    kept = np.flatnonzero(np.isin(asked, paths.pairs))
    at = np.searchsorted(paths.pairs, asked[kept])
    made = frame.take(there[kept])
    return made.with_variable(variable, at, Source.computed(variable, paths.lists))


def _walk(context: Context, step: Expand | ExpandInto) -> Walk:
    edge = united([context.catalog.edges[name] for name in step.edges])
    ends = (edge.source, edge.target)
    start, reached = reversed(ends) if step.direction is Direction.IN else ends
    return Walk(
        adjacency=context.topology(step.edges).by_pair[step.direction],
        start_ids=context.columns.column(context.node(start).pin, "id"),
        ids=context.columns.column(context.node(reached).pin, "id"),
        one_type=start == reached,
        least=step.min_hops,
        most=step.max_hops,
        backwards=step.path_backwards,
    )
