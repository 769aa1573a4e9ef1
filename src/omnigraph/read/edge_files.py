"""Ends of edges as node numbers, in files beside the tables.

With them a new process need not find the ids of all edges among those of all nodes. There is one
file for an edge table, about its newest version on the main branch when it was written. It says of
which fragments of the three tables it was made. A version with these and few more is made from it;
of any other, the tables are read.
"""

from __future__ import annotations

import contextlib

import msgspec
import numpy as np
from msgspec import Struct

from omnigraph.limits import EDGE_FILE_ROWS_MAX, EDGE_FILE_ROWS_MIN, PATCHED_EDGES_MAX
from omnigraph.plan.read import Direction
from omnigraph.read.adjacency import Adjacency
from omnigraph.read.arrays import Rows
from omnigraph.read.columns import Layout, ResidentCache, TableColumns
from omnigraph.read.memory import return_memory
from omnigraph.read.topology import Ends, Topologies, Topology
from omnigraph.store import Pin, Tables, count
from omnigraph.store.upkeep.edges import edge_file
from omnigraph.store.upkeep.kept import KeptFile, open_kept, pack

_NUMBERS, _OFFSETS = "<i4", "<i8"
_ENDS = {"sources": _NUMBERS, "targets": _NUMBERS}
_EDGES = {"edges": _NUMBERS}
_PAIRS = {
    direction: {f"{direction.value} offsets": _OFFSETS, f"{direction.value} targets": _NUMBERS}
    for direction in (Direction.OUT, Direction.IN)
}


class _Head(Struct, frozen=True):
    """What a file was made from: the layouts of the edges and of both ends, and their rows."""

    layouts: tuple[Layout, ...]
    counts: tuple[int, int]
    rows: int

    def leads_to(self, layouts: tuple[Layout, ...]) -> bool:
        """Whether tables of these layouts are those of the file with rows added."""
        return all(new[: len(old)] == old for old, new in zip(self.layouts, layouts, strict=True))


class KeptEdges(Struct, frozen=True):
    """A topology in a file, read part by part."""

    layouts: tuple[Layout, ...]
    counts: tuple[int, int]
    rows: int
    _file: KeptFile

    def ends(self) -> Ends | None:
        """Return the ends of all edges, None where they cannot be read."""
        has_edges = "edges" in self._file.parts
        arrays = self._file.arrays({**_ENDS, **_EDGES} if has_edges else _ENDS)
        if arrays is None:
            return None
        return Ends(arrays["sources"], arrays["targets"], arrays.get("edges"))

    def pairs(self, direction: Direction) -> Adjacency | None:
        """Return each pair of nodes a single time, None where that cannot be read."""
        names = _PAIRS.get(direction)
        arrays = None if names is None else self._file.arrays(names)
        if arrays is None:
            return None
        offsets, targets = arrays.values()
        return Adjacency(offsets, targets, None)


class EdgeFiles(Struct, frozen=True):
    """Reads and writes the topologies of the tables of one graph."""

    tables: Tables

    def find(self, pin: Pin, layouts: tuple[Layout, ...]) -> KeptEdges | None:
        """Return a topology of a table version, or of one to which it adds few rows."""
        if pin.row_count < EDGE_FILE_ROWS_MIN:
            return None
        file = open_kept(self.tables.files, edge_file(self.tables, pin))
        if file is None:
            return None
        head: _Head | None = None
        with contextlib.suppress(msgspec.MsgspecError):
            head = msgspec.json.decode(file.about, type=_Head)
        if head is None or not head.leads_to(layouts):
            return None
        if pin.row_count - head.rows > PATCHED_EDGES_MAX:
            return None
        count("edge_files_read")
        return KeptEdges(head.layouts, head.counts, head.rows, file)

    def save(self, pin: Pin, layouts: tuple[Layout, ...], topology: Topology) -> None:
        """Write the topology of a table version."""
        counts = (topology.source_count, topology.target_count)
        ends = topology.ends
        parts = {
            "sources": _packed(ends.sources, _NUMBERS),
            "targets": _packed(ends.targets, _NUMBERS),
        }
        if ends.edges is not None:
            parts["edges"] = _packed(ends.edges, _NUMBERS)
        for direction, kinds in _PAIRS.items():
            pairs = topology.by_pair[direction]
            for (name, kind), values in zip(
                kinds.items(), (pairs.offsets, pairs.targets), strict=True
            ):
                parts[name] = _packed(values, kind)
        head = _Head(layouts, counts, topology.rows)
        # Not synced: one that a crash leaves half-written has a wrong checksum.
        self.tables.files.replace(edge_file(self.tables, pin), pack(head, parts), sync=False)


def keep_edges(
    tables: Tables, pin: Pin, ends: tuple[Pin, Pin], shared: Topologies | None = None
) -> None:
    """Write the topology of an edge table, if no file leads to it at little cost.

    Queries that use `shared` wait for it instead of making the same beside it.
    """
    if pin.table_branch is not None or not _is_worth(pin):
        return
    files = EdgeFiles(tables)
    source, target = ends
    columns = TableColumns(tables, cache := ResidentCache())
    layouts = tuple(columns.layout(item) for item in (pin, source, target))
    with contextlib.nullcontext() if shared is None else shared.turn(pin):
        known = files.find(pin, layouts)
        # Half of what may be added to it: it must serve until the next time.
        if known is not None and pin.row_count - known.rows <= PATCHED_EDGES_MAX // 2:
            return
        topology = None if shared is None else shared.like(pin, source, target, layouts)
        if topology is None:
            topology = Topologies(columns, cache).built(pin, source, target)
        files.save(pin, layouts, topology)
    del topology, cache, columns
    return_memory()


def _is_worth(pin: Pin) -> bool:
    return EDGE_FILE_ROWS_MIN <= pin.row_count <= EDGE_FILE_ROWS_MAX


def _packed(values: Rows, kind: str) -> memoryview:
    return np.ascontiguousarray(values, kind).data.cast("B")
