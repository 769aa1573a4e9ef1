"""Executes a read plan on one snapshot."""

from __future__ import annotations

import contextlib
import datetime
import math
from collections.abc import Iterator, Mapping
from enum import StrEnum

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from omnigraph.bounded import BoundedCache
from omnigraph.catalog import Catalog
from omnigraph.catalog.model import LiteralValue
from omnigraph.clock import elapsed_s
from omnigraph.embed import Embedder, embed_texts
from omnigraph.errors import QueryError
from omnigraph.limits import (
    COMPILED_QUERIES_MAX,
    CONDITION_SHARE,
    PIECE_JOINED_NODES,
    PIECE_ROWS,
    PROBE_ROWS_MIN,
    PROBED_QUERIES_MAX,
    PROBED_TABLES_MAX,
    QUERY_ROWS_MAX,
)
from omnigraph.plan.expression import Nearest
from omnigraph.plan.read import Join, ReadPlan
from omnigraph.read.arrays import Scores
from omnigraph.read.by_key import ByKey, Memory, plan_by_key
from omnigraph.read.columns import CacheStats, ResidentCache, TableColumns
from omnigraph.read.context import Context
from omnigraph.read.edge_files import EdgeFiles
from omnigraph.read.estimates import growth
from omnigraph.read.frame import Frame, concatenated
from omnigraph.read.output import build_output, cut_size
from omnigraph.read.pattern import run_steps
from omnigraph.read.probe import ProbePlan, TooWide, plan_probe, probe
from omnigraph.read.ranking import Ranker
from omnigraph.read.running import apart, is_traced, noted, out_of_memory
from omnigraph.read.search import SearchColumns, constants, searches, transform_plan
from omnigraph.read.topology import Topologies
from omnigraph.read.tree import Tree, plan_tree
from omnigraph.read.vectors import as_query
from omnigraph.read.walk import walk_in_pieces, walk_tree
from omnigraph.store import Pin, Tables


class Fetch(StrEnum):
    """How a query gets at its rows; the results are the same."""

    AUTO = "auto"
    RESIDENT = "resident"
    PROBE = "probe"


class Prepared(Struct, frozen=True):
    """What is worked out once for a compiled query."""

    plan: ReadPlan
    searches: bool
    tree: Tree | None = None
    probe: ProbePlan | None = None
    by_key: ByKey | None = None


class Reader:
    """Runs read plans on snapshots of one graph, sharing what it has read between them."""

    def __init__(
        self,
        tables: Tables,
        *,
        embedder: Embedder | None = None,
        factorise: bool = True,
        fetch: Fetch = Fetch.AUTO,
    ) -> None:
        cache = ResidentCache()
        self._tables = tables
        self._cache = cache
        self._embedder = embedder
        self._factorise = factorise
        self._fetch = fetch
        self._prepared: BoundedCache[int, Prepared] = BoundedCache(COMPILED_QUERIES_MAX)
        self._probed: BoundedCache[str, int] = BoundedCache(PROBED_TABLES_MAX)
        self._columns = TableColumns(tables, cache)
        self.topologies = Topologies(self._columns, cache, EdgeFiles(tables).find)

    def limit_cache(self, bytes_max: int) -> None:
        """Keep so many bytes of what is read at most."""
        self._cache.limit_to(bytes_max)

    def cache_stats(self) -> CacheStats:
        """Return how much of what was read is kept, and how often it helped."""
        return self._cache.stats()

    def execute(
        self,
        plan: ReadPlan,
        catalog: Catalog,
        pins: Mapping[str, Pin],
        parameters: Mapping[str, LiteralValue],
        *,
        now: datetime.datetime,
    ) -> pa.Table:
        """Return the result as an Arrow table; column names may repeat."""
        prepared = self._prepare(plan, catalog)
        if prepared.searches:
            return self._search(plan, catalog, pins, parameters, now=now)
        if prepared.by_key is not None and self._is_direct():
            memory = Memory(self._columns, self.topologies, pins, parameters, now)
            answer = prepared.by_key.answer(memory)
            if answer is not None:
                return answer
        context = Context(
            catalog=catalog,
            pins=pins,
            columns=self._columns,
            topologies=self.topologies,
            parameters=parameters,
            now=now,
            factorise=self._factorise,
        )
        with _translate_errors(plan):
            begun = elapsed_s()
            narrowed = self._narrowed(context, prepared)
            if narrowed is not context:
                noted("fetch what the query touches through indexes", 0, begun)
            frame = self._rows(narrowed, prepared)
            return _output(narrowed, plan, frame)

    def _search(
        self,
        plan: ReadPlan,
        catalog: Catalog,
        pins: Mapping[str, Pin],
        parameters: Mapping[str, LiteralValue],
        *,
        now: datetime.datetime,
    ) -> pa.Table:
        """Run a plan that searches: its predicates are columns, its rankings come at the end."""
        constant = constants(parameters, now)
        columns = SearchColumns(self._tables, self._cache, constant)
        context = Context(
            catalog=catalog,
            pins=pins,
            columns=columns,
            topologies=self.topologies,
            parameters=parameters,
            now=now,
            factorise=False,
        )
        with _translate_errors(plan):
            plan = transform_plan(plan, columns.replaced)
            frame = run_steps(context, plan.steps, Frame(1))
            begun = elapsed_s()
            plan, frame = Ranker(columns, constant, self.embed_query).rank(plan, frame)
            noted("rank", frame.size, begun)
            return _output(context, plan, frame)

    def embed_query(self, ranking: Nearest, text: str, dimension: int) -> Scores:
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

    def _rows(self, context: Context, prepared: Prepared) -> Frame:
        tree = prepared.tree
        if tree is None or not self._factorise:
            return run_steps(context, prepared.plan.steps, Frame(1))
        enough = _enough(context, prepared.plan)
        if enough is None:
            return run_steps(context, tree.rest, walk_tree(context, tree), tree.needs)
        return _first_rows(context, tree, enough)

    def _prepare(self, plan: ReadPlan, catalog: Catalog) -> Prepared:
        known = self._prepared.get(id(plan))
        if known is None or known.plan is not plan:
            known = self._planned(plan, catalog)
            self._prepared.put(id(plan), known)
        return known

    @staticmethod
    def _planned(plan: ReadPlan, catalog: Catalog) -> Prepared:
        if searches(plan):
            return Prepared(plan, searches=True)
        return Prepared(
            plan,
            searches=False,
            tree=plan_tree(plan),
            probe=plan_probe(plan, catalog),
            by_key=plan_by_key(plan, catalog),
        )

    def _is_direct(self) -> bool:
        """Whether steps may be left out: not where they are recorded, or another way is tried."""
        return self._fetch is Fetch.AUTO and self._factorise and not is_traced()

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
        times = [(self._probed.get(pin.path) or 0) + 1 for pin in cold]
        for pin, number in zip(cold, times, strict=True):
            self._probed.put(pin.path, number)
        if max(times) > PROBED_QUERIES_MAX:
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
        return self.topologies.resident(pin, *ends)


