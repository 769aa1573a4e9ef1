"""Graphs as Spark frames: one task per group of fragments, pinned to one graph version."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from omnigraph.catalog import EdgeType, Entity
from omnigraph.graph import open_graph
from omnigraph.graph.seam import catalog_at, reach
from omnigraph.spark.engine import Engine
from omnigraph.spark.frames import scan
from omnigraph.spark.session import need_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    spark: SparkSession,
    uri: str | os.PathLike[str],
    type: str,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    branch: str | None = None,
    version: int | None = None,
    commit: str | None = None,
    tag: str | None = None,
    timestamp: datetime.datetime | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the entities of one type as a frame that never moves.

    Columns are `id`, for edges `src` and `dst`, and the properties. Spark cannot tell this reader
    which columns a query uses, so name them: only these are read. `where` is a condition in SQL,
    such as `age > 40 AND name LIKE 'a%'`, that the table evaluates, with its indexes.
    """
    need_pyspark()
    with open_graph(uri, mode="ro", storage_options=storage_options) as graph:
        engine = Engine(spark, reach(graph))
        snapshot = graph.snapshot(
            branch, commit=commit, version=version, tag=tag, timestamp=timestamp
        )
        plan = scan(graph, snapshot, type, columns, where)
    return engine.frame(len(plan.groups), plan.read, plan.ddl)


def vertices(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    *,
    branch: str | None = None,
    version: int | None = None,
    commit: str | None = None,
    tag: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return type and id of every node as a frame; ids are unique within a type."""
    return _all(spark, uri, (branch, version, commit, tag), storage_options, edges=False)


def edges(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    *,
    branch: str | None = None,
    version: int | None = None,
    commit: str | None = None,
    tag: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return type, id and both ends of every edge as a frame."""
    return _all(spark, uri, (branch, version, commit, tag), storage_options, edges=True)


def _all(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    point: tuple[str | None, int | None, str | None, str | None],
    storage_options: Mapping[str, str] | None,
    *,
    edges: bool,
) -> DataFrame:
    need_pyspark()
    from pyspark.sql import functions as F

    branch, version, commit, tag = point
    with open_graph(uri, mode="ro", storage_options=storage_options) as graph:
        engine = Engine(spark, reach(graph))
        snapshot = graph.snapshot(branch, commit=commit, version=version, tag=tag)
        catalog = catalog_at(graph, snapshot)
        entities: list[Entity] = [*(catalog.edges if edges else catalog.nodes).values()]
        frames: list[DataFrame] = []
        for entity in entities:
            plan = scan(graph, snapshot, entity.name, list(entity.implicit_columns))
            frame = engine.frame(len(plan.groups), plan.read, plan.ddl)
            frame = frame.withColumn("type", F.lit(entity.name))
            if isinstance(entity, EdgeType):
                frame = frame.withColumn("src_type", F.lit(entity.source))
                frame = frame.withColumn("dst_type", F.lit(entity.target))
            frames.append(frame.select(*_IDS[edges]))
    empty = ", ".join(f"{name} {kind}" for name, kind in _IDS[edges].items())
    if not frames:
        return spark.createDataFrame([], empty)
    return reduce(lambda left, right: left.unionByName(right), frames)
