"""Read queries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Literal, TypeVar

from starlette.responses import Response

from omnigraph.commits import MAIN
from omnigraph.graph import Result, Session
from omnigraph.server.call import Call, CallOf, state_of
from omnigraph.server.json_routes import Sent, topic
from omnigraph.server.responses import (
    begin,
    json_response,
    ndjson_chunks,
    result_chunks,
    result_lines,
    streamed,
)
from omnigraph.server.routes.describing import Responses, answers, deprecated, errors
from omnigraph.server.routes.states import allow_state
from omnigraph.values.answers import ReadOutput, Target
from omnigraph.values.headers import ARROW, JSON, NDJSON
from omnigraph.values.requests import QueryRequest, ReadRequest
from omnigraph.values.schemas import ref

router = topic("query")
T = TypeVar("T")

_STREAMS: dict[str, Callable[[Result], Iterator[bytes]]] = {
    ARROW: result_chunks,
    NDJSON: lambda result: ndjson_chunks(result_lines(result)),
}
_FORMS: Responses = {
    200: {
        "description": "Rows.",
        "content": {
            JSON: {"schema": ref(ReadOutput)},
            ARROW: {"schema": {"type": "string", "contentMediaType": ARROW}},
            NDJSON: {"schema": {"type": "string"}},
        },
    }
}


@router.post("/query", responses=_FORMS | errors(400, 404, 410, 413))
async def query(call: CallOf, body: Sent[QueryRequest]) -> Response:
    """Run a read query; the Accept header chooses JSON, JSON lines or an Arrow stream."""
    return await run_query(call, body)


@router.post("/read", responses=answers(ReadOutput) | errors(400, 404, 410, 413), deprecated=True)
async def read(call: CallOf, body: Sent[ReadRequest]) -> Response:
    """Run a read query, under the older name."""
    asked = QueryRequest(
        query=body.query_source,
        name=body.query_name,
        params=body.params,
        branch=body.branch,
        snapshot=body.snapshot,
    )
    ints = _ints(call)
    answered = await answer(call, asked, lambda result: result.to_json(ints=ints))
    del answered["graph_commit_id"]
    return json_response(answered, headers=deprecated("query"))


async def run_query(call: Call, asked: QueryRequest) -> Response:
    """Run a query and answer in the form the caller accepts."""
    accept = call.request.headers.get("accept", "")
    if asked.explain:
        return await _explained(call, asked)
    form = next((name for name in _STREAMS if name in accept), None)
    if form is not None:
        make = _STREAMS[form]
        begun = await answer(call, asked, lambda result: begin(make(result)))
        return streamed(call.service.threads, begun, media_type=form)
    ints = _ints(call)
    return await answer(call, asked, lambda result: json_response(result.to_json(ints=ints)))


async def answer(call: Call, asked: QueryRequest, form: Callable[[Result], T]) -> T:
    """Ask the policy, run the query and give its result a form; hanging up stops it."""
    branch, commit, version = state_of(asked.branch, asked.snapshot)
    await allow_state(call, branch=branch, commit=commit, tag=asked.tag)
    limit_s = call.service.settings.query_seconds_max
    timeout_s = limit_s if asked.timeout is None else min(asked.timeout, limit_s)

    def work(graph: Session, cancel: threading.Event) -> T:
        result = graph.query(
            asked.query,
            asked.params,
            name=asked.name,
            branch=branch,
            commit=commit,
            version=version if version is not None else asked.version,
            tag=asked.tag,
            timestamp=asked.timestamp,
            timeout=timeout_s,
            cancel=cancel,
        )
        if asked.snapshot is not None:
            result.target = {"branch": None, "snapshot": asked.snapshot}
        return form(result)

    return await call.cancellable(work)


async def _explained(call: Call, asked: QueryRequest) -> Response:
    branch, commit, version = state_of(asked.branch, asked.snapshot)
    await allow_state(call, branch=branch, commit=commit, tag=asked.tag)

    def work(graph: Session) -> dict[str, object]:
        found = graph.explain(
            asked.query,
            asked.params,
            name=asked.name,
            branch=branch,
            commit=commit,
            version=version if version is not None else asked.version,
            tag=asked.tag,
            timestamp=asked.timestamp,
        )
        snapshot = asked.snapshot
        target = Target(branch=None if snapshot else branch or MAIN, snapshot=snapshot)
        return ReadOutput(
            query_name=asked.name or "",
            target=target,
            row_count=found.rows,
            rows=[],
            explain=found,
        ).to_json()

    return json_response(await call.read(work))


def _ints(call: Call) -> Literal["number", "string"]:
    accept = call.request.headers.get("accept", "").replace(" ", "")
    return "string" if f"{JSON};ints=string" in accept else "number"
