"""Runs a read query on Spark: the same text, the same snapshot, the same answer."""

from __future__ import annotations

import datetime
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import LiteralValue
from omnigraph.compute import constant_value
from omnigraph.graph import Session, Snapshot, open_graph
from omnigraph.graph.seam import embed_query, reach, read_query
from omnigraph.limits import SPARK_BROADCAST_ROWS
from omnigraph.plan.read import ReadPlan
from omnigraph.read.ranking import Embed
from omnigraph.read.reads import reads_of
from omnigraph.read.tree import plan_tree
from omnigraph.spark.engine import Engine
from omnigraph.spark.frames import Scan, scan
from omnigraph.spark.queries.counting import walked
from omnigraph.spark.queries.output import build_output
from omnigraph.spark.queries.result import SparkResult
from omnigraph.spark.queries.rows import Joins, Names, Rows
from omnigraph.spark.queries.search import check_supported, ranked, without_texts
from omnigraph.spark.queries.steps import Pattern
from omnigraph.spark.queries.tables import Plan, Tables
from omnigraph.spark.session import need_pyspark
from omnigraph.store import Pin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def query(
    spark: SparkSession,
    graph: Session | str | os.PathLike[str],
    source: str,
    params: Mapping[str, object] | None = None,
    *,
    name: str | None = None,
    branch: str | None = None,
    commit: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    timestamp: datetime.datetime | str | None = None,
    timeout: float | None = None,
    cancel: threading.Event | None = None,
    storage_options: Mapping[str, str] | None = None,
    broadcast_rows: int = SPARK_BROADCAST_ROWS,
) -> SparkResult:
    """Run a read query of one snapshot on a Spark session, classic or Connect.

    `graph` is an open graph or its address; the other arguments are those of `Graph.query`. The
    answer is that of the local engine. Nothing runs until rows are asked for, and whatever is
    committed meanwhile does not show. Executors must reach the graph by the same name. Tables of
    at most `broadcast_rows` rows are sent to every executor instead of being sorted.
    """
    need_pyspark()
    if not isinstance(graph, Session):
        with open_graph(graph, mode="ro", storage_options=storage_options) as opened:
            return query(
                spark,
                opened,
                source,
                params,
                name=name,
                branch=branch,
                commit=commit,
                version=version,
                tag=tag,
                timestamp=timestamp,
                timeout=timeout,
                cancel=cancel,
                broadcast_rows=broadcast_rows,
            )
    snapshot = graph.snapshot(branch, commit=commit, version=version, tag=tag, timestamp=timestamp)
    asked = read_query(graph, snapshot, source, params, name)
    compiler = Compiler(
        engine=Engine(spark, reach(graph)),
        plan=partial(_scan, graph, snapshot),
        embed=embed_query(graph),
        broadcast_rows=broadcast_rows,
    )
    now = datetime.datetime.now(datetime.UTC)
    made = compiler.compile(asked.plan, asked.catalog, snapshot.tables, asked.values, now=now)
    return SparkResult(
        made.frame,
        [column for column in asked.plan.columns if not column.hidden],
        query_name=asked.compiled.name,
        commit_id=snapshot.commit.graph_commit_id,
        branch=None if commit else snapshot.branch,
        snapshot=commit,
        notes=made.notes,
        given=reach(graph),
        timeout_s=timeout,
        cancel=cancel,
    )


def _scan(
    graph: Session, snapshot: Snapshot, type_name: str, columns: Sequence[str], where: str | None
) -> Scan:
    return scan(graph, snapshot, type_name, columns, where)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A frame whose columns are `c0`, `c1` and so on, and how its joins are made."""

    frame: DataFrame
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """Turns read plans into Spark frames."""

    engine: Engine
    plan: Plan
    embed: Embed
    broadcast_rows: int = SPARK_BROADCAST_ROWS
    factorise: bool = True

    def compile(
        self,
        plan: ReadPlan,
        catalog: Catalog,
        pins: Mapping[str, Pin],
        parameters: Mapping[str, LiteralValue],
        *,
        now: datetime.datetime,
    ) -> Compiled:
        """Return the frame of a plan's result; nothing is read yet."""
        check_supported(plan)
        plan, computed = without_texts(plan, lambda item: constant_value(item, parameters, now))
        tables = Tables(
            engine=self.engine,
            plan=self.plan,
            catalog=catalog,
            pins=pins,
            parameters=parameters,
            now=now,
            names=Names(),
            reads=reads_of(plan),
            computed=computed,
        )
        joins = Joins(self.broadcast_rows)
        pattern = Pattern(tables, joins, factorise=self.factorise)
        merges = plan.grouped or plan.distinct
        tree = plan_tree(plan) if self.factorise and merges else None
        if tree is None:
            rows = pattern.run(plan.steps, Rows())
        else:
            rows = pattern.run(tree.rest, walked(pattern, tree), tree.needs)
        plan, rows = ranked(plan, rows, tables, joins, self.embed)
        return Compiled(build_output(plan, rows, tables), tuple(joins.notes))
