"""Executes a read plan on one snapshot."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import LiteralValue
from omnigraph.errors import QueryError
from omnigraph.limits import COMPILED_QUERIES_MAX
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
from omnigraph.read.tree import Tree, plan_tree
from omnigraph.read.walk import walk_tree
from omnigraph.store import Tables


class Reader:
    """Runs read plans on snapshots of one graph, sharing what it has read between them."""

    def __init__(self, tables: Tables, *, factorise: bool = True) -> None:
        cache = ResidentCache()
        self._factorise = factorise
        self._trees: dict[int, tuple[ReadPlan, Tree | None]] = {}
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
        context = Context(
            catalog=catalog,
            pins=pins,
            columns=self._columns,
            topologies=self._topologies,
            parameters=parameters,
            now=now,
            factorise=self._factorise,
        )
        try:
            frame = self._rows(context, plan)
            table = build_output(context, plan, frame)
        except (pa.ArrowException, OverflowError, ValueError) as error:
            reason = str(error).split("\n", 1)[0]
            raise QueryError(f"query '{plan.name}' cannot be evaluated: {reason}") from error
        shown = [index for index, column in enumerate(plan.columns) if not column.hidden]
        names = [plan.columns[index].name for index in shown]
        arrays = [table.column(index) for index in shown]
        return pa.Table.from_arrays(arrays, names=names)

    def _rows(self, context: Context, plan: ReadPlan) -> Frame:
        tree = self._tree(plan)
        if tree is None or not self._factorise:
            return run_steps(context, plan.steps, Frame(1))
        return run_steps(context, tree.rest, walk_tree(context, tree))

    def _tree(self, plan: ReadPlan) -> Tree | None:
        """Return the tree of a plan, which is worked out once for a compiled query."""
        known = self._trees.get(id(plan))
        if known is None or known[0] is not plan:
            if len(self._trees) >= COMPILED_QUERIES_MAX:
                self._trees.clear()
            _refuse_search(plan)
            known = self._trees[id(plan)] = (plan, plan_tree(plan))
        return known[1]


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
