"""Adjacency of one edge table version, over dense node numbers.

A node's number is its position in its table version. Edges are kept sorted by their start, once
with every edge and once with each pair of nodes a single time; each direction is made when it is
first asked for. A version that only adds rows to a known one patches what the known one has.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.bounded import BoundedCache
from omnigraph.catalog import EdgeType, EdgeUnion
from omnigraph.errors import StorageError
from omnigraph.limits import (
    NEWEST_KNOWN_MAX,
    NUMBERED_ROWS_MIN,
    NUMBERED_ROWS_SHARE,
    PATCHED_EDGES_MAX,
    ROW_BYTES,
)
from omnigraph.plan.read import Direction
from omnigraph.read.arrays import Mask, Rows
from omnigraph.read.columns import Layout, ResidentCache, TableColumns
from omnigraph.read.frame import check_rows
from omnigraph.read.running import reserve
from omnigraph.store import Pin, count, split_branch


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
            # Nobody is there, so every given node is none.
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
        found: Rows = self.targets[np.arange(total) + (starts - ends + sizes).repeat(sizes)]
        return found

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
        found = there & (low < last)
        found[found] = self.targets[low[found]] == ends[found]
        return found


class _ByDirection(dict[Direction, Adjacency]):
    """Adjacencies, each made when it is first asked for."""

    def __init__(self, make: Callable[[Direction], Adjacency]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, direction: Direction) -> Adjacency:
        made = self[direction] = self._make(direction)
        return made


class Ends(Struct, frozen=True):
    """The nodes each edge of a type leads from and to; edges without both nodes are left out.

    `edges` are their positions in the table; None when all are there.
    """

    sources: Rows
    targets: Rows
    edges: Rows | None

    def positions(self) -> Rows:
        """Return the position of each edge in its table."""
        return np.arange(len(self.sources), dtype=np.int32) if self.edges is None else self.edges

    @property
    def size_bytes(self) -> int:
        """Memory of the numbers."""
        arrays = (self.sources, self.targets, self.edges)
        return sum(int(array.nbytes) for array in arrays if array is not None)


class Kept(Protocol):
    """A topology that was made before and is read part by part."""

    def ends(self) -> Ends | None:
        """Return the ends of all edges, None where they cannot be read."""

    def pairs(self, direction: Direction) -> Adjacency | None:
        """Return each pair of nodes a single time, None where that cannot be read."""


class Topology:
    """Edges of one type as pairs of node numbers, in a table of `rows` rows.

    What is asked for is taken from what was kept, where there is such, or else made.
    """

    def __init__(
        self,
        ends: Ends | Callable[[], Ends],
        *,
        source_count: int,
        target_count: int,
        rows: int,
        kept: Kept | None = None,
    ) -> None:
        self._given = ends
        self.source_count = source_count
        self.target_count = target_count
        self.rows = rows
        self.kept = kept
        self.by_edge: dict[Direction, Adjacency] = _ByDirection(self._every_edge)
        self.by_pair: dict[Direction, Adjacency] = _ByDirection(self._every_pair)

    @property
    def ends(self) -> Ends:
        """The ends of all edges."""
        if not isinstance(self._given, Ends):
            known = None if self.kept is None else self.kept.ends()
            self._given = known or self._given()
        return self._given

    def copied(self) -> Topology:
        """Return another one of the same edges: what is made of it is not kept here."""
        found = Topology(
            self.ends,
            source_count=self.source_count,
            target_count=self.target_count,
            rows=self.rows,
        )
        found.by_pair.update(self.by_pair)
        return found

    def _every_edge(self, direction: Direction) -> Adjacency:
        sources, targets, edges = self.ends.sources, self.ends.targets, self.ends.positions()
        match direction:
            case Direction.OUT:
                return _adjacency(sources, targets, edges, self.source_count)
            case Direction.IN:
                return _adjacency(targets, sources, edges, self.target_count)
            case Direction.BOTH:
                # A self-loop touches its node once, whichever way it is read.
                other = sources != targets
                return _adjacency(
                    np.concatenate([sources, targets[other]]),
                    np.concatenate([targets, sources[other]]),
                    np.concatenate([edges, edges[other]]),
                    self.source_count,
                )

    def _every_pair(self, direction: Direction) -> Adjacency:
        found = None if self.kept is None else self.kept.pairs(direction)
        if found is not None:
            return found
        sources, targets = self.ends.sources, self.ends.targets
        sizes = (self.source_count, self.target_count)
        match direction:
            case Direction.OUT:
                return _distinct(sources, targets, *sizes)
            case Direction.IN:
                return _distinct(targets, sources, *reversed(sizes))
            case Direction.BOTH:
                both = np.concatenate([sources, targets])
                back = np.concatenate([targets, sources])
                return _distinct(both, back, *sizes)

    @property
    def size_bytes(self) -> int:
        """Memory of the pairs and of what has been made from them."""
        arrays: list[Rows | None] = []
        for made in (*self.by_edge.values(), *self.by_pair.values()):
            arrays += [made.offsets, made.targets, made.edges]
        own = self._given.size_bytes if isinstance(self._given, Ends) else 0
        return own + sum(int(array.nbytes) for array in arrays if array is not None)

    def extended(self, sources: Rows, targets: Rows, counts: tuple[int, int]) -> Topology:
        """Return the topology with rows added to its tables; adjacencies of pairs are patched.

        `sources` and `targets` are the ends of the new edges, -1 where there is no such node.
        """
        known = self.ends
        whole = (sources >= 0) & (targets >= 0)
        edges: Rows | None = None
        if known.edges is not None or not whole.all():
            new = np.flatnonzero(whole).astype(np.int32) + self.rows
            edges = np.concatenate([known.positions(), new])
        rows = self.rows + len(sources)
        sources, targets = sources[whole], targets[whole]
        ends = Ends(
            np.concatenate([known.sources, sources]),
            np.concatenate([known.targets, targets]),
            edges,
        )
        found = Topology(ends, source_count=counts[0], target_count=counts[1], rows=rows)
        for direction, made in list(self.by_pair.items()):
            one, other = {
                Direction.OUT: (sources, targets),
                Direction.IN: (targets, sources),
                Direction.BOTH: (
                    np.concatenate([sources, targets]),
                    np.concatenate([targets, sources]),
                ),
            }[direction]
            size = counts[1] if direction is Direction.IN else counts[0]
            found.by_pair[direction] = _patched(made, one, other, size)
        return found


def _offsets(starts: Rows, size: int) -> Rows:
    offsets = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(starts, minlength=size), out=offsets[1:])
    return offsets


def _adjacency(starts: Rows, ends: Rows, edges: Rows, size: int) -> Adjacency:
    # Sorting numbers that hold start and place is several times faster than an argsort.
    width = max(len(starts), 1)
    order = np.sort(starts.astype(np.int64) * width + np.arange(len(starts))) % width
    return Adjacency(_offsets(starts, size), ends[order], edges[order])


def _distinct(starts: Rows, ends: Rows, size: int, width: int) -> Adjacency:
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


def _patched(known: Adjacency, starts: Rows, ends: Rows, size: int) -> Adjacency:
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


class TopologySource(Protocol):
    """Where the topologies of a query come from."""

    def get(self, edge: EdgeType, pin: Pin, source: Pin, target: Pin) -> Topology:
        """Return the topology of an edge type in one snapshot."""

    def united(self, edge: EdgeUnion, pins: Mapping[str, Pin]) -> Topology:
        """Return the topology of edges of several types as one."""


def united_topology(edge: EdgeUnion, found: Sequence[Topology]) -> Topology:
    """Return the topologies of the members of a union as one.

    Edges are numbered as if the tables of the members were one after the other.
    """
    sources: list[Rows] = []
    targets: list[Rows] = []
    edges: list[Rows] = []
    rows = 0
    for member, topology in zip(edge.members, found, strict=True):
        known = topology.ends
        both = (known.sources, known.targets)
        one, other = reversed(both) if edge.is_turned(member) else both
        sources.append(one)
        targets.append(other)
        edges.append(known.positions() + np.int32(rows))
        rows += topology.rows
    ends = Ends(np.concatenate(sources), np.concatenate(targets), np.concatenate(edges))
    return Topology(
        ends,
        source_count=found[0].source_count,
        target_count=found[0].target_count,
        rows=rows,
    )


class KeptVersion(Kept, Protocol):
    """A kept topology, and what it was made from: the layouts of the edges and of both ends."""

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """What identifies the rows of the edges, and of the nodes at both ends."""

    @property
    def counts(self) -> tuple[int, int]:
        """Number of nodes at both ends."""

    @property
    def rows(self) -> int:
        """Number of edges."""


FindKept = Callable[[Pin, tuple[Layout, ...]], KeptVersion | None]
"""Finds a topology of a table version, or of one to which that only adds few rows."""


class _Known(Struct, frozen=True):
    """The newest topology made of an edge type, and what it was made from."""

    key: object
    layouts: tuple[Layout, ...]
    pins: tuple[Pin, Pin, Pin]
    previous: object | None

    def is_before(self, *pins: Pin) -> bool:
        """Whether it is older than a topology of these versions."""
        return [pin.version for pin in self.pins] < [pin.version for pin in pins]


class Topologies:
    """Builds topologies and keeps them per edge table version and node table versions."""

    def __init__(
        self, columns: TableColumns, cache: ResidentCache, kept: FindKept | None = None
    ) -> None:
        self._columns = columns
        self._cache = cache
        self._find_kept = kept
        self._newest: BoundedCache[object, _Known] = BoundedCache(NEWEST_KNOWN_MAX)

    def get(self, edge: EdgeType, pin: Pin, source: Pin, target: Pin) -> Topology:
        """Return the topology of an edge type in one snapshot."""
        key = self._key(pin, source, target)
        found = self._cache.get(key)
        if isinstance(found, Topology):
            self._cache.resize(key, found.size_bytes)
            return found
        with self.turn(pin):
            found = self._cache.get(key)
            return found if isinstance(found, Topology) else self._made(pin, source, target)

    def turn(self, pin: Pin) -> threading.Lock:
        """Return the lock of those who make a topology of an edge table."""
        return self._cache.turn(("topology", pin.path))

    def united(self, edge: EdgeUnion, pins: Mapping[str, Pin]) -> Topology:
        """Return the topology of edges of several types as one."""
        ends = (pins[f"node:{edge.source}"], pins[f"node:{edge.target}"])
        tables = [pins[member.table_key] for member in edge.members]
        key = ("union", *((item.path, item.version) for item in (*tables, *ends)))
        found = self._cache.get(key)
        if not isinstance(found, Topology):
            back = (ends[1], ends[0])
            parts = [
                self.get(member, pin, *(back if edge.is_turned(member) else ends))
                for member, pin in zip(edge.members, tables, strict=True)
            ]
            found = united_topology(edge, parts)
            self._cache.put(key, found, found.size_bytes)
        self._cache.resize(key, found.size_bytes)
        return found

    def _made(self, pin: Pin, source: Pin, target: Pin) -> Topology:
        """Make a topology from a known one if that is possible, else from its tables."""
        layouts = tuple(self._columns.layout(item) for item in (pin, source, target))
        topology = (
            self._patch(pin, source, target, layouts)
            or self._from_kept(pin, source, target, layouts)
            or self.built(pin, source, target)
        )
        key = self._key(pin, source, target)
        self._cache.put(key, topology, topology.size_bytes)
        line = (pin.path, source.path, target.path)
        known = self._newest.get(line)
        if known is None or known.is_before(pin, source, target):
            # Those who began a moment ago still use the last one; the one before it can go, else
            # every commit of a stream would leave one behind.
            if known is not None and known.previous is not None:
                self._cache.drop(known.previous)
            previous = None if known is None else known.key
            made = _Known(key, layouts, (pin, source, target), previous)
            self._newest.put(line, made)
            self._newest.put(pin.path, made)
        return topology

    def _known(self, pin: Pin, source: Pin, target: Pin) -> _Known | None:
        """Return the newest topology of these lines of versions, or of one they left."""
        root = split_branch(pin.path)[0]
        for line in ((pin.path, source.path, target.path), pin.path, root):
            known = self._newest.get(line)
            if known is not None and self._cache.get(known.key) is not None:
                return known
        return None

    def known(self, pin: Pin, source: Pin, target: Pin) -> Topology | None:
        """Return the topology of an edge type if it is in memory."""
        key = self._key(pin, source, target)
        found = self._cache.get(key)
        if not isinstance(found, Topology):
            return None
        self._cache.resize(key, found.size_bytes)
        return found

    def like(
        self, pin: Pin, source: Pin, target: Pin, layouts: tuple[Layout, ...]
    ) -> Topology | None:
        """Return a copy of the newest topology of these lines if it has the same rows."""
        known = self._known(pin, source, target)
        found = None if known is None else self._cache.get(known.key)
        same = known is not None and known.layouts == layouts
        return found.copied() if same and isinstance(found, Topology) else None

    def resident(self, pin: Pin, source: Pin, target: Pin) -> bool:
        """Whether a topology is in memory, or one it can be made from at little cost."""
        if self._cache.get(self._key(pin, source, target)) is not None:
            return True
        return self._known(pin, source, target) is not None

    @staticmethod
    def _key(pin: Pin, source: Pin, target: Pin) -> object:
        return ("topology", *((item.path, item.version) for item in (pin, source, target)))

    def built(self, pin: Pin, source: Pin, target: Pin) -> Topology:
        """Return the topology of an edge type, made from the tables."""
        return Topology(
            self._ends(pin, source, target),
            source_count=self._columns.size(source),
            target_count=self._columns.size(target),
            rows=self._columns.size(pin),
        )

    def _ends(self, pin: Pin, source: Pin, target: Pin) -> Ends:
        count("topology_builds")
        # Finding texts takes most of the time, and Arrow lets go of the interpreter for it.
        with ThreadPoolExecutor(2) as pool:
            found = [
                pool.submit(self._numbered, pin, name, self._columns.column(node, "id"))
                for name, node in (("src", source), ("dst", target))
            ]
        starts, ends = (item.result() for item in found)
        whole = (starts >= 0) & (ends >= 0)
        if whole.all():
            return Ends(starts, ends, None)
        return Ends(starts[whole], ends[whole], np.flatnonzero(whole).astype(np.int32))

    def _numbered(self, pin: Pin, name: str, ids: pa.Array) -> Rows:
        """Return the numbers of the nodes at one end of all edges; few texts are held at once."""
        # A table of the ids is made for each part, which should take little of the time.
        rows = max(NUMBERED_ROWS_MIN, NUMBERED_ROWS_SHARE * len(ids))
        found = [node_numbers(part, ids) for part in self._columns.parts(pin, name, rows)]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int32)

    def _from_kept(
        self, pin: Pin, source: Pin, target: Pin, layouts: tuple[Layout, ...]
    ) -> Topology | None:
        """Return a topology that was kept, with the rows added since."""
        kept = self._find_kept and self._find_kept(pin, layouts)
        if kept is None:
            return None
        counts = (self._columns.size(source), self._columns.size(target))
        if kept.layouts == layouts:
            return Topology(
                lambda: self._ends(pin, source, target),
                source_count=counts[0],
                target_count=counts[1],
                rows=kept.rows,
                kept=kept,
            )
        known = kept.ends()
        if known is None:
            return None
        base = Topology(
            known, source_count=kept.counts[0], target_count=kept.counts[1], rows=kept.rows
        )
        for direction in (Direction.OUT, Direction.IN):
            pairs = kept.pairs(direction)
            if pairs is not None:
                base.by_pair[direction] = pairs
        added = self._columns.rows_after(pin, len(kept.layouts[0]), ["src", "dst"])
        return self._extended(base, added, source, target)

    def _extended(self, base: Topology, added: pa.Table, source: Pin, target: Pin) -> Topology:
        starts = self._columns.numbers(source, added["src"].to_pylist())
        ends = self._columns.numbers(target, added["dst"].to_pylist())
        counts = (self._columns.size(source), self._columns.size(target))
        return base.extended(starts, ends, counts)

    def _patch(
        self, pin: Pin, source: Pin, target: Pin, layouts: tuple[Layout, ...]
    ) -> Topology | None:
        """Return a topology made from a known one, if rows were only added since."""
        known = self._known(pin, source, target)
        base = None if known is None else self._cache.get(known.key)
        if known is None or not isinstance(base, Topology):
            return None
        if layouts[0][: len(known.layouts[0])] != known.layouts[0]:
            return None
        added = self._columns.rows_after(pin, len(known.layouts[0]), ["src", "dst"])
        if added.num_rows > PATCHED_EDGES_MAX:
            return None
        # A kept one whose file is gone needs an old version of the tables, which may be gone, too.
        with contextlib.suppress(StorageError):
            renumbered = self._renumbered(base, known, layouts, (source, target))
            if renumbered is not None:
                count("topology_patches")
                return self._extended(renumbered, added, source, target)
        return None

    def _renumbered(
        self,
        base: Topology,
        known: _Known,
        layouts: tuple[Layout, ...],
        ends: tuple[Pin, Pin],
    ) -> Topology | None:
        """Return a topology with the node numbers of another snapshot; None without the old ids.

        Where nodes were only added, the old ones keep their numbers.
        """
        moved = [
            None if new[: len(old)] == old else (before, after)
            for old, new, before, after in zip(
                known.layouts[1:], layouts[1:], known.pins[1:], ends, strict=True
            )
        ]
        if moved == [None, None]:
            return base
        numbers = [base.ends.sources, base.ends.targets]
        for index, pins in enumerate(moved):
            if pins is not None:
                old_ids = self._columns.known(pins[0], "id")
                if old_ids is None:
                    return None
                new_ids = self._columns.column(pins[1], "id")
                numbers[index] = node_numbers(old_ids, new_ids)[numbers[index]]
        whole = (numbers[0] >= 0) & (numbers[1] >= 0)
        everything = base.ends.edges is None and bool(whole.all())
        edges = None if everything else base.ends.positions()[whole]
        return Topology(
            Ends(numbers[0][whole], numbers[1][whole], edges),
            source_count=self._columns.size(ends[0]),
            target_count=self._columns.size(ends[1]),
            rows=base.rows,
        )


def node_numbers(values: pa.Array | pa.ChunkedArray, ids: pa.Array) -> Rows:
    """Return the position of each value among the ids, -1 where there is none."""
    found = pc.index_in(values, value_set=ids)
    if found.null_count:
        found = pc.fill_null(found, -1)
    numbers: Rows = found.to_numpy().astype(np.int32, copy=False)
    return numbers
