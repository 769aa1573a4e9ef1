"""Measures of whole graphs as Spark jobs over two frames, and a way to write them back.

Every function takes `vertices` with a column `id` and `edges` with `src` and `dst`, as `read`
returns them for one edge type between nodes of one type, and returns `id` and a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadRequestError
from omnigraph.graph import LoadResult, Session
from omnigraph.graph.seam import catalog_at, reach
from omnigraph.spark.engine import joined
from omnigraph.spark.load import load
from omnigraph.spark.read import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def pagerank(
    vertices: DataFrame, edges: DataFrame, *, damping: float = 0.85, rounds: int = 20
) -> DataFrame:
    """Return the share of a random walk's time that each node gets; the shares sum to 1.

    From a node without edges the walk goes anywhere.
    """
    from pyspark.sql import functions as F

    nodes = vertices.select("id").persist()
    size = nodes.count()
    if not size:
        return nodes.withColumn("pagerank", F.lit(0.0))
    degrees = edges.groupBy("src").agg(F.count("*").alias("n"))
    links = joined(edges.select("src", "dst"), degrees, "src").persist()
    ranks = nodes.withColumn("pagerank", F.lit(1.0 / size))
    for _ in range(rounds):
        given = joined(links, ranks, links.src == ranks.id)
        given = given.groupBy("dst").agg(F.sum(F.col("pagerank") / F.col("n")).alias("given"))
        given = given.localCheckpoint()
        # What nodes without edges hold is spread over all.
        total = F.broadcast(given.agg(F.coalesce(F.sum("given"), F.lit(0.0)).alias("total")))
        received = joined(nodes, given, nodes.id == given.dst, "left").crossJoin(total)
        share = F.coalesce("given", F.lit(0.0)) + (1.0 - F.col("total")) / size
        ranks = received.select("id", ((1.0 - damping) / size + damping * share).alias("pagerank"))
        ranks = ranks.localCheckpoint()
    links.unpersist()
    nodes.unpersist()
    return ranks


def connected_components(vertices: DataFrame, edges: DataFrame) -> DataFrame:
    """Return, for each node, the smallest id that can be reached, whatever the direction."""
    from pyspark.sql import functions as F

    both = _both_ways(edges).persist()
    components = vertices.select("id", F.col("id").alias("component")).localCheckpoint()
    while True:
        beside = joined(both, components, both.src == components.id)
        near = beside.groupBy("dst").agg(F.min("component").alias("near"))
        known = joined(components, near, components.id == near.dst, "left")
        least = F.least("component", F.coalesce("near", "component")).alias("least")
        step = known.select("id", "component", least).localCheckpoint()
        # A component's own component is nearer to the end: long chains take few rounds.
        jump = step.select(F.col("id").alias("least"), F.col("least").alias("further"))
        moved = joined(step, jump, "least", "left").select(
            "id",
            F.coalesce("further", "least").alias("component"),
            (F.col("component") != F.coalesce("further", "least")).alias("moved"),
        )
        moved = moved.localCheckpoint()
        components = moved.select("id", "component")
        if not moved.where("moved").limit(1).count():
            both.unpersist()
            return components


def label_propagation(vertices: DataFrame, edges: DataFrame, *, rounds: int = 5) -> DataFrame:
    """Return communities: each round a node takes the commonest label around it, ties the least."""
    from pyspark.sql import functions as F

    both = _both_ways(edges).persist()
    labels = vertices.select("id", F.col("id").alias("label")).localCheckpoint()
    for _ in range(rounds):
        beside = joined(both, labels, both.src == labels.id)
        votes = beside.groupBy("dst", "label").agg(F.count("*").alias("n"))
        best = votes.groupBy("dst").agg(F.max("n").alias("n"))
        won = joined(votes, best, ["dst", "n"]).groupBy("dst").agg(F.min("label").alias("won"))
        voted = joined(labels, won, labels.id == won.dst, "left")
        labels = voted.select("id", F.coalesce("won", "label").alias("label")).localCheckpoint()
    both.unpersist()
    return labels


def triangle_count(vertices: DataFrame, edges: DataFrame) -> DataFrame:
    """Return the number of triangles through each node; direction and repetition do not count."""
    from pyspark.sql import functions as F

    both = _both_ways(edges).where("src < dst").distinct().persist()
    one = both.select(F.col("src").alias("a"), F.col("dst").alias("b"))
    two = both.select(F.col("src").alias("a"), F.col("dst").alias("c"))
    three = both.select(F.col("src").alias("b"), F.col("dst").alias("c"))
    corners = joined(joined(one, two, "a").where("b < c"), three, ["b", "c"])
    counted = corners.select(F.explode(F.array("a", "b", "c")).alias("id")).groupBy("id").count()
    triangles = joined(vertices.select("id"), counted, "id", "left")
    triangles = triangles.select(
        "id", F.coalesce("count", F.lit(0)).alias("triangles")
    ).localCheckpoint()
    both.unpersist()
    return triangles


def shortest_paths(
    vertices: DataFrame, edges: DataFrame, sources: Sequence[str], *, hops_max: int | None = None
) -> DataFrame:
    """Return the least number of edges from any source; null where there is no way."""
    from pyspark.sql import functions as F

    if not sources:
        raise BadRequestError("name at least one source")
    links = edges.select("src", "dst").persist()
    reached = vertices.where(F.col("id").isin(list(sources)))
    reached = reached.select("id", F.lit(0).alias("hops")).localCheckpoint()
    edge_of = reached
    hops = 0
    while hops_max is None or hops < hops_max:
        hops += 1
        ahead = joined(links, edge_of, links.src == edge_of.id).select(F.col("dst").alias("id"))
        ahead = joined(ahead.distinct(), reached, "id", "left_anti")
        edge_of = ahead.withColumn("hops", F.lit(hops)).localCheckpoint()
        if not edge_of.limit(1).count():
            break
        reached = reached.union(edge_of).localCheckpoint()
    links.unpersist()
    return joined(vertices.select("id"), reached, "id", "left")


def write_property(
    graph: Session,
    result: DataFrame,
    type: str,
    property: str,
    *,
    branch: str = "main",
    **options: Any,
) -> LoadResult:
    """Write a frame of `id` and one value as a property of a type, in one commit.

    Entities the frame does not name keep what they have. `options` are those of `load`.
    """
    from pyspark.sql import functions as F

    values = [name for name in result.columns if name != "id"]
    if len(values) != 1 or "id" not in result.columns:
        raise BadRequestError("the frame needs 'id' and one more column")
    snapshot = graph.snapshot(branch)
    catalog = catalog_at(graph, snapshot)
    entity = catalog.find_entity(type)
    if entity is None or property not in entity.properties:
        raise BadRequestError(f"{type} has no property '{property}'")
    rows = read(
        result.sparkSession, graph.uri, type, branch=branch, storage_options=reach(graph)
    ).alias("old")
    new = result.select("id", F.col(values[0]).alias("#value"))
    kept = [
        F.col("#value").alias(name) if name == property else F.col(f"old.`{name}`")
        for name in rows.columns
    ]
    frame = joined(rows, new, "id").select(*kept)
    options.setdefault("session", result.sparkSession)
    # Rows are read at one state and replaced as a whole: no writer may have changed them since.
    options.setdefault("expected_head", snapshot.commit.graph_commit_id)
    for end, name in (("src", "from"), ("dst", "to")):
        if end in frame.columns:
            frame = frame.withColumnRenamed(end, name)
    return load(graph, {type: frame}, mode="merge", branch=branch, **options)


def _both_ways(edges: DataFrame) -> DataFrame:
    turned = edges.selectExpr("dst as src", "src as dst")
    return edges.select("src", "dst").union(turned).where("src <> dst")
