"""Optimizes a graph on Spark: workers compact and index, the driver plans, joins and commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from omnigraph.graph import Session
from omnigraph.graph.maintenance import OptimizeReport
from omnigraph.graph.seam import check_writable, reach
from omnigraph.limits import SPARK_INDEX_ROWS
from omnigraph.spark.engine import Engine
from omnigraph.spark.session import find_session
from omnigraph.spark.tasks import bundled
from omnigraph.store import Table, fragment_ids
from omnigraph.store.tables.worker_io import build_index, built_index, compact, compacted
from omnigraph.store.tables.workers import IndexPart, dividable, joined, plan_rewrite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def optimize(
    graph: Session,
    branch: str = "main",
    *,
    session: SparkSession | None = None,
    master: str | None = None,
    progress: Callable[[str], None] | None = None,
    index_rows: int = SPARK_INDEX_ROWS,
) -> OptimizeReport:
    """Do what `Graph.optimize` does, with the same report, and the long work on Spark.

    An index is built by one task per `index_rows` rows, and joined by the driver.
    """
    check_writable(graph)
    workers = SparkWorkers(Engine(find_session(session, master), reach(graph)), index_rows)
    return graph.optimize(branch, progress=progress, workers=workers)


class SparkWorkers:
    """The workers of a Spark session. One job has tasks of all tables, or of all indexes."""

    tables_at_once = 4

    def __init__(self, engine: Engine, index_rows: int) -> None:
        self._engine = engine
        self._index_rows = index_rows

    def rewrite(self, tables: Sequence[Table]) -> Iterator[list[Any]]:
        """Compact all tables in one job."""
        units: list[tuple[str, int, str]] = []
        owners: list[int] = []
        for number, table in enumerate(tables):
            for task in plan_rewrite(table):
                units.append((str(table.dataset.uri), table.version, task.json()))
                owners.append(number)

        def work(task: int) -> bytes:
            return compact(*units[task]).encode()

        rewrites: list[list[Any]] = [[] for _table in tables]
        answers = self._engine.run(len(units), work)
        for number, answer in zip(owners, answers, strict=True):
            rewrites[number].append(compacted(answer.decode()))
        return iter(rewrites)

    def build(self, table: Table, parts: Sequence[IndexPart]) -> list[Any]:
        """Build all indexes of a table in one job, each over some fragments per task."""
        sizes = dict(fragment_ids(table))
        folder, version = str(table.dataset.uri), table.version
        units: list[tuple[int, IndexPart]] = []
        for number, part in enumerate(parts):
            groups = bundled([sizes[item] for item in part.fragments], self._index_rows)
            piece = dividable(table, part) if len(groups) > 1 else None
            if piece is None:
                units.append((number, part))
                continue
            for group in groups:
                chosen = tuple(part.fragments[index] for index in group)
                units.append((number, replace(piece, fragments=chosen)))

        def work(task: int) -> bytes:
            return build_index(folder, version, units[task][1])

        segments: list[list[Any]] = [[] for _part in parts]
        answers = self._engine.run(len(units), work)
        for (number, _part), answer in zip(units, answers, strict=True):
            segments[number].append(built_index(answer))
        return [joined(table, part, made) for part, made in zip(parts, segments, strict=True)]
