"""Nodes within several hops, each at its shortest distance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.limits import SPARK_HOPS_PLANNED
from omnigraph.spark.queries.rows import Joins, Rows, col
from omnigraph.spark.queries.tables import Pairs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def reached(
    joins: Joins, starts: Rows, start: str, pairs: Pairs, *, hops: tuple[int, int], nodes: int
) -> tuple[DataFrame, str, str]:
    """Return a frame of starts and the nodes they reach, and the names of its two columns.

    `hops` are the fewest and the most. The start itself is reached at the first hop, if an edge
    joins it with itself. The state holds each node with its distance and is read once per hop, so
    a plan grows by one join and one aggregation with each.
    """
    from pyspark.sql import functions as F

    least, most = hops
    origin, node = f"{pairs.start} origin", f"{pairs.start} node"
    seen = starts.frame.where(col(start).isNotNull()).select(col(start).alias(origin)).distinct()
    state = seen.select(origin, col(origin).alias(node), F.lit(0).alias("d"))
    size = starts.at_most
    for hop in range(1, most + 1):
        here = state.withColumn("from", F.when(col("d") == F.lit(hop - 1), col(node)))
        side = Rows(frame=here, at_most=size)
        joined = joins.outer(side, pairs.rows, [("from", pairs.start)], "left", f"hop {hop}")
        both = F.array(
            F.struct(col(node).alias("n"), col("d").alias("d")),
            F.struct(col(pairs.end).alias("n"), F.lit(hop).alias("d")),
        )
        spread = joined.select(col(origin), F.explode(both).alias("x"))
        flat = spread.select(col(origin), F.col("x.n").alias(node), F.col("x.d").alias("d"))
        known = flat.where(col(node).isNotNull())
        state = known.groupBy(col(origin), col(node)).agg(F.min("d").alias("d"))
        size = min(size * (pairs.rows.at_most + 1), starts.at_most * max(nodes, 1))
        if hop % SPARK_HOPS_PLANNED == 0 and hop < most:
            # Planning takes longer with every hop of one plan.
            state = state.localCheckpoint(eager=False)
    reachable = state.where((col("d") >= F.lit(max(least, 1))) & (col("d") <= F.lit(most)))
    reachable = reachable.select(col(origin), col(node))
    if least <= 1:
        loops = pairs.rows.frame.where(col(pairs.start) == col(pairs.end))
        loops = loops.select(col(pairs.start).alias("loop")).distinct()
        side = Rows(frame=loops, at_most=pairs.rows.at_most)
        own = joins.inner(Rows(frame=seen, at_most=starts.at_most), side, [(origin, "loop")], "own")
        reachable = reachable.unionAll(own.select(col(origin), col(origin).alias(node)))
    return reachable, origin, node
