"""Applies events of change data capture to a graph, and deletes by key."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.catalog import Catalog
from omnigraph.commits.open_branches import OpenBranch
from omnigraph.errors import BadRequestError
from omnigraph.graph.results import LoadResult
from omnigraph.graph.writing import Writing
from omnigraph.intake.events import EventFrame
from omnigraph.intake.inputs import Input, Sources, as_arrow, find_inputs
from omnigraph.ops.row_events import RowEvents
from omnigraph.rows.embeddings import Embeddings
from omnigraph.store import measured, reaching, readable

APPLY = "apply"
DELETE = "delete"
MODES = (APPLY, DELETE)


def apply_events(work: Writing, line: OpenBranch, sources: Sources, mode: str) -> LoadResult:
    """Apply the events of all sources as one commit; None is made if nothing changes."""
    engine, terms = work.acting.engine, work.terms
    with measured() as io, reaching(engine.location.given):
        request = work.request(line)
        schema = engine.accepted_schema()
        events = RowEvents(schema, new_ids=engine.ids.run, embeddings=Embeddings(engine.embedder))
        items = event_inputs(sources, schema.catalog)
        labels = list(dict.fromkeys(item.label for item in items))
        source = labels[0] if len(labels) == 1 else "the input"
        frames = [_events(item, mode, several=len(labels) > 1) for item in items]
        events.take(frames, source)
        commit = changes = None
        if terms.dry_run:
            line.writer.prepare_only(events, request, schema)
        else:
            commit, changes = line.writer.run(events, request, schema)
            work.acting.settle(line, commit, changes, fold=terms.index)
    return LoadResult(
        mode=mode,
        nodes=events.counts("node"),
        edges=events.counts("edge"),
        commit=commit,
        branch=line.branch.name,
        repeated=commit is not None and changes is None,
        actor_id=request.actor_id,
        dry_run=terms.dry_run,
        io=dict(io),
    )


def event_inputs(sources: Sources, catalog: Catalog) -> list[Input]:
    """Return the files and frames of events, all of which have a type."""
    found = find_inputs(sources, catalog)
    for item in found:
        if item.entity is None or item.form == "csv":
            raise BadRequestError(
                f"{item.label}: events are rows of Parquet files or frames, by type"
            )
    return found


def _events(item: Input, mode: str, *, several: bool) -> EventFrame:
    """Return a file or a frame as events."""
    frame = item.renamed(_frame(item))
    if item.entity is None:
        raise BadRequestError(f"{item.label}: events have a type")
    return EventFrame(
        entity=item.entity,
        frame=frame,
        lines=range(1, frame.num_rows + 1),
        from_col=item.from_col,
        to_col=item.to_col,
        op_col=item.op_col if mode == APPLY else None,
        seq_col=item.seq_col,
        file=item.label if several else None,
    )


def _frame(item: Input) -> Any:
    if item.form == "frame":
        return as_arrow(item.data)
    try:
        return pq.read_table(readable(item.path))
    except pa.ArrowInvalid as error:
        raise BadRequestError(f"{item.path} is no Parquet file: {error}") from error
