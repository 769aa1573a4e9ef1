"""Walks a tree of variables from its most selective one.

Branches that the rest of a query does not read are not listed: for each node it is computed how
many ways there are through them, and that becomes the weight of the row. A variable that is not
needed any more is dropped, and rows that have become equal are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.errors import QueryError
from omnigraph.limits import (
    CONDITION_SHARE,
    COUNTED_TABLE_ROWS_MAX,
    DENSE_NODES_SHARE,
    EDGES_IN_PLACE_SHARE,
    FLOAT_EXACT_MAX,
    I32_MAX,
    LISTING_COST,
    PACKED_MAX,
    PIECE_GROWTH,
    WHOLE_TABLE_SHARE,
)
from omnigraph.plan.explain import step_text
from omnigraph.plan.expression import Expression
from omnigraph.read.adjacency import Adjacency
from omnigraph.read.arrays import Counts, Mask, Rows
from omnigraph.read.context import Context
from omnigraph.read.estimates import growth
from omnigraph.read.frame import Frame, Source, check_rows
from omnigraph.read.hops import reach
from omnigraph.read.running import traced
from omnigraph.read.topology import Topology
from omnigraph.read.tree import Link, Tree

Summable = NDArray[np.int64] | NDArray[np.uint8] | NDArray[np.bool_]


class Choice(Struct):
    """Which nodes of a table a variable may stand for.

    All of them without condition; else either their numbers, or a mask over the table, made when
    it is first worth it.
    """

    source: Source
    size: int
    condition: Expression | None = None
    numbers: Rows | None = None
    mask: Mask | None = None
    counted: int | None = None

    def kept(self, context: Context, nodes: Rows) -> Mask | None:
        """Return which of the nodes may be chosen; None when all may."""
        if self.condition is None:
            return None
        if self.numbers is not None:
            return np.isin(nodes, self.numbers)
        if self.mask is None and len(nodes) * WHOLE_TABLE_SHARE < self.size:
            return context.matching_rows(self.source, self.condition, nodes)
        return self.whole(context).take(nodes)

    def whole(self, context: Context) -> Mask:
        """Return the mask over the table."""
        if self.mask is None:
            mask = context.matching(self.source, self.condition)
            self.mask = np.ones(self.size, dtype=bool) if mask is None else mask
        return self.mask

    def all(self, context: Context) -> Rows:
        """Return the numbers of the nodes that may be chosen, in order."""
        if self.numbers is not None:
            return self.numbers
        if self.condition is None:
            return np.arange(self.size, dtype=np.int64)
        return np.flatnonzero(self.whole(context))

    def count(self, context: Context) -> None:
        """Find out how many nodes may be chosen."""
        if self.condition is not None and self.counted is None:
            self.counted = int(np.count_nonzero(self.whole(context)))

    @property
    def estimate(self) -> int:
        """How many nodes may be chosen, at most."""
        if self.numbers is not None:
            return len(self.numbers)
        return self.size if self.counted is None else self.counted


def walk_tree(context: Context, tree: Tree) -> Frame:
    """Return the rows of a tree: its live variables, each row with its weight."""
    return next(_Walk(context, tree).run())


def walk_in_pieces(context: Context, tree: Tree, first: int) -> Iterator[Frame]:
    """Yield the rows of a tree in pieces: from so many nodes, then from more and more."""
    return _Walk(context, tree).run(first)


def ways_through(context: Context, tree: Tree, source: Source, nodes: Rows) -> Counts:
    """Return for each node, as the root of a tree, how many ways there are through it.

    Where the tree says that copies do not matter, it is 1 for any number of them.
    """
    return _Walk(context, tree).ways_through(source, nodes)


class _Walk:
    def __init__(self, context: Context, tree: Tree) -> None:
        self._context = context
        self._tree = tree
        self._choices: dict[str, Choice] = {}
        self._done: frozenset[int] = frozenset()

    def run(self, first: int | None = None) -> Iterator[Frame]:
        """Yield the rows; with `first`, in pieces that start from so many nodes and grow."""
        root = self._root()
        choice = self._choices[root]
        numbers = choice.all(self._context)
        start, size = 0, len(numbers) if first is None else first
        while not start or start < len(numbers):
            yield self._walked(root, choice, numbers[start : start + size])
            start, size = start + max(size, 1), size * PIECE_GROWTH

    def _walked(self, root: str, choice: Choice, numbers: Rows) -> Frame:
        self._done = frozenset()
        frame = traced(
            lambda: f"start at ${root}: {self._tree.variables[root].type_name}",
            partial(self._start, root, choice, numbers),
            lambda: choice.size * (1.0 if choice.condition is None else CONDITION_SHARE),
        )
        while links := self._next_links(frame):
            link = links[0]
            self._done |= {link.number}
            frame = traced(
                partial(self._text, link),
                partial(self._follow, frame, link),
                partial(growth, self._context, link.step),
            )
        return frame

    def _start(self, root: str, choice: Choice, numbers: Rows) -> Frame:
        check_rows(len(numbers))
        return Frame(len(numbers), {root: numbers}, {root: choice.source}, unique=root)

    def _follow(self, frame: Frame, link: Link) -> Frame:
        if self._tree.dangling(link):
            return self._weigh(frame, link)
        return self._merge(self._list(frame, link))

    def _text(self, link: Link) -> str:
        way = f"from ${link.source}: " if link.source != link.step.source else ""
        verb = "count ways of " if self._tree.dangling(link) else ""
        return f"{way}{verb}{step_text(link.step)}"

    def ways_through(self, source: Source, nodes: Rows) -> Counts:
        self._choose()
        size = self._context.columns.size(source.pin)
        self._choices[self._tree.root] = Choice(source, size)
        there = np.flatnonzero(nodes >= 0)
        ways = np.zeros(len(nodes), dtype=np.int64)
        if len(there):
            links = self._tree.links_from(self._tree.root, without=frozenset())
            ways[there] = _valued(
                lambda chosen: self._ways_behind(links, chosen, frozenset()), nodes[there], size
            )
        return ways

    # ---- where to start -------------------------------------------------------------------

    def _choose(self) -> None:
        for name, variable in self._tree.variables.items():
            source = self._context.node(variable.type_name)
            size = self._context.columns.size(source.pin)
            choice = Choice(source, size, variable.condition)
            if variable.condition is not None:
                choice.numbers = self._context.by_key(source, variable.condition)
            self._choices[name] = choice

    def _root(self) -> str:
        self._choose()
        if not self._tree.can_turn or len(self._choices) == 1:
            return self._tree.root
        # A key names one node at most: nothing else can be a better start.
        by_key = [name for name, choice in self._choices.items() if choice.numbers is not None]
        if by_key:
            return self._tree.root if self._tree.root in by_key else by_key[0]
        return self._cheapest()

    def _cheapest(self) -> str:
        """Return the variable from which a walk looks at the fewest neighbours."""
        unknown = []
        for choice in self._choices.values():
            if choice.condition is None or choice.size <= COUNTED_TABLE_ROWS_MAX:
                choice.count(self._context)
            else:
                unknown.append(choice)
        costs = {name: self._cost(name) for name in self._choices}
        # Asking a condition of a whole large table is worth it only if the walk is as long.
        if unknown and min(costs.values()) > sum(choice.size for choice in unknown):
            for choice in unknown:
                choice.count(self._context)
            costs = {name: self._cost(name) for name in self._choices}
        return min(costs, key=lambda name: costs[name])

    def _cost(self, root: str) -> float:
        rows = float(self._choices[root].estimate)
        return rows + self._cost_from(root, rows, frozenset())

    def _cost_from(self, name: str, rows: float, without: frozenset[int]) -> float:
        """Estimate how many neighbours a walk looks at."""
        total = 0.0
        size = max(self._choices[name].size, 1)
        for link in self._tree.links_from(name, without=without):
            behind = without | {link.number}
            leaf = not self._tree.links_from(link.target, without=behind)
            target = self._choices[link.target]
            dangling = self._tree.dangling(link)
            if dangling and leaf and target.condition is None:
                continue
            edges = self._context.topology(link.step.edges).rows
            looked_at = min(rows, float(size)) * edges / size
            total += looked_at if dangling else LISTING_COST * looked_at
            share = target.estimate / max(target.size, 1)
            total += self._cost_from(link.target, looked_at * share, behind)
        return total

    # ---- steps ----------------------------------------------------------------------------

    def _next_links(self, frame: Frame) -> list[Link]:
        """Return the links that can be walked now: counting ones first, as they drop rows."""
        links = [
            link
            for name in frame.numbers
            if name in self._choices
            for link in self._tree.links_from(name, without=self._done)
        ]
        return sorted(links, key=lambda link: (not self._tree.dangling(link), link.number))

    def _weigh(self, frame: Frame, link: Link) -> Frame:
        """Multiply weights by the number of ways through a branch; rows without any go."""
        nodes = frame.numbers[link.source]
        if frame.size > self._choices[link.source].size:
            whole = np.arange(self._choices[link.source].size, dtype=np.int64)
            ways = self._ways(link, whole, frozenset([link.number]))[nodes]
        else:
            ways = self._ways(link, nodes, frozenset([link.number]))
        if self._tree.bag:
            weights = ways if frame.weights is None else product(frame.weights, ways)
            frame = frame.weighted(weights)
        keep = ways > 0
        return frame if keep.all() else frame.take(np.flatnonzero(keep))

    def _list(self, frame: Frame, link: Link) -> Frame:
        """Add the variables of a link, one row for each way over it."""
        nodes = frame.numbers[link.source]
        rows, targets, edges = self._neighbours(link, nodes)
        keep = self._kept(link, targets, edges)
        if keep is not None:
            rows, targets = rows[keep], targets[keep]
            edges = None if edges is None else edges[keep]
        listed = frame.take(rows)
        listed = listed.with_variable(link.target, targets, self._choices[link.target].source)
        variable = link.step.edge_variable
        if variable is not None and edges is not None:
            listed = listed.with_variable(variable, edges, self._context.edge(link.step.edges))
        return listed

    def _merge(self, frame: Frame) -> Frame:
        """Drop variables that nothing reads any more; with one left, make equal rows one."""
        names = [
            name
            for name in frame.numbers
            if name in self._tree.live
            or (name in self._choices and self._tree.links_from(name, without=self._done))
        ]
        # A tree whose variables are all dead is counted, not listed, so one is always left.
        if len(names) == len(frame.numbers) or not names:
            return frame
        frame = frame.only(names)
        if len(names) > 1 or names[0] not in self._choices:
            return frame
        if self._tree.listed and not self._next_links(frame):
            return frame
        name = names[0]
        size = self._choices[name].size
        if not self._tree.bag:
            return frame.with_distinct(name, distinct_nodes(frame.numbers[name], size), None)
        return frame.with_distinct(name, *_summed(frame.numbers[name], frame.weights, size))

    # ---- neighbours -----------------------------------------------------------------------

    def _neighbours(self, link: Link, nodes: Rows) -> tuple[Rows, Rows, Rows | None]:
        """Return, for every way over a link, its row, the node reached, and perhaps the edge."""
        topology = self._context.topology(link.step.edges)
        if not link.single_hop:
            rows, targets = reach(
                topology.by_pair[link.direction],
                nodes,
                least=link.step.min_hops,
                most=link.step.max_hops,
                nodes=topology.target_count,
            )
            return rows, targets, None
        adjacency = _adjacency(topology, link)
        rows, at = adjacency.follow(nodes)
        edges = None if adjacency.edges is None else adjacency.edges[at]
        return rows, adjacency.targets[at], edges

    def _kept(self, link: Link, targets: Rows, edges: Rows | None) -> Mask | None:
        keep = self._choices[link.target].kept(self._context, targets)
        condition = link.step.edge_condition
        if condition is not None and edges is not None:
            source = self._context.edge(link.step.edges)
            fits = self._context.matching_rows(source, condition, edges)
            keep = fits if keep is None else keep & fits
        return keep

    def _ways(self, link: Link, nodes: Rows, without: frozenset[int]) -> Counts:
        """Return, for each node, how many ways there are through the branch behind a link."""
        behind = self._tree.links_from(link.target, without=without)
        plain = self._choices[link.target].condition is None and link.step.edge_condition is None
        if not behind and plain and link.single_hop:
            offsets = _adjacency(self._context.topology(link.step.edges), link).offsets
            return offsets[nodes + 1] - offsets[nodes]
        if link.single_hop and len(nodes) * EDGES_IN_PLACE_SHARE >= self._choices[link.source].size:
            # Looking at every edge as it lies in memory beats gathering those of most nodes.
            adjacency = _adjacency(self._context.topology(link.step.edges), link)
            arrays = adjacency.targets, adjacency.edges, adjacency.offsets[1:]
            return self._ways_of(link, *arrays, without)[nodes]
        rows, targets, edges = self._neighbours(link, nodes)
        ends = np.cumsum(np.bincount(rows, minlength=len(nodes)))
        return self._ways_of(link, targets, edges, ends, without)

    def _ways_of(
        self, link: Link, targets: Rows, edges: Rows | None, ends: Rows, without: frozenset[int]
    ) -> Counts:
        """Return the ways for each run of reached nodes, given where runs end."""
        behind = self._tree.links_from(link.target, without=without)
        choice = self._choices[link.target]
        keep = self._kept(link, targets, edges)
        if not behind:
            return _sums(np.ones(len(targets), np.uint8) if keep is None else keep, ends)
        values = _valued(
            lambda chosen: self._ways_behind(behind, chosen, without),
            targets if keep is None else targets[keep],
            choice.size,
        )
        if keep is None:
            return _sums(values, ends)
        spread = np.zeros(len(targets), dtype=np.int64)
        spread[keep] = values
        return _sums(spread, ends)

    def _ways_behind(self, links: list[Link], nodes: Rows, without: frozenset[int]) -> Counts:
        ways = self._ways(links[0], nodes, without | {links[0].number})
        for link in links[1:]:
            ways = product(ways, self._ways(link, nodes, without | {link.number}))
        # Where one way is as good as many, numbers stay small.
        return ways if self._tree.bag else np.minimum(ways, 1)


def _adjacency(topology: Topology, link: Link) -> Adjacency:
    chosen = topology.by_pair if link.step.edge_variable is None else topology.by_edge
    return chosen[link.direction]


def _valued(values: Callable[[Rows], Counts], nodes: Rows, size: int) -> Counts:
    """Return a value for every node, computed once for each distinct one."""
    if len(nodes) * DENSE_NODES_SHARE < size:
        distinct, inverse = np.unique(nodes, return_inverse=True)
        return values(distinct)[inverse]
    distinct = distinct_nodes(nodes, size)
    spread = np.zeros(size, dtype=np.int64)
    spread[distinct] = values(distinct)
    return spread[nodes]


def distinct_nodes(nodes: Rows, size: int) -> Counts:
    """Return the different ones of some nodes, in order; the table has so many."""
    if len(nodes) * DENSE_NODES_SHARE < size:
        # Much faster than `unique`, which hashes.
        ordered = np.sort(nodes)
        new = np.ones(len(ordered), dtype=bool)
        np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
        return ordered[new].astype(np.int64)
    seen = np.zeros(size, dtype=bool)
    seen[nodes] = True
    return np.flatnonzero(seen)


def _summed(nodes: Rows, weights: Counts | None, size: int) -> tuple[Rows, Counts]:
    """Return the distinct nodes, and for each the sum of its weights."""
    if weights is not None:
        check_count(float(weights.sum(dtype=np.float64)))
    if len(nodes) * DENSE_NODES_SHARE < size:
        distinct, inverse = np.unique(nodes, return_inverse=True)
        return distinct.astype(np.int64), grouped_sums(inverse, weights, len(distinct))
    sums = grouped_sums(nodes, weights, size)
    distinct = np.flatnonzero(sums)
    return distinct, sums[distinct]


def grouped_sums(groups: Rows, values: Counts | None, size: int) -> Counts:
    """Return the sum of the values of each group, or its number of rows, exactly."""
    if values is None:
        return np.bincount(groups, minlength=size)
    if float(np.abs(values).sum(dtype=np.float64)) < FLOAT_EXACT_MAX:
        return np.bincount(groups, weights=values, minlength=size).astype(np.int64)
    check_count(float(np.bincount(groups, weights=np.abs(values)).max(initial=0.0)))
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, groups, values)
    return sums


def _sums(values: Summable, ends: Rows) -> Counts:
    """Return the sum of each run of values, given where runs end."""
    if values.dtype == np.int64:
        check_count(float(values.sum(dtype=np.float64)))
    totals = np.empty(len(values) + 1, dtype=_total_type(values))
    totals[0] = 0
    np.cumsum(values.view(np.uint8) if values.dtype == bool else values, out=totals[1:])
    return np.diff(totals[ends], prepend=0).astype(np.int64, copy=False)


def _total_type(values: Summable) -> type[np.signedinteger]:
    return np.int32 if values.dtype != np.int64 and len(values) <= I32_MAX else np.int64


def product(left: Counts, right: Counts) -> Counts:
    """Multiply weights, or refuse numbers of rows that nothing can hold."""
    check_count(float((left.astype(np.float64) * right).max(initial=0.0)))
    return left * right


def check_count(value: float) -> None:
    """Refuse a number of rows that does not fit in 64 bits."""
    if value >= PACKED_MAX:
        raise QueryError("integer overflow: the number of rows does not fit in 64 bits")
