"""Executes a read plan on one snapshot."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import LiteralValue
from omnigraph.errors import QueryError
from omnigraph.limits import COMPILED_QUERIES_MAX, PROBE_ROWS_MIN, PROBED_QUERIES_MAX
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
from omnigraph.read.context import Context
from omnigraph.read.frame import Frame
from omnigraph.read.output import build_output
from omnigraph.read.pattern import run_steps
from omnigraph.read.probe import ProbePlan, TooWide, plan_probe, probe
from omnigraph.read.topology import Topologies
from omnigraph.read.tree import Tree, plan_tree
from omnigraph.read.walk import walk_tree
from omnigraph.store import Tables


class Fetch(StrEnum):
    """How a query gets at its rows; the results are the same."""

    AUTO = "auto"
    RESIDENT = "resident"
    PROBE = "probe"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is worked out once for a compiled query."""

    plan: ReadPlan
    tree: Tree | None
    probe: ProbePlan | None


class Reader:
    """Runs read plans on snapshots of one graph, sharing what it has read between them."""

    def __init__(
        self, tables: Tables, *, factorise: bool = True, fetch: Fetch = Fetch.AUTO
    ) -> None:
        cache = ResidentCache()
        self._tables = tables
        self._factorise = factorise
        self._fetch = fetch
        self._prepared: dict[int, Prepared] = {}
        self._probed: Counter[str] = Counter()
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
        prepared = self._prepare(plan, catalog)
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
            context = self._narrowed(context, prepared)
            frame = self._rows(context, prepared)
            table = build_output(context, plan, frame)
        except (pa.ArrowException, OverflowError, ValueError) as error:
            reason = str(error).split("\n", 1)[0]
            raise QueryError(f"query '{plan.name}' cannot be evaluated: {reason}") from error
        shown = [index for index, column in enumerate(plan.columns) if not column.hidden]
        names = [plan.columns[index].name for index in shown]
        arrays = [table.column(index) for index in shown]
        return pa.Table.from_arrays(arrays, names=names)

    def _rows(self, context: Context, prepared: Prepared) -> Frame:
        tree = prepared.tree
        if tree is None or not self._factorise:
            return run_steps(context, prepared.plan.steps, Frame(1))
        return run_steps(context, tree.rest, walk_tree(context, tree))

    def _prepare(self, plan: ReadPlan, catalog: Catalog) -> Prepared:
        known = self._prepared.get(id(plan))
        if known is None or known.plan is not plan:
            _refuse_search(plan)
            if len(self._prepared) >= COMPILED_QUERIES_MAX:
                self._prepared.clear()
            known = Prepared(plan, plan_tree(plan), plan_probe(plan, catalog))
            self._prepared[id(plan)] = known
        return known

    def _narrowed(self, context: Context, prepared: Prepared) -> Context:
        """Return the part of the graph a query touches, if that is cheaper than all of it."""
        wanted = prepared.probe
        if wanted is None or not self._is_selective(context, wanted):
            return context
        try:
            return probe(context, self._tables, prepared.plan, wanted)
        except TooWide:
            return context

    def _is_selective(self, context: Context, wanted: ProbePlan) -> bool:
        if self._fetch is not Fetch.AUTO:
            return self._fetch is Fetch.PROBE
        cold = [pin for pin in self._pins(context, wanted) if not self._is_resident(context, pin)]
        if not cold:
            return False
        # What is asked for again and again is worth its place in memory.
        self._probed.update(pin.path for pin in cold)
        if max(self._probed[pin.path] for pin in cold) > PROBED_QUERIES_MAX:
            return False
        rows = sum(self._tables.open(pin.path, pin.version).count_rows() for pin in cold)
        return rows >= PROBE_ROWS_MIN

    @staticmethod
    def _pins(context: Context, wanted: ProbePlan) -> list[Pin]:
        keys = [f"node:{name}" for name in wanted.nodes]
        return [context.pins[key] for key in (*keys, *(f"edge:{name}" for name in wanted.edges))]

    def _is_resident(self, context: Context, pin: Pin) -> bool:
        kind, _colon, name = pin.table_key.partition(":")
        if kind == "node":
            return self._columns.resident(pin, "id")
        edge = context.catalog.edges[name]
        ends = (context.pins[f"node:{edge.source}"], context.pins[f"node:{edge.target}"])
        return self._topologies.resident(pin, *ends)


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
