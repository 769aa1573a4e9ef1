"""Executes a read plan on one snapshot."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import LiteralValue
from omnigraph.embed import Embedder, embed_texts
from omnigraph.errors import QueryError
from omnigraph.manifest import Pin
from omnigraph.plan.expression import Nearest
from omnigraph.plan.read import ReadPlan
from omnigraph.read.columns import ResidentCache, TableColumns
from omnigraph.read.frame import Frame
from omnigraph.read.output import build_output
from omnigraph.read.pattern import Context, run_steps
from omnigraph.read.ranking import Ranker
from omnigraph.read.search import SearchColumns, constants, rewritten_plan, searches
from omnigraph.read.topology import Topologies
from omnigraph.read.vectors import as_query
from omnigraph.store import Tables


class Reader:
    """Runs read plans on snapshots of one graph, sharing what it has read between them."""

    def __init__(self, tables: Tables, *, embedder: Embedder | None = None) -> None:
        cache = ResidentCache()
        self._tables = tables
        self._cache = cache
        self._embedder = embedder
        self._columns = TableColumns(tables, cache)
        self._topologies = Topologies(self._columns, cache)

    def execute(
        self,
        plan: ReadPlan,
        catalog: Catalog,
        pins: Mapping[str, Pin],
        parameters: Mapping[str, LiteralValue],
        *,
        now: datetime.datetime,
    ) -> Any:
        """Return the result as an Arrow table; column names may repeat."""
        if searches(plan):
            return self._search(plan, catalog, pins, parameters, now=now)
        context = Context(
            catalog=catalog,
            pins=pins,
            columns=self._columns,
            topologies=self._topologies,
            parameters=parameters,
            now=now,
        )
        with _named(plan):
            frame = run_steps(context, plan.steps, Frame(1))
            return _shown(plan, build_output(context, plan, frame))

    def _search(
        self,
        plan: ReadPlan,
        catalog: Catalog,
        pins: Mapping[str, Pin],
        parameters: Mapping[str, LiteralValue],
        *,
        now: datetime.datetime,
    ) -> Any:
        """Run a plan that searches: its predicates are columns, its rankings come at the end."""
        constant = constants(parameters, now)
        columns = SearchColumns(self._tables, self._cache, constant)
        context = Context(
            catalog=catalog,
            pins=pins,
            columns=columns,
            topologies=self._topologies,
            parameters=parameters,
            now=now,
        )
        with _named(plan):
            plan = rewritten_plan(plan, columns.replaced)
            frame = run_steps(context, plan.steps, Frame(1))
            plan, frame = Ranker(columns, constant, self._embed).rank(plan, frame)
            return _shown(plan, build_output(context, plan, frame))

    def _embed(self, ranking: Nearest, text: str, dimension: int) -> Any:
        """Return the vector of a text query."""
        embedder = self._embedder
        if embedder is None:
            raise QueryError(
                "`nearest` with a text needs an embedder, and the graph was opened without one",
                hint="open it with embedder=..., or give a vector",
            )
        if ranking.model is not None and ranking.model != embedder.model:
            raise QueryError(
                f"{ranking.property} was embedded with model '{ranking.model}', but the embedder "
                f"is '{embedder.model}'",
                hint="distances between vectors of different models mean nothing",
            )
        if not text.strip():
            raise QueryError("the query text of `nearest` is empty")
        return as_query(embed_texts(embedder, [text], dimension=dimension)[0])


@contextlib.contextmanager
def _named(plan: ReadPlan) -> Iterator[None]:
    """Say which query it was that could not be evaluated."""
    try:
        yield
    except (pa.ArrowException, OverflowError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        raise QueryError(f"query '{plan.name}' cannot be evaluated: {reason}") from error


def _shown(plan: ReadPlan, table: Any) -> Any:
    """Return the columns of a result that are not hidden."""
    shown = [index for index, column in enumerate(plan.columns) if not column.hidden]
    names = [plan.columns[index].name for index in shown]
    arrays = [table.column(index) for index in shown]
    return pa.Table.from_arrays(arrays, names=names)
