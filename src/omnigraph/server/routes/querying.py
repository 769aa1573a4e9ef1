"""Read queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, TypeVar

from starlette.responses import Response

from omnigraph.commits import MAIN
from omnigraph.graph import Result, Session
from omnigraph.read import QueryControl
from omnigraph.server.call import Call, CallOf, state_of
from omnigraph.server.json_routes import Sent, topic
from omnigraph.server.responses import (
    Begun,
    Check,
    begin,
    csv_chunks,
    json_response,
    ndjson_chunks,
    parquet_chunks,
    result_chunks,
    result_json,
    result_lines,
    streamed,
)
from omnigraph.server.routes.describing import READS, Responses, answers, deprecated, errors
from omnigraph.server.routes.states import allow_state
from omnigraph.values.answers import ReadOutput, Target
from omnigraph.values.headers import ARROW, CSV, JSON, NDJSON, PARQUET
from omnigraph.values.requests import QueryRequest, ReadRequest
from omnigraph.values.results import Explanation
from omnigraph.values.schemas import ref

router = topic("query")
T = TypeVar("T")

_STREAMS: dict[str, Callable[[Result, Check], Iterator[bytes]]] = {
    ARROW: lambda result, _check: result_chunks(result),
    NDJSON: lambda result, check: ndjson_chunks(result_lines(result, check)),
    PARQUET: lambda result, _check: parquet_chunks(result.to_arrow()),
    CSV: csv_chunks,
}
_FORMS: Responses = {
    200: {
        "description": "Rows.",
        "content": {
            JSON: {"schema": ref(ReadOutput)},
            ARROW: {"schema": {"type": "string", "contentMediaType": ARROW}},
            NDJSON: {"schema": {"type": "string"}},
            PARQUET: {"schema": {"type": "string", "contentMediaType": PARQUET}},
            CSV: {"schema": {"type": "string"}},
        },
    }
}


@router.post("/query", responses=_FORMS | errors(*READS))
async def query(call: CallOf, body: Sent[QueryRequest]) -> Response:
    """Run a read query; the Accept header chooses JSON, JSON lines, Arrow, Parquet or CSV."""
    return await run_query(call, body)


@router.post("/read", responses=answers(ReadOutput) | errors(*READS), deprecated=True)
async def read(call: CallOf, body: Sent[ReadRequest]) -> Response:
    """Run a read query, under the older name."""
    asked = QueryRequest(
        query=body.query_source,
        name=body.query_name,
        params=body.params,
        branch=body.branch,
        snapshot=body.snapshot,
    )
    answered = await answer(call, asked, _whole(call))
    del answered["graph_commit_id"]
    return json_response(answered, headers=deprecated("query"))


async def run_query(call: Call, asked: QueryRequest) -> Response:
    """Run a query and answer in the form the caller accepts."""
    if asked.explain:
        return await _explained(call, asked)
    form = call.accepted(JSON, *_STREAMS).media_type
    if form != JSON:
        make, files = _STREAMS[form], call.service.files

        def first_parts(result: Result, _check: Check) -> Begun:
            # What is streamed later has no limit of time: it is made as fast as it is taken.
            return begin(make(files.out_of_memory(result), _unlimited))

        begun = await answer(call, asked, first_parts)
        return streamed(call.service.threads, begun, media_type=form)
    whole = _whole(call)
    if asked.form != "rows":
        return json_response(await _described(call, asked, whole))
    return await answer(call, asked, lambda result, check: json_response(whole(result, check)))


async def _described(
    call: Call, asked: QueryRequest, whole: Callable[[Result, Check], dict[str, object]]
) -> dict[str, object]:
    """Return rows with what their columns hold, and the picture of them if that is wanted."""

    def form(result: Result, check: Check) -> tuple[Result, dict[str, object]]:
        return result, whole(result, check) | {"column_types": result.column_types}

    result, body = await answer(call, asked, form)
    if asked.form == "graph":
        picture = await call.read(
            lambda graph: graph.entities.subgraph(
                result, branch=result.target["branch"], commit=result.commit_id
            )
        )
        body["graph"] = picture.to_json()
    return body


def _unlimited() -> None:
    """Let a stream go on: it ends when its reader does."""


def _whole(call: Call) -> Callable[[Result, Check], dict[str, object]]:
    """Return what makes one JSON answer of a result, within the server's limits."""
    settings = call.service.settings
    return partial(
        result_json,
        ints=_ints(call),
        rows_max=settings.result_rows_max,
        bytes_max=settings.result_bytes_max,
    )


async def answer(call: Call, asked: QueryRequest, form: Callable[[Result, Check], T]) -> T:
    """Ask the policy, run the query and give its result a form; hanging up stops both."""
    state = await _state(call, asked)

    def ask(graph: Session, running: QueryControl) -> Result:
        return graph.query(
            asked.query,
            asked.params,
            name=asked.name,
            timeout=running.timeout_s,
            cancel=running.cancel,
            **state,
        )

    def formed(result: Result, running: QueryControl) -> T:
        if asked.snapshot is not None:
            result.target = {"branch": None, "snapshot": asked.snapshot}
        return form(result, running.check)

    return await call.query(ask, call.job(asked, state), formed, timeout_s=asked.timeout)


async def _state(call: Call, asked: QueryRequest) -> dict[str, Any]:
    """Return the state to read, if the policy allows it."""
    branch, commit, version = state_of(asked.branch, asked.snapshot)
    await allow_state(call, branch=branch, commit=commit, tag=asked.tag)
    return {
        "branch": branch,
        "commit": commit,
        "version": version if version is not None else asked.version,
        "tag": asked.tag,
        "timestamp": asked.timestamp,
    }


async def _explained(call: Call, asked: QueryRequest) -> Response:
    state = await _state(call, asked)

    def ask(graph: Session, running: QueryControl) -> Explanation:
        return graph.explain(
            asked.query,
            asked.params,
            name=asked.name,
            timeout=running.timeout_s,
            cancel=running.cancel,
            **state,
        )

    def formed(explanation: Explanation, _running: QueryControl) -> dict[str, object]:
        snapshot = asked.snapshot
        branch = None if snapshot else state["branch"] or MAIN
        return ReadOutput(
            query_name=asked.name or "",
            target=Target(branch=branch, snapshot=snapshot),
            row_count=explanation.rows,
            rows=[],
            explain=explanation,
        ).to_json()

    job = call.job(asked, state, explain=True)
    return json_response(await call.query(ask, job, formed, timeout_s=asked.timeout))


def _ints(call: Call) -> Literal["number", "string"]:
    wanted = call.accepted(JSON).parameters.get("ints")
    return "string" if wanted == "string" else "number"
