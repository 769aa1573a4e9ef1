"""Runs a query to tell how it ran."""

from __future__ import annotations

import threading
import time

from omnigraph.graph.acting import Acting
from omnigraph.graph.api import Params
from omnigraph.graph.explanation import Explanation
from omnigraph.graph.targets import At
from omnigraph.plan import explain
from omnigraph.read import Running
from omnigraph.store import measured


def explained(
    acting: Acting,
    source: str,
    params: Params,
    name: str | None,
    at: At,
    *,
    timeout: float | None,
    cancel: threading.Event | None,
) -> Explanation:
    """Run a read query on a state; return its plan, and rows, time and storage calls by step."""
    running = Running(timeout_s=timeout, cancel=cancel, trace=True)
    with measured() as io:
        capture = acting.state(at)
        begun = time.perf_counter()
        compiled, table = acting.engine.run(source, params, name, capture, running)
        seconds = time.perf_counter() - begun
    return Explanation(
        plan=explain(compiled.plan),
        stages=tuple(running.stages),
        rows=table.num_rows,
        seconds=seconds,
        io=dict(io),
    )
