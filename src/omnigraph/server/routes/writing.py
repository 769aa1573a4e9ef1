"""Mutations and loads."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from omnigraph.commits import MAIN
from omnigraph.graph import LoadResult, Session
from omnigraph.policy import Action
from omnigraph.server.call import Call, CallOf
from omnigraph.server.http_errors import HttpProblem
from omnigraph.server.idempotency import Json
from omnigraph.server.json_routes import Sent, topic
from omnigraph.server.responses import json_response
from omnigraph.server.routes.describing import WRITES, answers, deprecated, errors
from omnigraph.values.answers import IngestOutput
from omnigraph.values.headers import IF_COMMIT, NDJSON
from omnigraph.values.requests import ChangeRequest, IngestRequest, Mode
from omnigraph.values.results import MutationResult

router = topic("write")
_NDJSON_BODY = {
    "requestBody": {"required": True, "content": {NDJSON: {"schema": {"type": "string"}}}}
}
IfCommit = Annotated[str, Header(alias=IF_COMMIT, description="The commit expected at the head.")]


@router.post("/mutate", responses=answers(MutationResult) | errors(*WRITES, 412))
async def mutate(call: CallOf, body: Sent[ChangeRequest]) -> Response:
    """Run a mutation as one commit."""
    return json_response(await run_mutation(call, body, expected_head=call.if_commit()))


@router.post("/change", responses=answers(MutationResult) | errors(*WRITES, 412), deprecated=True)
async def change(call: CallOf, body: Sent[ChangeRequest]) -> Response:
    """Run a mutation as one commit, under the older name."""
    answer = await run_mutation(call, body, expected_head=call.if_commit())
    return json_response(answer, headers=deprecated("mutate"))


@router.post("/mutate/if-graph-commit", responses=answers(MutationResult) | errors(*WRITES, 412))
async def mutate_if_commit(
    call: CallOf, body: Sent[ChangeRequest], _expected: IfCommit
) -> Response:
    """Run a mutation if the branch's head is the given commit."""
    expected = call.if_commit(required=True)
    return json_response(await run_mutation(call, body, expected_head=expected))


async def run_mutation(call: Call, body: ChangeRequest, *, expected_head: str | None) -> Json:
    """Ask the policy, write, and return the answer."""
    branch = MAIN if body.branch is None else body.branch
    call.allow(Action.CHANGE, branch=branch)
    message = call.message()

    def work(graph: Session, operation_id: str | None) -> MutationResult:
        return graph.mutate(
            body.query,
            body.params,
            name=body.name,
            branch=branch,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
            dry_run=body.dry_run,
        )

    def tell(result: MutationResult) -> Json:
        call.committed(result.commit, repeated=result.repeated)
        return result.to_json()

    return await call.write(work, tell, trial=body.dry_run)


@router.post("/load", responses=answers(IngestOutput) | errors(*WRITES, 412))
async def load(call: CallOf, body: Sent[IngestRequest]) -> Response:
    """Load entities as one commit; with `from` the branch is made if it is missing."""
    return json_response(await _ingest(call, body))


@router.post("/ingest", responses=answers(IngestOutput) | errors(*WRITES, 412), deprecated=True)
async def ingest(call: CallOf, body: Sent[IngestRequest]) -> Response:
    """Load entities as one commit, under the older name."""
    return json_response(await _ingest(call, body), headers=deprecated("load"))


async def _ingest(call: Call, body: IngestRequest) -> Json:
    answer = await _load(
        call, body.data.encode(), mode=body.mode, branch=body.branch, base=body.from_
    )
    # The oldest clients want a base branch whatever happened.
    base = answer.get("base_branch") or body.from_ or MAIN
    return {"uri": call.uri, **answer, "base_branch": base}


@router.post(
    "/load/ndjson",
    responses=answers(LoadResult) | errors(*WRITES, 412),
    openapi_extra=_NDJSON_BODY,
)
async def load_ndjson(
    call: CallOf,
    request: HttpRequest,
    branch: Annotated[str | None, Query()] = None,
    base: Annotated[str | None, Query(alias="from")] = None,
    mode: Annotated[Mode, Query()] = "merge",
    dry_run: Annotated[bool, Query()] = False,
) -> Response:
    """Load entities sent as they are, one JSON object per line."""
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent != NDJSON:
        raise HttpProblem(415, f"send {NDJSON}", type_="unsupported_media_type")
    answer = await _load(
        call, await request.body(), mode=mode, branch=branch, base=base, dry_run=dry_run
    )
    return json_response(answer)


async def _load(
    call: Call,
    data: bytes,
    *,
    mode: Mode,
    branch: str | None,
    base: str | None,
    dry_run: bool = False,
) -> Json:
    name = MAIN if branch is None else branch
    call.allow(Action.CHANGE, branch=name)
    expected_head, message = call.if_commit(), call.message()

    def work(graph: Session, operation_id: str | None) -> LoadResult:
        return graph.load(
            data,
            mode=mode,
            branch=name,
            create_from=base,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
            dry_run=dry_run,
        )

    def tell(result: LoadResult) -> Json:
        call.committed(result.commit, repeated=result.repeated)
        return result.to_json()

    return await call.write(work, tell, trial=dry_run)
