"""Graphs as Spark frames: one task per group of fragments, pinned to one graph version."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog, EdgeType, NodeType, Scalar
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.graph import Graph, Snapshot, open_graph
from omnigraph.limits import SPARK_SCAN_ROWS
from omnigraph.spark.engine import Engine
from omnigraph.spark.session import need_pyspark
from omnigraph.spark.tasks import bundled
from omnigraph.store import fragment_ids, read_fragments
from omnigraph.write import has_blobs

Entity = NodeType | EdgeType

_SQL = {
    Scalar.STRING: "string",
    Scalar.BLOB: "binary",
    Scalar.BOOL: "boolean",
    Scalar.I32: "int",
    Scalar.I64: "long",
    Scalar.U32: "long",
    Scalar.U64: "decimal(20,0)",
    Scalar.F32: "float",
    Scalar.F64: "double",
    Scalar.DATE: "date",
    Scalar.DATETIME: "timestamp",
    Scalar.VECTOR: "array<float>",
}
_ARROW = {
    Scalar.BLOB: pa.binary(),
    Scalar.U32: pa.int64(),
    Scalar.U64: pa.decimal128(20, 0),
    Scalar.DATETIME: pa.timestamp("us", tz="UTC"),
}
_IDS = {
    False: {"type": "string", "id": "string"},
    True: {
        "type": "string",
        "id": "string",
        "src_type": "string",
        "src": "string",
        "dst_type": "string",
        "dst": "string",
    },
}


def read(
    spark: Any,
    uri: str | os.PathLike[str],
    type: str,
    *,
    columns: Sequence[str] | None = None,
    branch: str | None = None,
    version: int | None = None,
    commit: str | None = None,
    tag: str | None = None,
) -> Any:
    """Return the entities of one type as a frame that never moves.

    Columns are `id`, for edges `src` and `dst`, and the properties. Spark cannot tell this reader
    which columns a query uses, so name them: only these are read.
    """
    need_pyspark()
    with open_graph(uri, mode="ro") as graph:
        snapshot = graph.snapshot(branch, commit=commit, version=version, tag=tag)
        entity = _entity(graph.catalog, type)
        known = [*entity.implicit_columns, *entity.properties]
        names = list(known if columns is None else columns)
        for name in names:
            if name not in known:
                raise BadRequestError(f"{type} has no column '{name}'")
        ddl = ", ".join(f"`{name}` {_sql(entity, name)}" for name in names)
        return _frame(spark, graph, snapshot, entity, names, ddl)


def vertices(
    spark: Any,
    uri: str | os.PathLike[str],
    *,
    branch: str | None = None,
    version: int | None = None,
    commit: str | None = None,
    tag: str | None = None,
) -> Any:
    """Return type and id of every node as a frame; ids are unique within a type."""
    return _all(spark, uri, (branch, version, commit, tag), edges=False)


def edges(
    spark: Any,
    uri: str | os.PathLike[str],
    *,
    branch: str | None = None,
    version: int | None = None,
    commit: str | None = None,
    tag: str | None = None,
) -> Any:
    """Return type, id and both ends of every edge as a frame."""
    return _all(spark, uri, (branch, version, commit, tag), edges=True)


def _all(
    spark: Any,
    uri: str | os.PathLike[str],
    point: tuple[str | None, int | None, str | None, str | None],
    *,
    edges: bool,
) -> Any:
    need_pyspark()
    from pyspark.sql import functions as F

    branch, version, commit, tag = point
    with open_graph(uri, mode="ro") as graph:
        snapshot = graph.snapshot(branch, commit=commit, version=version, tag=tag)
        catalog = graph.catalog
        entities: list[Entity] = [*(catalog.edges if edges else catalog.nodes).values()]
        frames: list[Any] = []
        for entity in entities:
            names = list(entity.implicit_columns)
            ddl = ", ".join(f"`{name}` string" for name in names)
            found = _frame(spark, graph, snapshot, entity, names, ddl)
            found = found.withColumn("type", F.lit(entity.name))
            if isinstance(entity, EdgeType):
                found = found.withColumn("src_type", F.lit(entity.source))
                found = found.withColumn("dst_type", F.lit(entity.target))
            frames.append(found.select(*_IDS[edges]))
    empty = ", ".join(f"{name} {kind}" for name, kind in _IDS[edges].items())
    if not frames:
        return spark.createDataFrame([], empty)
    return reduce(lambda left, right: left.unionByName(right), frames)


def _entity(catalog: Catalog, name: str) -> Entity:
    found = catalog.nodes.get(name) or catalog.edges.get(name)
    if found is None:
        raise NotFoundError(f"unknown type '{name}'")
    return found


def _sql(entity: Entity, name: str) -> str:
    declared = entity.properties.get(name)
    if declared is None:
        return "string"
    found = _SQL[declared.type.scalar]
    return f"array<{found}>" if declared.type.is_list else found


def _frame(
    spark: Any, graph: Graph, snapshot: Snapshot, entity: Entity, names: Sequence[str], ddl: str
) -> Any:
    table = graph.table_at(snapshot, entity.table_key)
    folder, version = str(table.dataset.uri), table.version
    fragments = fragment_ids(table)
    groups = [
        [fragments[index][0] for index in group]
        for group in bundled([rows for _id, rows in fragments], SPARK_SCAN_ROWS)
    ]
    blobs = has_blobs(entity)

    def work(task: int) -> Iterator[Any]:
        for batch in read_fragments(folder, version, groups[task], names, blob_bytes=blobs):
            found = [_for_spark(entity, name, batch.column(name)) for name in names]
            yield pa.RecordBatch.from_arrays(found, names=list(names))

    return Engine(spark).frame(len(groups), work, ddl)


def _for_spark(entity: Entity, name: str, column: Any) -> Any:
    """Return a column in a type Spark knows; nothing is lost."""
    declared = entity.properties.get(name)
    if declared is None:
        return column
    scalar = declared.type.scalar
    if scalar is Scalar.VECTOR:
        return pc.cast(column, pa.list_(pa.float32()))
    wanted = _ARROW.get(scalar)
    if wanted is None:
        return column
    return pc.cast(column, pa.list_(wanted) if declared.type.is_list else wanted)
