"""Applies events of change data capture to a graph, and deletes by key."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.commits.open_branches import OpenBranch
from omnigraph.errors import BadRequestError
from omnigraph.graph.results import LoadResult
from omnigraph.graph.writing import Writing
from omnigraph.intake.inputs import Input, Sources, as_arrow, find_inputs
from omnigraph.ops.row_events import EventFrame, RowEvents
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
        by_type: dict[str, list[Input]] = {}
        for item in find_inputs(sources, schema.catalog):
            if item.entity is None or item.form == "csv":
                raise BadRequestError(
                    f"{item.label}: events are rows of Parquet files or frames, by type"
                )
            by_type.setdefault(item.entity.table_key, []).append(item)
        for items in by_type.values():
            events.take(_events(items, mode), items[0].label)
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


def _events(items: list[Input], mode: str) -> EventFrame:
    """Return the files or the frame of one type as its events, in the order of the input."""
    first = items[0]
    frame = pa.concat_tables([item.renamed(_frame(item)) for item in items])
    if first.entity is None:
        raise BadRequestError(f"{first.label}: events have a type")
    return EventFrame(
        entity=first.entity,
        frame=frame,
        lines=range(1, frame.num_rows + 1),
        from_col=first.from_col,
        to_col=first.to_col,
        op_col=first.op_col if mode == APPLY else None,
        seq_col=first.seq_col,
    )


def _frame(item: Input) -> Any:
    if item.form == "frame":
        return as_arrow(item.data)
    try:
        return pq.read_table(readable(item.path))
    except pa.ArrowInvalid as error:
        raise BadRequestError(f"{item.path} is no Parquet file: {error}") from error
