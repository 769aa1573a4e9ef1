"""Applies events of change data capture to a graph, and deletes by key."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from omnigraph.catalog import Catalog
from omnigraph.commits.open_branches import OpenBranch
from omnigraph.errors import BadRequestError
from omnigraph.graph.results import LoadResult
from omnigraph.graph.writing import Writing
from omnigraph.intake.declared import Sources
from omnigraph.intake.event_records import event_frame
from omnigraph.intake.events import EventFrame
from omnigraph.intake.inputs import Input, find_inputs
from omnigraph.intake.record_chunks import record_chunks
from omnigraph.ops.row_events import RowEvents
from omnigraph.rows import Problems
from omnigraph.rows.embeddings import Embeddings
from omnigraph.store import measured, reaching

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
        problems = Problems(source=source)
        frames = [
            frame
            for item in items
            for frame in _events(item, mode, problems, several=len(labels) > 1)
        ]
        problems.raise_any()
        events.take(frames, source)
        commit = changes = None
        if terms.dry_run:
            line.writer.prepare_only(events, request, schema)
        else:
            commit, changes = line.writer.run(events, request, schema)
            work.acting.after_commit(line, commit, changes, compact_tails=terms.index)
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
        if item.entity is None:
            raise BadRequestError(f"{item.label}: events are given by type, not as envelopes")
    return found


def _events(item: Input, mode: str, problems: Problems, *, several: bool) -> Iterator[EventFrame]:
    """Yield a file or a frame as events; what is wrong with its records goes to `problems`."""
    file = item.label if several else None
    for chunk in record_chunks(item):
        found = chunk.problems
        frame = event_frame(item.entity, item.reading, chunk.records, found, applies=mode == APPLY)
        problems.take(found, file=file)
        yield replace(frame, file=file)
