"""How many edges each node has, counted where edges are read.

A row that crosses from a worker into Java costs several times what reading it does. So workers
count the edges of as many rows as they may hold, and send each node once with its number. The fewer
the tasks, the fewer rows there are to send: there are as many as keep all cores at work.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog.model import LiteralValue
from omnigraph.compute import evaluate_condition
from omnigraph.compute.evaluate import TYPE
from omnigraph.compute.gathering import gathered
from omnigraph.compute.key_tables import TextTable
from omnigraph.limits import SPARK_BATCH_ROWS, SPARK_COUNT_ROWS, SPARK_PARTS_MAX
from omnigraph.plan.expression import Expression
from omnigraph.spark.frames import Scan
from omnigraph.spark.tasks import bundled
from omnigraph.store import read_fragments

KEY, WEIGHT = "k0", "k1"
DDL = f"{KEY} string, {WEIGHT} long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """The nodes that edges must lead to; plain data."""

    scan: Scan
    variable: str
    condition: Expression
    parameters: Mapping[str, LiteralValue]
    now: datetime.datetime

    def ids(self) -> pa.ChunkedArray:
        """Return their ids."""
        scan = self.scan
        ids: list[pa.Array] = []
        for group in scan.groups:
            for batch in read_fragments(
                scan.folder, scan.version, group, scan.names, where=scan.where
            ):
                columns = _Batch(batch, self.variable, scan.entity.name)
                mask = evaluate_condition(self.condition, columns, self.parameters, self.now)
                ids.append(batch.column("id").filter(mask))
        return pa.chunked_array(ids, pa.string())


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch as rows that a condition on one variable is evaluated on."""

    batch: pa.RecordBatch
    variable: str
    type_name: str

    @property
    def rows(self) -> int:
        return int(self.batch.num_rows)

    def column(self, variable: str, name: str) -> pa.Array:
        if variable != self.variable:
            raise KeyError(variable)
        if name == TYPE:
            return pa.repeat(self.type_name, self.rows)
        return self.batch.column(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """Edges of one type by the node at one end, divided into few tasks; plain data.

    `groups` are those of the scan that each task reads. With `meant`, only edges that lead to such
    a node count. A task holds so many bytes of ids before it sends what it has counted.
    """

    scan: Scan
    start: str
    groups: tuple[tuple[int, ...], ...]
    held_bytes: int
    meant: Meant | None = None

    def read(self, task: int) -> Iterator[pa.RecordBatch]:
        """Yield nodes and numbers of edges; a node may come several times."""
        # A group has about a million rows.
        held = _Parts(min(len(self.groups[task]), SPARK_PARTS_MAX))
        for starts in self._starts(task):
            held.add(starts)
            if held.size_bytes >= self.held_bytes:
                yield from _counted(held)
        yield from _counted(held)

    def _starts(self, task: int) -> Iterator[pa.Array]:
        """Yield the start of every edge that counts."""
        batches = (
            batch
            for number in self.groups[task]
            for batch in self.scan.read(number, batch_rows=SPARK_COUNT_ROWS)
        )
        if self.meant is None:
            for batch in batches:
                yield batch.column(self.start)
            return
        nodes = TextTable(self.meant.ids())
        end = next(name for name in self.scan.names if name != self.start)
        rows = ((batch.column(self.start), batch.column(end)) for batch in batches)
        for starts, ends in gathered(rows, nodes.rows_at_once()):
            yield from starts.filter(pa.array(nodes.find(ends) >= 0)).chunks


def divided(scan: Scan, tasks: int) -> tuple[tuple[int, ...], ...]:
    """Put the groups of a scan together for so many tasks."""
    sizes = [1] * len(scan.groups)
    return tuple(bundled(sizes, -(-len(sizes) // max(tasks, 1)))) if sizes else ()


class _Parts:
    """Ids in parts that have none in common.

    What is counted in one part fits into the memory that is next to a processor, and needs a
    fraction of the time.
    """

    def __init__(self, parts: int) -> None:
        self._held: list[list[pa.Array]] = [[] for _ in range(parts)]
        self.size_bytes = 0

    def add(self, ids: pa.Array) -> None:
        """Put ids into their parts."""
        self.size_bytes += int(ids.nbytes)
        if len(self._held) == 1:
            self._held[0].append(ids)
            return
        places = _part_of(ids, len(self._held))
        sizes = np.bincount(places, minlength=len(self._held))
        ordered = ids.take(pa.array(np.argsort(places, kind="stable")))
        start = 0
        for part, size in zip(self._held, sizes.tolist(), strict=True):
            if size:
                part.append(ordered.slice(start, size))
            start += size

    def taken(self) -> Iterator[pa.Array]:
        """Yield the ids of each part that has some, which then are no longer here."""
        held, self._held = self._held, [[] for _ in self._held]
        self.size_bytes = 0
        for number, part in enumerate(held):
            held[number] = []
            if part:
                yield pa.concat_arrays(part)


def _part_of(ids: pa.Array, parts: int) -> NDArray[np.uint8]:
    """Return a number for each id that only depends on it, by its last three letters."""
    _valid, offsets, data = ids.buffers()
    places = np.frombuffer(offsets, np.int32)[ids.offset : ids.offset + len(ids) + 1]
    letters = np.frombuffer(data, np.uint8) if data else np.zeros(1, np.uint8)
    first, last = places[:-1], places[1:] - 1
    safe = np.maximum(last, 0)
    numbers = letters[safe].astype(np.uint32)
    for back, factor in ((1, 31), (2, 961)):
        numbers += letters[np.minimum(np.maximum(last - back, first), safe)] * np.uint32(factor)
    # An empty id has no letters; those were of another.
    numbers[last < first] = 0
    return (numbers % parts).astype(np.uint8)


def _counted(held: _Parts) -> Iterator[pa.RecordBatch]:
    for ids in held.taken():
        grouped = pa.table({KEY: ids}).group_by(KEY, use_threads=False)
        counts = grouped.aggregate([([], "count_all")]).rename_columns([KEY, WEIGHT])
        yield from counts.to_batches(max_chunksize=SPARK_BATCH_ROWS)
