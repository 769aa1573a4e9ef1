"""Finds what is the same on Spark: blocks meet in parts, and workers compare as one process does.

Two rounds of tasks, with files between them. The first computes the features of nodes and cuts
them by a hash of each key; the second takes the same part of all files and compares its blocks,
with the functions that compare a whole type in one process. Only pairs that match reach the
driver.
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.catalog import Entity, NodeType, Scalar
from omnigraph.graph import Session
from omnigraph.graph.results import Snapshot
from omnigraph.graph.seam import reach, scratch_folder, table_at
from omnigraph.limits import (
    RESOLVE_ROWS_AT_ONCE,
    SPARK_RESOLVE_HELD_BYTES,
    SPARK_RESOLVE_PART_BYTES,
    SPARK_RESOLVE_ROW_BYTES,
    SPARK_SCAN_ROWS,
)
from omnigraph.resolve.features import ID, features, key_column, wanted_columns
from omnigraph.resolve.finding import Matches, having, shape
from omnigraph.resolve.rules import Rules
from omnigraph.resolve.scores import distinct, matches, pairs_schema
from omnigraph.spark.engine import Engine
from omnigraph.spark.session import find_session
from omnigraph.spark.tasks import bundled
from omnigraph.store import (
    fragment_ids,
    new_file,
    open_file,
    reaching,
    read_fragments,
    remove_folder,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Large = dict[str, int]
"""Keys of blocks that are too large, with their rows."""


class _Scan(Struct, frozen=True, kw_only=True):
    """Some columns of one type at one version, divided into tasks."""

    entity: Entity
    columns: tuple[str, ...]
    folder: str
    version: int
    groups: tuple[tuple[int, ...], ...]

    def batches(self, task: int, batch_rows: int = 65_536) -> Iterator[pa.RecordBatch]:
        wanted = shape(self.entity, self.columns)
        for batch in read_fragments(
            self.folder, self.version, self.groups[task], self.columns, batch_rows=batch_rows
        ):
            yield batch.cast(wanted)


class _Cut(Struct, frozen=True, kw_only=True):
    """Features that one task left in a file: for each batch the block rule and the part."""

    path: str
    places: list[tuple[int, int]]
    large: list[Large]


class _Compared(Struct, frozen=True, kw_only=True):
    """What one task found in its part."""

    pairs: bytes
    compared: int
    large: list[Large]


class SparkSource:
    """Reads and compares in workers."""

    def __init__(
        self,
        graph: Session,
        snapshot: Snapshot,
        *,
        session: SparkSession | None = None,
        master: str | None = None,
    ) -> None:
        self._graph = graph
        self._snapshot = snapshot
        self._engine = Engine(find_session(session, master), reach(graph))

    def matches(self, node: NodeType, rules: Rules) -> Matches:
        """Return the pairs of nodes that match."""
        scratch = scratch_folder(self._graph, shared=not self._engine.is_local)
        try:
            return self._compare(node, rules, scratch)
        finally:
            with reaching(self._engine.given):
                remove_folder(scratch)

    def _compare(self, node: NodeType, rules: Rules, scratch: str) -> Matches:
        scan = self._scan(node, wanted_columns(rules))
        rows = self._snapshot.tables[node.table_key].row_count
        return compare_in_parts(
            self._engine.run,
            len(scan.groups),
            scan.batches,
            rules,
            parts=part_count(node, rules, rows),
            scratch=scratch,
        )

    def rows_of(
        self, entity: Entity, columns: Sequence[str], by: Sequence[str], ids: pa.Array
    ) -> pa.Table:
        """Return the rows in which one of these columns has one of these ids."""
        wanted = shape(entity, columns)
        if not len(ids):
            return wanted.empty_table()
        scan, names = self._scan(entity, columns), tuple(by)

        def find(task: int) -> bytes:
            batches = scan.batches(task, RESOLVE_ROWS_AT_ONCE)
            return _stream(wanted, [having(batch, names, ids) for batch in batches])

        answers = self._engine.run(len(scan.groups), find)
        tables = [pa.ipc.open_stream(item).read_all() for item in answers]
        return pa.concat_tables([wanted.empty_table(), *tables]).combine_chunks()

    def _scan(self, entity: Entity, columns: Sequence[str]) -> _Scan:
        table = table_at(self._graph, self._snapshot, entity.table_key)
        fragments = fragment_ids(table)
        groups = bundled([rows for _id, rows in fragments], SPARK_SCAN_ROWS)
        return _Scan(
            entity=entity,
            columns=tuple(columns),
            folder=str(table.dataset.uri),
            version=table.version,
            groups=tuple(tuple(fragments[index][0] for index in group) for group in groups),
        )


def compare_in_parts(
    run: Callable[[int, Callable[[int], bytes]], list[bytes]],
    tasks: int,
    batches: Callable[[int], Iterator[pa.RecordBatch]],
    rules: Rules,
    *,
    parts: int,
    scratch: str,
) -> Matches:
    """Compare the nodes that tasks read. `run` runs numbered tasks and returns their answers."""

    def cut(task: int) -> bytes:
        return msgspec.json.encode(_cut(batches(task), rules, parts, scratch))

    files = tuple(msgspec.json.decode(item, type=_Cut) for item in run(tasks, cut))
    known = tuple(_summed([item.large[number] for item in files]) for number in _blocks(rules))

    def compare(part: int) -> bytes:
        return msgspec.msgpack.encode(_compared(files, part, rules, known))

    answers = [msgspec.msgpack.decode(item, type=_Compared) for item in run(parts, compare)]
    pairs = [pa.ipc.open_stream(item.pairs).read_all() for item in answers]
    large = [
        _summed([known[number], *(item.large[number] for item in answers)])
        for number in _blocks(rules)
    ]
    return Matches(
        pairs=distinct(pa.concat_tables([pairs_schema(rules).empty_table(), *pairs])),
        compared=sum(item.compared for item in answers),
        large=[
            (number, key, size) for number, own in enumerate(large) for key, size in own.items()
        ],
    )


def _blocks(rules: Rules) -> range:
    return range(len(rules.keys))


def _summed(sizes: Sequence[Mapping[str, int]]) -> Large:
    total: Large = {}
    for item in sizes:
        for key, size in item.items():
            total[key] = total.get(key, 0) + size
    return total


def part_count(node: NodeType, rules: Rules, rows: int) -> int:
    """Return into how many parts features are cut, so that a worker can hold one."""
    compared = {item.property: node.properties[item.property].type for item in rules.compare}
    vectors = sum(4 * item.vector_dim for item in compared.values() if item.scalar is Scalar.VECTOR)
    row_bytes = vectors + SPARK_RESOLVE_ROW_BYTES * (1 + len(compared))
    total = rows * len(rules.keys) * row_bytes
    return max(1, math.ceil(total / SPARK_RESOLVE_PART_BYTES))


# ---- in workers -----------------------------------------------------------------------------


def _cut(batches: Iterator[pa.RecordBatch], rules: Rules, parts: int, scratch: str) -> _Cut:
    """Leave features in a file, cut by their keys."""
    path = os.path.join(scratch, f"{uuid.uuid4().hex}.features")
    places: list[tuple[int, int]] = []
    large: list[Large] = [{} for _number in _blocks(rules)]
    writer: pa.ipc.RecordBatchFileWriter | None = None
    with new_file(path) as out:
        for table in _held(features(batch, rules) for batch in batches):
            for number in _blocks(rules):
                for part, rows in _parts(table, number, rules, parts, large[number]):
                    if writer is None:
                        options = pa.ipc.IpcWriteOptions(compression="lz4")
                        writer = pa.ipc.new_file(out, rows.schema, options=options)
                    writer.write_batch(rows)
                    places.append((number, part))
        if writer is not None:
            writer.close()
    return _Cut(path=path, places=places, large=large)


def _held(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield features some batches together, so that parts are not cut too small."""
    held: list[pa.Table] = []
    size_bytes = 0
    for table in tables:
        held.append(table)
        size_bytes += table.nbytes
        if size_bytes >= SPARK_RESOLVE_HELD_BYTES:
            yield pa.concat_tables(held)
            held, size_bytes = [], 0
    if held:
        yield pa.concat_tables(held)


