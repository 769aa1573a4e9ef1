"""Stored queries."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from omnigraph.cluster import StoredQuery
from omnigraph.errors import BadRequestError, NotFoundError, PolicyDeniedError
from omnigraph.policy import Action
from omnigraph.server.call import Call, CallOf
from omnigraph.server.json_routes import Sent, topic
from omnigraph.server.responses import json_response
from omnigraph.server.routes.describing import WRITES, answers, errors
from omnigraph.server.routes.querying import run_query
from omnigraph.server.routes.writing import IfCommit, run_mutation
from omnigraph.values.answers import QueryList, ReadOutput
from omnigraph.values.requests import ChangeRequest, InvokeRequest, QueryRequest
from omnigraph.values.results import MutationResult

router = topic("stored queries")


@router.get("/queries", responses=answers(QueryList) | errors(404))
async def list_queries(call: CallOf) -> Response:
    """List the stored queries."""
    call.allow_read()
    queries = call.served.queries
    return json_response({"queries": [queries[name].to_json() for name in sorted(queries)]})


@router.post(
    "/queries/{name}",
    responses=answers(ReadOutput, MutationResult) | errors(*WRITES, 406, 410, 412),
)
async def invoke(call: CallOf, name: str, asked: Sent[InvokeRequest]) -> Response:
    """Run a stored query by its name."""
    stored = _find(call, name)
    _check(stored, asked)
    if stored.mutation:
        expected = call.if_commit()
        return json_response(
            await run_mutation(call, _change(stored, asked), expected_head=expected)
        )
    read = QueryRequest(
        query=stored.source,
        name=stored.name,
        params=asked.params,
        branch=asked.branch,
        snapshot=asked.snapshot,
    )
    return await run_query(call, read)


@router.post(
    "/queries/{name}/if-graph-commit", responses=answers(MutationResult) | errors(*WRITES, 412)
)
async def invoke_if_commit(
    call: CallOf, name: str, _expected: IfCommit, asked: Sent[InvokeRequest]
) -> Response:
    """Run a stored mutation if the branch's head is the given commit."""
    stored = _find(call, name)
    _check(stored, asked)
    if not stored.mutation:
        raise BadRequestError(f"'{name}' only reads; a condition makes no sense for it")
    expected = call.if_commit(required=True)
    return json_response(await run_mutation(call, _change(stored, asked), expected_head=expected))


def _find(call: Call, name: str) -> StoredQuery:
    """Return a stored query; one the caller may not run is answered as one that is not there."""
    unknown = NotFoundError(f"no stored query '{name}'")
    try:
        call.allow(Action.INVOKE_QUERY)
    except PolicyDeniedError:
        raise unknown from None
    query = call.served.queries.get(name)
    if query is None:
        raise unknown
    return query


def _check(stored: StoredQuery, asked: InvokeRequest) -> None:
    if stored.mutation and asked.snapshot is not None:
        raise BadRequestError(f"'{stored.name}' writes; it cannot run on a snapshot")
    if asked.dry_run and not stored.mutation:
        raise BadRequestError(f"'{stored.name}' only reads; there is nothing to try")
    if asked.expect_mutation is not None and asked.expect_mutation != stored.mutation:
        does = "writes" if stored.mutation else "only reads"
        raise BadRequestError(f"'{stored.name}' {does}, which is not what was expected")


def _change(stored: StoredQuery, asked: InvokeRequest) -> ChangeRequest:
    fields: dict[str, Any] = {"query": stored.source, "name": stored.name}
    fields |= {"params": asked.params, "branch": asked.branch, "dry_run": asked.dry_run}
    return ChangeRequest(**fields)
