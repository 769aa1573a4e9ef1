"""Applies events of change data capture to a graph, and deletes by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from omnigraph.catalog import AcceptedSchema, Catalog
from omnigraph.commits import Request
from omnigraph.commits.open_branches import OpenBranch
from omnigraph.errors import BadRequestError, DataError
from omnigraph.graph.results import LoadResult
from omnigraph.graph.writing import Writing
from omnigraph.intake.declared import Sources
from omnigraph.intake.event_records import event_frame
from omnigraph.intake.events import EventFrame
from omnigraph.intake.input_reader import Places
from omnigraph.intake.inputs import Input, find_inputs
from omnigraph.intake.record_chunks import record_chunks
from omnigraph.intake.rejects import Rejects
from omnigraph.ops.row_events import RowEvents
from omnigraph.rows import Problems
from omnigraph.rows.embeddings import Embeddings
from omnigraph.store import measured, reaching

APPLY = "apply"
DELETE = "delete"
MODES = (APPLY, DELETE)


def apply_events(
    work: Writing, line: OpenBranch, sources: Sources, mode: str, refused: Rejects
) -> LoadResult:
    """Apply the events of all sources as one commit; None is made if nothing changes."""
    with measured() as io, reaching(work.acting.engine.location.given):
        request = work.request(line)
        while True:
            schema = work.acting.engine.accepted_schema()
            items = event_inputs(sources, schema.catalog)
            labels = list(dict.fromkeys(item.label for item in items))
            places = Places(labels)
            try:
                result = _applied(work, line, request, schema, items, places, mode, refused)
            except DataError as error:
                refused.take(error, places.lines, labels[0] if len(labels) == 1 else None)
                continue
            return replace(result, io=dict(io)).without(refused.count)


def _applied(
    work: Writing,
    line: OpenBranch,
    request: Request,
    schema: AcceptedSchema,
    items: Sequence[Input],
    places: Places,
    mode: str,
    refused: Rejects,
) -> LoadResult:
    engine, terms = work.acting.engine, work.terms
    events = RowEvents(schema, new_ids=engine.ids.run, embeddings=Embeddings(engine.embedder))
    source = "the input" if places.several or not items else items[0].label
    problems = Problems(source=source, limit=refused.problems_max)
    problems.place_of = places.of
    frames = [frame for item in items for frame in _events(item, mode, problems, places, refused)]
    problems.raise_any()
    events.take(frames, source, places.of, refused.problems_max)
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
    )


def event_inputs(sources: Sources, catalog: Catalog) -> list[Input]:
    """Return the files and frames of events, all of which have a type."""
    inputs = find_inputs(sources, catalog)
    for item in inputs:
        if item.entity is None:
            raise BadRequestError(f"{item.label}: events are given by type, not as envelopes")
    return inputs


def _events(
    item: Input, mode: str, problems: Problems, places: Places, refused: Rejects
) -> Iterator[EventFrame]:
    """Yield a file or a frame as events, without those that are left out.

    What is wrong with its records goes to `problems`.
    """
    file = item.label if places.several else None
    offset = places.enter(item.label)
    gone = refused.lines
    skip = (lambda line: offset + line in gone) if gone else None
    for chunk in record_chunks(item, skip=skip, problems_max=refused.problems_max):
        places.leave(chunk.lines)
        chunk_problems = chunk.problems
        frame = event_frame(
            item.entity, item.reading, chunk.records, chunk_problems, applies=mode == APPLY
        )
        shifted = Problems(limit=chunk_problems.limit)
        for problem in chunk_problems.items:
            at = None if problem.line is None else problem.line + offset
            shifted.add(replace(problem, line=at))
        shifted.count = chunk_problems.count
        problems.take(shifted, file=file)
        yield replace(frame, file=file, lines=[at + offset for at in frame.lines])