def _enough(context: Context, plan: ReadPlan) -> int | None:
    """Return how many rows, whichever they are, make up the result; None if all are needed."""
    if plan.grouped or plan.distinct or plan.sort_keys:
        return None
    size = cut_size(context, plan)
    return None if size is None or size > QUERY_ROWS_MAX else size


def _first_rows(context: Context, tree: Tree, enough: int) -> Frame:
    """Walk from a few nodes, then from more of them, until there are enough rows."""
    steps = (*(link.step for link in tree.links), *tree.rest)
    per_node = math.prod([growth(context, step) for step in steps], start=1.0)
    first = math.ceil(max(2 * enough, PIECE_ROWS) / max(per_node, CONDITION_SHARE))
    if any(isinstance(step, Join) for step in steps):
        # How many rows have one value is not known before they are joined.
        first = min(first, PIECE_JOINED_NODES)
    pieces = walk_in_pieces(context, tree, first)
    frames: list[Frame] = []
    while sum(frame.rows for frame in frames) < enough or not frames:
        with apart(again=bool(frames)):
            piece = next(pieces, None)
            if piece is None:
                break
            frames.append(run_steps(context, tree.rest, piece, replace(tree.needs, enough=enough)))
    return concatenated(frames).leading(enough)


@contextlib.contextmanager
def _translate_errors(plan: ReadPlan) -> Iterator[None]:
    """Say which query it was that could not be evaluated."""
    try:
        yield
    except MemoryError as error:
        raise out_of_memory(plan.name) from error
    except (pa.ArrowException, OverflowError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        raise QueryError(f"query '{plan.name}' cannot be evaluated: {reason}") from error


def _output(context: Context, plan: ReadPlan, frame: Frame) -> pa.Table:
    begun = elapsed_s()
    table = _shown(plan, build_output(context, plan, frame))
    verb = "group" if plan.grouped else "distinct" if plan.distinct else "project"
    noted(f"{verb}, sort and cut", table.num_rows, begun)
    return table


def _shown(plan: ReadPlan, table: pa.Table) -> pa.Table:
    """Return the columns of a result that are not hidden."""
    shown = [index for index, column in enumerate(plan.columns) if not column.hidden]
    names = [plan.columns[index].name for index in shown]
    arrays = [table.column(index) for index in shown]
    return pa.Table.from_arrays(arrays, names=names)