def _parts(
    table: pa.Table, number: int, rules: Rules, parts: int, large: Large
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield what has a key of a block rule, part by part, without what is too large already."""
    encoded = table[key_column(number)].combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    keys = encoded.dictionary.to_pylist()
    sizes = np.bincount(codes[codes >= 0], minlength=len(keys))
    too_many = sizes > rules.block_nodes_max
    for code in np.flatnonzero(too_many).tolist():
        large[keys[code]] = large.get(keys[code], 0) + int(sizes[code])
    # The last entry is for rows without a key.
    own = [crc32(key.encode()) % parts for key in keys]
    part_of_key = np.array([*own, -1], dtype=np.int64)
    part_of_key[:-1][too_many] = -1
    of_row = part_of_key[codes]
    order = np.argsort(of_row, kind="stable")
    order = order[int((of_row < 0).sum()) :]
    named, starts = np.unique(of_row[order], return_index=True)
    ends = [*starts.tolist(), len(order)][1:]
    for part, start, end in zip(named.tolist(), starts.tolist(), ends, strict=True):
        yield part, table.take(pa.array(order[start:end])).combine_chunks().to_batches()[0]


def _compared(
    files: Sequence[_Cut], part: int, rules: Rules, known: Sequence[Mapping[str, int]]
) -> _Compared:
    """Compare the blocks of one part. Of those known to be too large, rows are only counted."""
    pairs: list[pa.Table] = []
    compared = 0
    large: list[Large] = []
    for number in _blocks(rules):
        batches = list(_read(files, (number, part)))
        large.append({})
        if not batches:
            continue
        rows, more = _without(pa.Table.from_batches(batches), key_column(number), known[number])
        matched, count, left_out = matches(rows.sort_by(ID).combine_chunks(), number, rules)
        pairs += matched.to_batches()
        compared += count
        large[-1] = _summed([more, dict(left_out)])
    return _Compared(pairs=_stream(pairs_schema(rules), pairs), compared=compared, large=large)


def _read(files: Sequence[_Cut], place: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    for file in files:
        wanted = [at for at, own in enumerate(file.places) if own == place]
        if wanted:
            with open_file(file.path) as handle, pa.ipc.open_file(handle) as reader:
                for at in wanted:
                    yield reader.get_batch(at)


def _without(rows: pa.Table, column: str, known: Mapping[str, int]) -> tuple[pa.Table, Large]:
    """Return rows without some keys, and how many rows each of these had."""
    if not known:
        return rows, {}
    gone = pc.is_in(rows[column], value_set=pa.array(list(known), pa.string()))
    counts = pc.value_counts(rows.filter(gone)[column]).to_pylist()
    return rows.filter(pc.invert(gone)), {item["values"]: item["counts"] for item in counts}


def _stream(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    stream: bytes = out.getvalue().to_pybytes()
    return stream
