"""Loads of Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from fastapi import Query
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from omnigraph.commits import MAIN
from omnigraph.errors import BadRequestError, DataError
from omnigraph.graph import LoadResult, Session
from omnigraph.intake.parquet_files import parquet_content, parquet_rows
from omnigraph.limits import PARQUET_ROWS_BYTES_MAX
from omnigraph.policy import Action
from omnigraph.server.call import CallOf
from omnigraph.server.http_errors import HttpProblem
from omnigraph.server.idempotency import Json
from omnigraph.server.json_routes import topic
from omnigraph.server.responses import json_response
from omnigraph.server.routes.describing import WRITES, answers, errors
from omnigraph.values.answers import ParquetContent
from omnigraph.values.headers import PARQUET
from omnigraph.values.requests import Mode
from omnigraph.wording import counted

router = topic("write")
_FILE = {
    "requestBody": {
        "required": True,
        "content": {PARQUET: {"schema": {"type": "string", "contentMediaType": PARQUET}}},
    }
}
Branch = Annotated[str | None, Query()]
Columns = Annotated[
    str | None,
    Query(description="A JSON object: which columns of the file become which properties."),
]
Skip = Annotated[
    str | None, Query(description="Rows to leave out: their numbers from 1, with commas.")
]


@router.post(
    "/load/parquet", responses=answers(LoadResult) | errors(*WRITES, 412), openapi_extra=_FILE
)
async def load_parquet(
    call: CallOf,
    request: HttpRequest,
    type_name: Annotated[str, Query(alias="type")],
    columns: Columns = None,
    skip: Skip = None,
    from_col: Annotated[str, Query()] = "from",
    to_col: Annotated[str, Query()] = "to",
    branch: Branch = None,
    mode: Annotated[Mode, Query()] = "merge",
    dry_run: Annotated[bool, Query()] = False,
) -> Response:
    """Load a Parquet file whose rows are of one type; problems name rows by their number in it."""
    name = MAIN if branch is None else branch
    call.allow(Action.CHANGE, branch=name)
    content = await _file(request)
    chosen, left_out = _columns(columns), _numbers(skip)
    expected_head, message = call.if_commit(), call.message()

    def work(graph: Session, operation_id: str | None) -> LoadResult:
        table, lines = parquet_rows(
            content, columns=chosen, skip=left_out, bytes_max=PARQUET_ROWS_BYTES_MAX
        )
        try:
            return graph.load_table(
                type_name,
                table,
                mode=mode,
                branch=name,
                from_col=from_col,
                to_col=to_col,
                expected_head=expected_head,
                operation_id=operation_id,
                message=message,
                dry_run=dry_run,
            )
        except DataError as error:
            raise _in_file(error, lines) from error

    def tell(result: LoadResult) -> Json:
        call.committed(result.commit, repeated=result.repeated)
        return result.to_json()

    return json_response(await call.write(work, tell, trial=dry_run))


@router.post(
    "/load/parquet/columns",
    responses=answers(ParquetContent) | errors(*WRITES),
    openapi_extra=_FILE,
)
async def parquet_columns(call: CallOf, request: HttpRequest, branch: Branch = None) -> Response:
    """Tell the columns of a Parquet file, their first values and its rows; nothing is loaded."""
    call.allow(Action.CHANGE, branch=MAIN if branch is None else branch)
    content = await _file(request)
    columns = await call.read(
        lambda _graph: parquet_content(content, bytes_max=PARQUET_ROWS_BYTES_MAX)
    )
    return json_response(columns.to_json())


async def _file(request: HttpRequest) -> bytes:
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent != PARQUET:
        raise HttpProblem(415, f"send {PARQUET}", type_="unsupported_media_type")
    return await request.body()


def _columns(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise BadRequestError(f"columns must be a JSON object of texts: {error}") from error


def _numbers(text: str | None) -> frozenset[int]:
    try:
        return frozenset(int(item) for item in (text or "").split(",") if item)
    except ValueError:
        raise BadRequestError("skip must be numbers of rows with commas between them") from None


def _in_file(error: DataError, lines: Sequence[int]) -> DataError:
    """Return an error that names rows by their number in the file, of which some were left out."""
    if not lines or lines[-1] == len(lines):
        return error
    problems = []
    for item in error.problems:
        line = item.get("line")
        problems.append({**item, "line": lines[line - 1]} if isinstance(line, int) else item)
    message = f"{counted(len(problems), 'problem')} in the file; nothing was written"
    return DataError(message, problems=problems, hint=error.hint)
