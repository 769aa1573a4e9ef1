"""Loads large inputs on Spark as one validated commit.

Workers parse, type and write; the driver plans, decides and publishes. Rows of files never pass
through Java or the driver. Nothing is visible before the one commit at the end, and what a failed
load leaves behind are files that nothing refers to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.catalog import AcceptedSchema
from omnigraph.errors import DataError
from omnigraph.graph import LoadResult, Session, open_graph
from omnigraph.graph.applying import MODES
from omnigraph.graph.seam import check_writable, load_staged, reach, scratch_folder
from omnigraph.graph.writing import Terms
from omnigraph.intake.declared import Rows, Sources
from omnigraph.intake.rejects import Rejects
from omnigraph.ops.load import LoadMode
from omnigraph.spark.apply import SparkEvents
from omnigraph.spark.engine import Engine
from omnigraph.spark.jobs import stopped_with
from omnigraph.spark.operation import SparkLoad
from omnigraph.spark.progress import Reporter, Stage
from omnigraph.spark.session import find_session
from omnigraph.spark.tasks import Job, Tuning
from omnigraph.store import reaching, remove_folder
from omnigraph.values.words import BulkWord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.embed import Embedder


def load(
    graph: Session,
    sources: Sources,
    *,
    mode: LoadMode | str,
    branch: str = "main",
    session: SparkSession | None = None,
    master: str | None = None,
    scratch: str | os.PathLike[str] | None = None,
    expected_head: str | None = None,
    operation_id: str | None = None,
    message: str | None = None,
    actor: str | None = None,
    dry_run: bool = False,
    index: bool = True,
    tuning: Tuning | None = None,
    rejected: Rejects | None = None,
    progress: Callable[[Stage], None] | None = None,
) -> LoadResult:
    """Load nodes and edges on Spark as one atomic commit; nothing is written if anything is wrong.

    `Graph.bulk` explains the common arguments. Executors must reach the folder of the graph, the
    files and `scratch` (by default a folder beside the tables) by the same names. `session` is the
    one to use; else it is the active one, else a new one at `master`, such as `local[4,4]` or
    `spark://host:7077`. `tuning` says at which sizes work is divided. `progress` is called with
    each stage, while it runs and at its end.
    """
    begun = time.monotonic()
    parsed_mode = str(mode) if mode in MODES else LoadMode.parse(mode)
    check_writable(graph)
    refused = rejected or Rejects()
    engine = Engine(find_session(session, master), reach(graph))
    folder = scratch_folder(graph, scratch, shared=not engine.is_local)
    reader = _Reader(
        engine=engine,
        sources=sources,
        mode=parsed_mode,
        folder=folder,
        place=str(graph.uri),
        tuning=tuning or Tuning(),
        refused=refused,
        progress=progress,
    )
    terms = Terms(
        branch=branch,
        expected_head=expected_head,
        operation_id=operation_id,
        message=message,
        actor=actor,
        dry_run=dry_run,
        index=index,
    )
    if progress is not None:
        progress(Stage(name="start", seconds=time.monotonic() - begun, finished=True))
    try:
        with stopped_with(engine.session):
            return _loaded(graph, reader, str(mode), terms)
    finally:
        with reaching(reach(graph)):
            remove_folder(folder)


def _loaded(graph: Session, reader: _Reader, mode: str, terms: Terms) -> LoadResult:
    while True:
        try:
            result = load_staged(graph, reader.read, mode, terms)
        except DataError as error:
            reader.leave_out(error)
            continue
        reader.published(result)
        return result.without(reader.refused.count)


def write(
    frame: DataFrame,
    uri: str | os.PathLike[str],
    type: str,
    *,
    mode: LoadMode | BulkWord,
    from_col: str = "from",
    to_col: str = "to",
    columns: Mapping[str, str] | None = None,
    op_col: str = "op",
    seq_col: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> LoadResult:
    """Write a Spark frame to one type of a graph, as one commit; `options` are those of `load`."""
    rows = Rows(
        data=frame,
        columns=columns or {},
        from_col=from_col,
        to_col=to_col,
        op_col=op_col,
        seq_col=seq_col,
    )
    options.setdefault("session", frame.sparkSession)
    with open_graph(uri, storage_options=storage_options) as graph:
        return load(graph, {type: rows}, mode=mode, **options)


def write_batches(
    uri: str | os.PathLike[str],
    make: Callable[[DataFrame], Mapping[str, object]],
    *,
    mode: LoadMode | BulkWord,
    name: str,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> Callable[[DataFrame, int], None]:
    """Return what `foreachBatch` calls: each batch of a stream is one commit of several types.

    `make` turns a batch into frames by type, as `Graph.bulk` takes them. `name` tells this stream
    from all others that write to the graph, for ever: a batch that Spark repeats is recognised by
    it and its number. `options` are those of `Graph.bulk`.
    """

    def write_batch(frame: DataFrame, number: int) -> None:
        with open_graph(uri, storage_options=storage_options) as graph:
            graph.bulk(
                make(frame),
                mode=mode,
                operation_id=f"{name}:{number}",
                engine="spark",
                session=frame.sparkSession,
                **options,
            )

    return write_batch


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reads the input, and again without the rows that may be left out."""

    engine: Engine
    sources: Sources
    mode: LoadMode | str
    folder: str
    place: str
    tuning: Tuning
    refused: Rejects
    progress: Callable[[Stage], None] | None
    held: SparkLoad | SparkEvents | None = None
    schema: AcceptedSchema | None = None

    def read(self, schema: AcceptedSchema, embedder: Embedder | None) -> SparkLoad | SparkEvents:
        """Return the load with its input read."""
        if self.held is not None and self.schema == schema:
            self.held.leave_out(self.refused.lines)
            return self.held
        job = Job(
            schema=schema,
            scratch=self.folder,
            embedder=embedder,
            problems_max=self.refused.problems_max,
        )
        self.schema = schema
        reporter = Reporter(self.engine.session, self.progress)
        if isinstance(self.mode, LoadMode):
            self.held = SparkLoad(
                self.engine,
                job,
                self.mode,
                tuning=self.tuning,
                reporter=reporter,
                keeps_frames=self.refused.allowed > 0,
            )
        else:
            self.held = SparkEvents(
                self.engine,
                job,
                self.mode,
                self.place,
                tuning=self.tuning,
                reporter=reporter,
                keeps_frames=self.refused.allowed > 0,
            )
        with reaching(self.engine.given):
            self.held.read(self.sources)
        return self.held

    def leave_out(self, error: DataError) -> None:
        """Remember the rows an error names; raise it if they may not be left out."""
        if self.held is None:
            raise error
        self.refused.take(error, self.held.line_at, self.held.only_source)

    def published(self, result: LoadResult) -> None:
        """Report the last stage, which is short whatever the number of rows."""
        if self.progress is not None and self.held is not None and not result.dry_run:
            seconds = time.monotonic() - self.held.staged_at
            rows = result.total_entities
            self.progress(Stage(name="publish", seconds=seconds, rows=rows, finished=True))
