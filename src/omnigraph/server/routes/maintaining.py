"""The care of a graph: how its tables are doing, optimize, repair, cleanup and recover."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from msgspec.structs import replace
from starlette.responses import Response

from omnigraph.commits import MAIN
from omnigraph.graph import Session
from omnigraph.policy import Action
from omnigraph.server.call import CallOf
from omnigraph.server.idempotency import Json
from omnigraph.server.json_routes import Sent, topic
from omnigraph.server.responses import json_response
from omnigraph.server.routes.describing import answers, errors
from omnigraph.values.answers import RecoverOutput, TableList
from omnigraph.values.reports import CleanupReport, OptimizeReport, RepairReport
from omnigraph.values.requests import CleanupRequest, OptimizeRequest, RepairRequest

router = topic("maintenance")
_FAILURES = errors(400, 404, 409, 413, 415, 429, 503)


@router.get("/tables", responses=answers(TableList) | errors(400, 404))
async def tables(call: CallOf, branch: Annotated[str | None, Query()] = None) -> Response:
    """Tell how the tables of a branch are doing: rows, files, bytes, what indexes cover."""
    name = MAIN if branch is None else branch
    call.allow_read(name)
    health = await call.read(lambda graph: graph.maintenance.tables(name))
    return json_response(TableList(tables=tuple(health)).to_json())


@router.post("/optimize", responses=answers(OptimizeReport) | _FAILURES)
async def optimize(call: CallOf, body: Sent[OptimizeRequest]) -> Response:
    """Compact small fragments and index every row, or tell what that would do."""
    call.allow(Action.ADMIN)
    branch = MAIN if body.branch is None else body.branch

    def work(graph: Session, _operation_id: str | None) -> OptimizeReport:
        return replace(graph.optimize(branch, dry_run=body.dry_run), uri=call.uri)

    def tell(report: OptimizeReport) -> Json:
        call.committed(report.commit)
        return report.to_json()

    return json_response(await call.write(work, tell, trial=body.dry_run, lasting=True))


@router.post("/repair", responses=answers(RepairReport) | _FAILURES)
async def repair(call: CallOf, body: Sent[RepairRequest]) -> Response:
    """Find tables that another program moved; without confirm nothing is changed."""
    call.allow(Action.ADMIN)
    branch = MAIN if body.branch is None else body.branch

    def work(graph: Session, _operation_id: str | None) -> RepairReport:
        report = graph.repair(branch, confirm=body.confirm, force=body.force, discard=body.discard)
        return replace(report, uri=call.uri)

    def tell(report: RepairReport) -> Json:
        call.committed(report.commit)
        return report.to_json()

    return json_response(await call.write(work, tell, trial=not body.confirm, lasting=True))


@router.post("/cleanup", responses=answers(CleanupReport) | _FAILURES)
async def cleanup(call: CallOf, body: Sent[CleanupRequest]) -> Response:
    """Remove old versions and the files only they used; by default only tell which."""
    call.allow(Action.ADMIN)

    def work(graph: Session, _operation_id: str | None) -> CleanupReport:
        report = graph.cleanup(
            keep=body.keep_versions, older_than=body.older_than_secs, dry_run=body.dry_run
        )
        return replace(report, uri=call.uri)

    answer = await call.write(
        work, lambda report: report.to_json(), trial=body.dry_run, lasting=True
    )
    return json_response(answer)


@router.post("/recover", responses=answers(RecoverOutput) | _FAILURES)
async def recover(call: CallOf) -> Response:
    """Resolve every interrupted write now; a write that is still under way is left alone."""
    call.allow(Action.ADMIN)

    def work(graph: Session, _operation_id: str | None) -> RecoverOutput:
        return RecoverOutput(resolved=tuple(graph.maintenance.recover()))

    return json_response(await call.write(work, lambda output: output.to_json(), lasting=True))
