"""Large differences on Spark: rows that may differ, brought together by id.

Workers read the fragments two versions do not share. Rows travel as whole batches, cut by a hash
of their id, so each group holds everything about its ids and is judged by the very functions that
judge a whole table in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog import Entity, Scalar
from omnigraph.limits import SPARK_GROUP_BYTES, SPARK_SCAN_ROWS
from omnigraph.rows import has_blobs, rows_schema
from omnigraph.rows.images import RowChanges, row_changes
from omnigraph.spark.engine import Engine
from omnigraph.spark.tasks import bundled
from omnigraph.store import reaching
from omnigraph.store.tables.delta import DeltaPart
from omnigraph.store.tables.worker_io import read_delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WIDTHS = {Scalar.BLOB: 16_384, Scalar.BOOL: 1, Scalar.I32: 4, Scalar.I64: 8, Scalar.F64: 8}
_MOVED = "tag int, bucket int, side int, rows binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What to compare: the parts of one or more differences of a type's table.

    `tag` numbers the types of a job. Of several differences the first is theirs, the second ours.
    Ids that `together` maps to another one go to the group of that one.
    """

    tag: int
    entity: Entity
    differences: Sequence[Sequence[DeltaPart]]
    together: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows that may differ, at most."""
        return sum(part.rows for parts in self.differences for part in parts)


Judge = Callable[[Delta, list[RowChanges]], pa.Table]


def judged(
    engine: Engine, deltas: Sequence[Delta], judge: Judge, ddl: str, *, group_rows: int
) -> DataFrame:
    """Return the tables `judge` makes of groups of ids as a frame; groups have about that size."""
    by_tag = {delta.tag: delta for delta in deltas}
    buckets = {delta.tag: _groups(delta, group_rows) for delta in deltas}
    parts = [
        (delta.tag, number, part)
        for delta in deltas
        for number, parts in enumerate(delta.differences)
        for part in parts
    ]
    groups = bundled([part.rows for _tag, _number, part in parts], SPARK_SCAN_ROWS)
    given = engine.given

    def read(task: int) -> Iterator[pa.RecordBatch]:
        for index in groups[task]:
            tag, number, part = parts[index]
            yield from _moved(by_tag[tag], number, part, buckets[tag])

    def run(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        with reaching(given):
            delta = by_tag[key[0].as_py()]
            return judge(delta, _changes(delta, table))

    frame = engine.frame(len(groups), read, _MOVED)
    return frame.groupBy("tag", "bucket").applyInArrow(run, ddl)


def _groups(delta: Delta, group_rows: int) -> int:
    """Return into how many groups to cut, so that none is too large for a worker."""
    wide = SPARK_GROUP_BYTES // _row_bytes(delta.entity)
    return max(-(-delta.rows // max(min(group_rows, wide), 1)), 1)


def _row_bytes(entity: Entity) -> int:
    """Return about how much memory a row takes."""
    width = sum(_WIDTHS.get(item.type.scalar, 64) for item in entity.properties.values())
    vectors = sum(item.type.vector_dim or 0 for item in entity.properties.values())
    return 100 + width + 4 * vectors


def _moved(delta: Delta, number: int, part: DeltaPart, buckets: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part as batches, each for one group."""
    schema = rows_schema(delta.entity)
    side = number * 2 + part.is_after
    for batch in read_delta(part, schema.names, blob_bytes=has_blobs(delta.entity)):
        rows = pa.Table.from_batches([batch]).cast(schema)
        groups = _buckets(rows["id"], buckets, delta.together)
        for bucket in np.unique(groups).tolist():
            chosen = rows if buckets == 1 else rows.filter(pa.array(groups == bucket))
            yield pa.RecordBatch.from_pydict(
                {
                    "tag": pa.array([delta.tag], pa.int32()),
                    "bucket": pa.array([bucket], pa.int32()),
                    "side": pa.array([side], pa.int32()),
                    "rows": pa.array([_packed(chosen)], pa.binary()),
                }
            )


def _buckets(ids: pa.ChunkedArray, buckets: int, together: Mapping[str, str]) -> NDArray[np.int32]:
    """Return a number for each id, the same wherever it is computed."""
    if buckets == 1:
        return np.zeros(len(ids), np.int32)
    names = (together.get(value, value) for value in ids.to_pylist())
    numbers = (crc32(name.encode()) % buckets for name in names)
    return np.fromiter(numbers, np.int32, len(ids))


def _packed(rows: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(out.getvalue())


def _changes(delta: Delta, table: pa.Table) -> list[RowChanges]:
    """Return what each difference comes to for the ids of one group."""
    schema = rows_schema(delta.entity)
    sides: dict[int, list[pa.Table]] = {}
    for side, rows in zip(table["side"].to_pylist(), table["rows"], strict=True):
        sides.setdefault(side, []).append(pa.ipc.open_stream(rows.as_buffer()).read_all())

    def whole(side: int) -> pa.Table:
        return pa.concat_tables(sides.get(side) or [schema.empty_table()])

    return [
        row_changes(whole(2 * number), whole(2 * number + 1))
        for number in range(len(delta.differences))
    ]
