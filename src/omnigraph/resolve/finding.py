"""Finds what is the same in one state of a graph. Reads only.

Where rows are read and compared is behind `Source`: this process, or workers on Spark. Everything
that is decided is decided here, on what a source returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.catalog import Entity, NodeType
from omnigraph.errors import BadRequestError
from omnigraph.extras import active_session, offered
from omnigraph.graph import Session
from omnigraph.graph.results import Snapshot
from omnigraph.graph.seam import catalog_at, table_at
from omnigraph.limits import RESOLVE_REPORTED, RESOLVE_ROWS_AT_ONCE, RESOLVE_SPARK_NODES_MIN
from omnigraph.resolve.clusters import CLUSTER, MEMBER, clusters_of
from omnigraph.resolve.features import ID, features, wanted_columns
from omnigraph.resolve.merging import SURVIVOR, MergePlan, merge_plan
from omnigraph.resolve.rules import Rules
from omnigraph.resolve.scores import distinct, matches
from omnigraph.rows import rows_schema
from omnigraph.values.commits import MAIN
from omnigraph.values.resolutions import ResolveReport
from omnigraph.values.words import EngineWord

ENGINES = ("auto", "local", "spark")


class Matches(Struct, frozen=True, kw_only=True):
    """Pairs that match, once each, and how many were compared.

    `large` are the blocks left out, as rule, key and nodes.
    """

    pairs: pa.Table
    compared: int
    large: Sequence[tuple[int, str, int]]


class Source(Protocol):
    """Where the rows of one state are read."""

    def matches(self, node: NodeType, rules: Rules) -> Matches:
        """Return the pairs of nodes that match."""

    def rows_of(
        self, entity: Entity, columns: Sequence[str], by: Sequence[str], ids: pa.Array
    ) -> pa.Table:
        """Return the rows in which one of these columns has one of these ids."""


class Resolved(Struct, frozen=True, kw_only=True):
    """What is the same in one state of a graph, and a plan to merge it. Nothing is written yet.

    `pairs` has the ids of each pair that matches, its score, and the score of each comparison,
    null where a value is missing. `clusters` has the number of a cluster, the id of each node in
    it, and the id it becomes; that is null in clusters which are too large to be merged. `skipped`
    has the blocks that were left out: number of the block, key, nodes.
    """

    rules: Rules
    branch: str
    commit: str
    nodes: int
    compared: int
    pairs: pa.Table
    clusters: pa.Table
    skipped: pa.Table
    plan: MergePlan

    def report(self) -> ResolveReport:
        """Return the figures."""
        clusters = self.clusters
        sizes = np.bincount(clusters[CLUSTER].to_numpy(), minlength=1)
        large = np.flatnonzero(sizes > self.rules.cluster_nodes_max)
        firsts = np.unique(clusters[CLUSTER].to_numpy(), return_index=True)[1]
        ids = clusters[MEMBER].combine_chunks()
        return ResolveReport(
            type=self.rules.type,
            branch=self.branch,
            state=self.commit,
            nodes=self.nodes,
            compared=self.compared,
            pairs=self.pairs.num_rows,
            clusters=int((sizes > 1).sum()),
            merged=self.plan.merged,
            edges={
                name: {
                    "redirected": item.redirected,
                    "collapsed": item.collapsed,
                    "loops": item.loops,
                }
                for name, item in self.plan.edges.items()
            },
            blocks_skipped=self.skipped.num_rows,
            largest_skipped=tuple(self.skipped.slice(0, RESOLVE_REPORTED).to_pylist()),
            clusters_too_large=len(large),
            largest_clusters=tuple(
                {"nodes": int(sizes[number]), "lowest_id": ids[int(firsts[number])].as_py()}
                for number in large[np.argsort(-sizes[large], kind="stable")][:RESOLVE_REPORTED]
            ),
        )


def resolve(
    graph: Session,
    rules: Rules,
    *,
    branch: str = MAIN,
    engine: EngineWord = "auto",
    session: object = None,
    master: str | None = None,
) -> Resolved:
    """Find the nodes of a type that are the same by rules, in the newest state of a branch.

    >>> from omnigraph.resolve import Comparison, Key, Rules, resolve
    >>> rules = Rules(type="Person", blocks=[Key("name", by="prefix", length=1)],
    ...               compare=[Comparison("name", by="edit")], threshold=0.8)
    >>> resolve(graph, rules).plan.merged
    0

    Args:
        graph: The graph.
        rules: What is compared, and what becomes of what is the same.
        branch: The branch to look at.
        engine: `local` works in this process, `spark` on Spark; `auto` takes Spark if a `session`
            or `master` is given, or the type is large and there is a session.
        session: The Spark session to use.
        master: Where Spark runs, as for `Graph.bulk`.
    """
    if engine not in ENGINES:
        raise BadRequestError(f"unknown engine '{engine}'", hint=f"use {', '.join(ENGINES)}")
    if engine == "local" and (master is not None or session is not None):
        raise BadRequestError("the engine 'local' takes no Spark", hint="use engine 'spark'")
    snapshot = graph.snapshot(branch)
    node = rules.check(catalog_at(graph, snapshot))
    pin = snapshot.tables.get(node.table_key)
    nodes = 0 if pin is None else pin.row_count
    source: Source = LocalSource(graph, snapshot)
    if _on_spark(engine, session, master, nodes):
        make = offered("spark.resolving").SparkSource
        source = make(graph, snapshot, session=session, master=master)
    matched = source.matches(node, rules)
    clusters = clusters_of(matched.pairs)
    plan = _plan(graph, snapshot, node, rules, source, _small(clusters, rules))
    return Resolved(
        rules=rules,
        branch=branch,
        commit=snapshot.commit.graph_commit_id,
        nodes=nodes,
        compared=matched.compared,
        pairs=matched.pairs,
        clusters=_with_survivors(clusters, plan),
        skipped=_skipped(matched.large),
        plan=plan,
    )


def _on_spark(engine: str, session: object, master: str | None, nodes: int) -> bool:
    if engine != "auto":
        return engine == "spark"
    if session is not None or master is not None:
        return True
    return active_session() is not None and nodes >= RESOLVE_SPARK_NODES_MIN


def _small(clusters: pa.Table, rules: Rules) -> pa.Table:
    """Return the members of clusters that may be merged."""
    numbers = clusters[CLUSTER].to_numpy()
    sizes = np.bincount(numbers, minlength=1)
    return clusters.filter(pa.array(sizes[numbers] <= rules.cluster_nodes_max))


def _plan(
    graph: Session,
    snapshot: Snapshot,
    node: NodeType,
    rules: Rules,
    source: Source,
    members: pa.Table,
) -> MergePlan:
    catalog = catalog_at(graph, snapshot)
    values = rules.value_rules(node)
    vectors = [
        name
        for name, declared in node.properties.items()
        if declared.embedding is not None and declared.embedding.source in values
    ]
    newest = [] if rules.newest_by is None else [rules.newest_by]
    columns = list(dict.fromkeys([ID, *node.key, *newest, *values, *vectors]))
    ids = members[MEMBER].combine_chunks()
    nodes = source.rows_of(node, columns, [ID], ids).sort_by(ID)
    edges = []
    for edge in catalog.incident_edges(node.name):
        own = [name for item in edge.uniques for name in item.columns]
        wanted = list(dict.fromkeys(["id", "src", "dst", *own]))
        ends = [("src", edge.source), ("dst", edge.target)]
        by = [column for column, end in ends if end == node.name]
        edges.append((edge, source.rows_of(edge, wanted, by, ids)))
    return merge_plan(node, rules, members, nodes, edges)


def _with_survivors(clusters: pa.Table, plan: MergePlan) -> pa.Table:
    at = pc.index_in(
        clusters[MEMBER].combine_chunks(), value_set=plan.survivors[MEMBER].combine_chunks()
    )
    return clusters.append_column(SURVIVOR, plan.survivors[SURVIVOR].combine_chunks().take(at))


def _skipped(large: Sequence[tuple[int, str, int]]) -> pa.Table:
    blocks = sorted(large, key=lambda item: (-item[2], item[0], item[1]))
    columns = list(zip(*blocks, strict=True)) or [(), (), ()]
    return pa.table(
        {
            "block": pa.array(columns[0], pa.int64()),
            "key": pa.array(columns[1], pa.string()),
            "nodes": pa.array(columns[2], pa.int64()),
        }
    )


class LocalSource:
    """Reads and compares in this process: compared values of all nodes are held in memory."""

    def __init__(self, graph: Session, snapshot: Snapshot) -> None:
        self._graph = graph
        self._snapshot = snapshot

    def matches(self, node: NodeType, rules: Rules) -> Matches:
        """Return the pairs of nodes that match."""
        columns = wanted_columns(rules)
        parts = [features(batch, rules) for batch in self._batches(node, columns)]
        parts = parts or [features(shape(node, columns).empty_table(), rules)]
        return all_matches(pa.concat_tables(parts), rules)

    def rows_of(
        self, entity: Entity, columns: Sequence[str], by: Sequence[str], ids: pa.Array
    ) -> pa.Table:
        """Return the rows in which one of these columns has one of these ids."""
        batches = self._batches(entity, columns) if len(ids) else ()
        parts = [having(batch, by, ids) for batch in batches]
        return pa.Table.from_batches(parts, shape(entity, columns)).combine_chunks()

    def _batches(self, entity: Entity, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        table = table_at(self._graph, self._snapshot, entity.table_key)
        wanted = shape(entity, columns)
        for batch in table.batches(columns=columns, batch_rows=RESOLVE_ROWS_AT_ONCE):
            yield batch.cast(wanted)


def all_matches(nodes: pa.Table, rules: Rules) -> Matches:
    """Compare features of all nodes, block rule by block rule."""
    ordered = nodes.sort_by(ID).combine_chunks()
    parts, compared = [], 0
    large: list[tuple[int, str, int]] = []
    for number in range(len(rules.keys)):
        pairs, count, left_out = matches(ordered, number, rules)
        parts.append(pairs)
        compared += count
        large += [(number, key, rows) for key, rows in left_out]
    return Matches(pairs=distinct(pa.concat_tables(parts)), compared=compared, large=large)


def shape(entity: Entity, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of some columns of a type."""
    return pa.schema([rows_schema(entity).field(name) for name in columns])


def having(batch: pa.RecordBatch, by: Sequence[str], ids: pa.Array) -> pa.RecordBatch:
    """Return the rows of a batch in which one of these columns has one of these ids."""
    wanted = np.zeros(batch.num_rows, dtype=bool)
    for name in by:
        wanted |= pc.is_in(batch.column(name), value_set=ids).to_numpy(zero_copy_only=False)
    return batch.filter(pa.array(wanted))
