"""Large loads: files and frames of all types as one commit, here or on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from omnigraph.commits.open_branches import OpenBranch
from omnigraph.errors import BadRequestError, DataError
from omnigraph.extras import active_session, offered
from omnigraph.graph.acting import Acting
from omnigraph.graph.applying import apply_events
from omnigraph.graph.results import LoadResult
from omnigraph.graph.writing import Terms, Writing
from omnigraph.intake.declared import Sources
from omnigraph.intake.inputs import check_sources, find_inputs, held, sources_bytes
from omnigraph.intake.rejects import Rejects
from omnigraph.limits import SPARK_INPUT_BYTES_MIN
from omnigraph.ops.load import LoadMode
from omnigraph.store import measured, reaching
from omnigraph.values.words import BulkWord, LoadWord

ENGINES = ("auto", "local", "spark")


def bulk(
    session: object,
    acting: Acting,
    sources: Sources,
    mode: LoadMode | BulkWord,
    terms: Terms,
    *,
    engine: str,
    allow_rejects: int,
    rejects: str | os.PathLike[str] | None,
    progress: Callable[[Any], None] | None,
    spark: Mapping[str, object],
) -> LoadResult:
    """Load files and frames of a session, which is handed to Spark when that does the work."""
    if engine not in ENGINES:
        raise BadRequestError(f"unknown engine '{engine}'", hint=f"use {', '.join(ENGINES)}")
    sources = held(sources)
    refused = Rejects(allow_rejects, rejects)
    work = Writing(acting, terms)
    given = acting.engine.location.given
    with reaching(given):
        refused.check_path()
    line, created = work.line_or_new()
    before = work.done_before(line, work.request(line), mode)
    if before is not None:
        return before
    check_sources(sources, acting.engine.accepted_schema().catalog)
    with reaching(given):
        on_spark = _on_spark(sources, engine, spark)
    try:
        if on_spark:
            result = _there(session, work, line, sources, mode, refused, progress, spark)
        elif mode == "apply" or mode == "delete":
            result = apply_events(work, line, sources, mode, refused)
        else:
            result = _here(work, line, sources, mode, refused, progress)
    except BaseException:
        # What was wrong with which row is worth most when nothing was loaded.
        with reaching(given):
            refused.write()
        raise
    with reaching(given):
        warning = refused.write()
    return replace(work.told(result, created=created), warning=warning)


def _there(
    session: object,
    work: Writing,
    line: OpenBranch,
    sources: Sources,
    mode: LoadMode | BulkWord,
    refused: Rejects,
    progress: Callable[[Any], None] | None,
    spark: Mapping[str, object],
) -> LoadResult:
    terms = work.terms
    result: LoadResult = offered("spark").load(
        session,
        sources,
        mode=mode,
        branch=line.branch.name,
        expected_head=terms.expected_head,
        operation_id=terms.operation_id,
        message=terms.message,
        actor=terms.actor,
        dry_run=terms.dry_run,
        index=terms.index,
        progress=progress,
        rejected=refused,
        **spark,
    )
    return result


def _on_spark(sources: Sources, engine: str, spark: Mapping[str, object]) -> bool:
    if engine != "auto":
        return engine == "spark"
    if spark.get("session") is not None or spark.get("master") is not None:
        return True
    return active_session() is not None or sources_bytes(sources) >= SPARK_INPUT_BYTES_MIN


def _here(
    work: Writing,
    line: OpenBranch,
    sources: Sources,
    mode: LoadMode | LoadWord,
    refused: Rejects,
    progress: Callable[[int], None] | None,
) -> LoadResult:
    engine = work.acting.engine
    with measured() as io, reaching(engine.location.given):
        request = work.request(line)
        while True:
            schema = engine.accepted_schema()
            load = work.new_load(schema, mode)
            try:
                load.read_inputs(
                    find_inputs(sources, schema.catalog),
                    skip=frozenset(refused.lines),
                    problems_max=refused.problems_max,
                    progress=progress,
                )
                result = work.finish(load, line, schema, request, io)
            except DataError as error:
                refused.take(error, load.line_at, load.only_source)
                continue
            return result.without(refused.count)
