"""Executes a read plan on one snapshot."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import LiteralValue
from omnigraph.errors import QueryError
from omnigraph.manifest import Pin
from omnigraph.plan.expression import Bm25, Expression, Nearest, Rrf, TextMatch, walk
from omnigraph.plan.read import (
    AntiJoin,
    Expand,
    ExpandInto,
    Filter,
    NodeScan,
    OptionalJoin,
    ReadPlan,
    Step,
)
from omnigraph.read.columns import ResidentCache, TableColumns
from omnigraph.read.frame import Frame
from omnigraph.read.output import build_output
from omnigraph.read.pattern import Context, run_steps
from omnigraph.read.topology import Topologies
from omnigraph.store import Tables


class Reader:
    """Runs read plans on snapshots of one graph, sharing what it has read between them."""

    def __init__(self, tables: Tables) -> None:
        cache = ResidentCache()
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
        _refuse_search(plan)
        context = Context(
            catalog=catalog,
            pins=pins,
            columns=self._columns,
            topologies=self._topologies,
            parameters=parameters,
            now=now,
        )
        try:
            frame = run_steps(context, plan.steps, Frame(1))
            table = build_output(context, plan, frame)
        except (pa.ArrowException, OverflowError, ValueError) as error:
            reason = str(error).split("\n", 1)[0]
            raise QueryError(f"query '{plan.name}' cannot be evaluated: {reason}") from error
        shown = [index for index, column in enumerate(plan.columns) if not column.hidden]
        names = [plan.columns[index].name for index in shown]
        arrays = [table.column(index) for index in shown]
        return pa.Table.from_arrays(arrays, names=names)


def _refuse_search(plan: ReadPlan) -> None:
    """Text and vector search are compiled but not executed by this release."""
    expressions: list[Expression] = [column.expression for column in plan.columns]
    expressions += [key.expression for key in plan.sort_keys]
    expressions += _conditions(plan.steps)
    if plan.ranking is not None:
        expressions.append(plan.ranking)
    for expression in expressions:
        for part in walk(expression):
            if isinstance(part, TextMatch | Nearest | Bm25 | Rrf):
                raise QueryError(
                    f"query '{plan.name}' searches text or vectors, which this release cannot run"
                )


def _conditions(steps: tuple[Step, ...]) -> list[Expression]:
    found: list[Expression | None] = []
    for step in steps:
        match step:
            case NodeScan() | Filter():
                found.append(step.condition)
            case Expand():
                found += [step.edge_condition, step.target_condition]
            case ExpandInto():
                found.append(step.edge_condition)
            case AntiJoin() | OptionalJoin():
                found += _conditions(step.steps)
    return [item for item in found if item is not None]
