"""Runs a read query for a caller: in this process, or on Spark."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from omnigraph.catalog import Catalog
from omnigraph.commits import BranchState
from omnigraph.drawing import Drawing, draw_subgraph
from omnigraph.errors import BadRequestError, ResourceLimitError
from omnigraph.extras import offered
from omnigraph.graph.acting import Acting
from omnigraph.graph.api import Params
from omnigraph.graph.engine import ReadQuery
from omnigraph.graph.entities import Entities
from omnigraph.graph.explanation import Explanation
from omnigraph.graph.result import Result
from omnigraph.graph.targets import At
from omnigraph.limits import QUERY_MEMORY, RESIDENT_BYTES_MAX
from omnigraph.plan import explain
from omnigraph.read import QueryControl
from omnigraph.read.estimates import working_set_bytes
from omnigraph.read.memory import return_memory, returned_if_refused, took_much
from omnigraph.read.running import memory_share
from omnigraph.store import Pin, measured

QueryEngine = Literal["local", "spark", "auto"]
LOCAL: Final = "local"
SPARK: Final = "spark"
AUTO: Final = "auto"
ENGINES = (LOCAL, SPARK, AUTO)


class _Sizes(Struct, frozen=True):
    catalog: Catalog
    pins: Mapping[str, Pin]


class Choice(Struct, frozen=True, kw_only=True):
    """The engine that runs a query, and why."""

    on_spark: bool
    reason: str


class Asked(Struct, frozen=True):
    """A query as a caller asks it: of which state, and where it may run."""

    source: str
    params: Params
    name: str | None
    at: At
    timeout_s: float | None = None
    cancel: threading.Event | None = None
    engine: str = LOCAL
    session: object = None
    master: str | None = None
    max_staleness_s: float | None = None

    def run(self, acting: Acting, graph: object) -> Result:
        """Return the answer; that of Spark is computed when it is asked for."""
        if self._choose(acting).on_spark:
            return self._on_spark(graph)
        state = acting.state(self.at, max_staleness_s=self.max_staleness_s)
        running = self._running(acting)
        with returned_if_refused(running):
            compiled, table = acting.engine.run(self.source, self.params, self.name, state, running)
        return Result(
            table,
            query_name=compiled.name,
            commit_id=state.head.graph_commit_id,
            branch=None if self.at.commit else state.branch.name,
            snapshot=self.at.commit,
            column_types=acting.engine.column_types(compiled),
            draw=_drawn_by(acting),
            let_go=return_memory if took_much(running) else None,
        )

    def explain(self, acting: Acting, graph: object) -> Explanation:
        """Run the query and return how it was done."""
        choice = self._choose(acting)
        if choice.on_spark:
            return self._explain_on_spark(acting, graph, choice)
        running = self._running(acting, trace=True)
        with returned_if_refused(running), measured() as io:
            state = acting.state(self.at)
            begun = time.perf_counter()
            compiled, table = acting.engine.run(self.source, self.params, self.name, state, running)
            seconds = time.perf_counter() - begun
        where = "" if self.engine == LOCAL else f"\nengine: local, {choice.reason}"
        return Explanation(
            plan=explain(compiled.plan) + where,
            stages=tuple(running.stages),
            rows=table.num_rows,
            seconds=seconds,
            io=dict(io),
        )

    def _running(self, acting: Acting, *, trace: bool = False) -> QueryControl:
        return QueryControl(
            timeout_s=self.timeout_s,
            memory_bytes=acting.engine.query_bytes_max,
            cancel=self.cancel,
            trace=trace,
        )

    # ---- the choice -----------------------------------------------------------------------

    def _choose(self, acting: Acting) -> Choice:
        """Return where to run; `auto` is Spark only for what does not fit in memory here.

        Raises `ResourceLimitError` if it does not fit and no Spark is configured.
        """
        if self.engine not in ENGINES:
            raise BadRequestError(
                f"unknown engine '{self.engine}'", hint=f"use {', '.join(ENGINES)}"
            )
        if self.engine != AUTO:
            return Choice(on_spark=self.engine == SPARK, reason="as asked for")
        state, asked = self._prepared(acting)
        needed = working_set_bytes(_Sizes(asked.catalog, state.pins), asked.plan)
        budget = min(RESIDENT_BYTES_MAX, memory_share())
        reason = f"about {needed:,} bytes of memory, of {budget:,} that a query may take"
        if needed <= budget:
            return Choice(on_spark=False, reason=reason)
        if not offered("spark").is_configured(self.session, self.master):
            raise ResourceLimitError(
                f"query '{asked.compiled.name}' is estimated to need {reason}",
                resource=QUERY_MEMORY,
                limit=budget,
                actual=needed,
                hint="give it a Spark session or master (OMNIGRAPH_SPARK_MASTER), narrow the "
                "pattern, or try it all the same with engine='local'",
            )
        return Choice(on_spark=True, reason=reason)

    def _prepared(self, acting: Acting) -> tuple[BranchState, ReadQuery]:
        state = acting.state(self.at)
        schema_hash = state.head.schema_hash
        return state, acting.engine.prepare(self.source, self.params, self.name, schema_hash)

    def _on_spark(self, graph: object) -> Result:
        spark = offered("spark")
        at = self.at
        result: Result = spark.query(
            spark.find_session(self.session, self.master),
            graph,
            self.source,
            self.params,
            name=self.name,
            branch=at.branch,
            commit=at.commit,
            version=at.version,
            tag=at.tag,
            timestamp=at.timestamp,
            timeout=self.timeout_s,
            cancel=self.cancel,
        )
        return result

    def _explain_on_spark(self, acting: Acting, graph: object, choice: Choice) -> Explanation:
        _capture, asked = self._prepared(acting)
        begun = time.perf_counter()
        result: Any = self._on_spark(graph)
        rows = result.num_rows
        seconds = time.perf_counter() - begun
        joins = [f"  {note}" for note in result.notes] or ["  none"]
        text = "\n".join([explain(asked.plan), f"engine: spark, {choice.reason}", "joins:", *joins])
        return Explanation(plan=text, stages=(), rows=rows, seconds=seconds, io={})


def _drawn_by(acting: Acting) -> Callable[[Result], Drawing]:
    """Return what draws an answer; it does not keep a graph that is not used any more."""
    asked = weakref.ref(acting)

    def draw(result: Result) -> Drawing:
        handle = asked()
        if handle is None:
            raise BadRequestError("the graph of these rows is gone", hint="open it, and ask again")
        return draw_subgraph(Entities(handle).subgraph(result, commit=result.commit_id))

    return draw
