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
from msgspec import Struct

from omnigraph.bounded import BoundedCache
from omnigraph.catalog import EdgeType, EdgeUnion
from omnigraph.compute.key_tables import TextTable
from omnigraph.errors import NotFoundError, StorageError
from omnigraph.limits import (
    NEWEST_KNOWN_MAX,
    PATCHED_EDGES_MAX,
)
from omnigraph.plan.read import Direction
from omnigraph.read.adjacency import Adjacency, every_edge, every_pair, patched
from omnigraph.read.arrays import Rows
from omnigraph.read.columns import Layout, ResidentCache, TableColumns
from omnigraph.store import Pin, count, split_branch


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
        copy = Topology(
            self.ends,
            source_count=self.source_count,
            target_count=self.target_count,
            rows=self.rows,
        )
        copy.by_pair.update(self.by_pair)
        return copy

    def _every_edge(self, direction: Direction) -> Adjacency:
        sources, targets, edges = self.ends.sources, self.ends.targets, self.ends.positions()
        match direction:
            case Direction.OUT:
                return every_edge(sources, targets, edges, self.source_count)
            case Direction.IN:
                return every_edge(targets, sources, edges, self.target_count)
            case Direction.BOTH:
                # A self-loop touches its node once, whichever way it is read.
                other = sources != targets
                return every_edge(
                    np.concatenate([sources, targets[other]]),
                    np.concatenate([targets, sources[other]]),
                    np.concatenate([edges, edges[other]]),
                    self.source_count,
                )

    def _every_pair(self, direction: Direction) -> Adjacency:
        pairs = None if self.kept is None else self.kept.pairs(direction)
        if pairs is not None:
            return pairs
        sources, targets = self.ends.sources, self.ends.targets
        sizes = (self.source_count, self.target_count)
        match direction:
            case Direction.OUT:
                return every_pair(sources, targets, *sizes)
            case Direction.IN:
                return every_pair(targets, sources, *reversed(sizes))
            case Direction.BOTH:
                both = np.concatenate([sources, targets])
                back = np.concatenate([targets, sources])
                return every_pair(both, back, *sizes)

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
        topology = Topology(ends, source_count=counts[0], target_count=counts[1], rows=rows)
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
            topology.by_pair[direction] = patched(made, one, other, size)
        return topology


class TopologySource(Protocol):
    """Where the topologies of a query come from."""

    def get(self, edge: EdgeType, pin: Pin, source: Pin, target: Pin) -> Topology:
        """Return the topology of an edge type in one snapshot."""

    def united(self, edge: EdgeUnion, pins: Mapping[str, Pin]) -> Topology:
        """Return the topology of edges of several types as one."""


def united_topology(edge: EdgeUnion, topologies: Sequence[Topology]) -> Topology:
    """Return the topologies of the members of a union as one.

    Edges are numbered as if the tables of the members were one after the other.
    """
    sources: list[Rows] = []
    targets: list[Rows] = []
    edges: list[Rows] = []
    rows = 0
    for member, topology in zip(edge.members, topologies, strict=True):
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
        source_count=topologies[0].source_count,
        target_count=topologies[0].target_count,
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
        topology = self._cache.get(key)
        if isinstance(topology, Topology):
            self._cache.resize(key, topology.size_bytes)
            return topology
        with self.turn(pin):
            topology = self._cache.get(key)
            return topology if isinstance(topology, Topology) else self._made(pin, source, target)

    def turn(self, pin: Pin) -> threading.Lock:
        """Return the lock of those who make a topology of an edge table."""
        return self._cache.turn(("topology", pin.path))

    def united(self, edge: EdgeUnion, pins: Mapping[str, Pin]) -> Topology:
        """Return the topology of edges of several types as one."""
        ends = (pins[f"node:{edge.source}"], pins[f"node:{edge.target}"])
        tables = [pins[member.table_key] for member in edge.members]
        key = ("union", *((item.path, item.version) for item in (*tables, *ends)))
        topology = self._cache.get(key)
        if not isinstance(topology, Topology):
            back = (ends[1], ends[0])
            parts = [
                self.get(member, pin, *(back if edge.is_turned(member) else ends))
                for member, pin in zip(edge.members, tables, strict=True)
            ]
            topology = united_topology(edge, parts)
            self._cache.put(key, topology, topology.size_bytes)
        self._cache.resize(key, topology.size_bytes)
        return topology

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
        """Return the newest topology of these branches of tables, or of one they left."""
        root = split_branch(pin.path)[0]
        for line in ((pin.path, source.path, target.path), pin.path, root):
            known = self._newest.get(line)
            if known is not None and self._cache.get(known.key) is not None:
                return known
        return None

    def known(self, pin: Pin, source: Pin, target: Pin) -> Topology | None:
        """Return the topology of an edge type if it is in memory."""
        key = self._key(pin, source, target)
        topology = self._cache.get(key)
        if not isinstance(topology, Topology):
            return None
        self._cache.resize(key, topology.size_bytes)
        return topology

    def like(
        self, pin: Pin, source: Pin, target: Pin, layouts: tuple[Layout, ...]
    ) -> Topology | None:
        """Return a copy of the newest topology of these lines if it has the same rows."""
        known = self._known(pin, source, target)
        topology = None if known is None else self._cache.get(known.key)
        same = known is not None and known.layouts == layouts
        return topology.copied() if same and isinstance(topology, Topology) else None

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
        nodes = {item: TextTable(self._columns.column(item, "id")) for item in {source, target}}
        # Finding texts takes most of the time, and NumPy leaves the interpreter meanwhile.
        with ThreadPoolExecutor(2) as pool:
            futures = [
                pool.submit(self._numbered, pin, name, nodes[node])
                for name, node in (("src", source), ("dst", target))
            ]
        starts, ends = (item.result() for item in futures)
        whole = (starts >= 0) & (ends >= 0)
        if whole.all():
            return Ends(starts, ends, None)
        return Ends(starts[whole], ends[whole], np.flatnonzero(whole).astype(np.int32))

    def _numbered(self, pin: Pin, name: str, nodes: TextTable) -> Rows:
        """Return the numbers of the nodes at one end of all edges; few texts are held at once."""
        # The other end has a thread of its own. More of them only take more memory.
        parts = self._columns.parts(pin, name, nodes.rows_at_once(threads=1))
        numbers = [nodes.find(part) for part in parts]
        return np.concatenate(numbers) if numbers else np.empty(0, dtype=np.int32)

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
        # This may need an old version of the tables, which may be gone.
        with contextlib.suppress(StorageError, NotFoundError):
            renumbered = self._renumbered(base, known, layouts, (source, target))
            topology = self._extended(renumbered, added, source, target)
            count("topology_patches")
            return topology
        return None

    def _renumbered(
        self,
        base: Topology,
        known: _Known,
        layouts: tuple[Layout, ...],
        ends: tuple[Pin, Pin],
    ) -> Topology:
        """Return a topology with the node numbers of another snapshot.

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
                old_ids = self._columns.column(pins[0], "id")
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
    return TextTable(ids).find(values)
