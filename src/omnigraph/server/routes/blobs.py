"""Blobs, whole or in part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, BinaryIO, Literal

from fastapi import Query
from starlette.responses import Response

from omnigraph.errors import BadRequestError
from omnigraph.graph import BlobStat, Session, blob_range
from omnigraph.limits import STREAM_CHUNK_BYTES
from omnigraph.server.call import Call, CallOf
from omnigraph.server.http_errors import HttpProblem
from omnigraph.server.json_routes import topic
from omnigraph.server.responses import stream
from omnigraph.server.routes.describing import Responses, errors
from omnigraph.server.routes.states import allow_state
from omnigraph.values.headers import BYTES, SNAPSHOT_ID

router = topic("blobs")
_RANGE = re.compile(r"bytes=(?P<first>[0-9]{0,18})-(?P<last>[0-9]{0,18})")
_FORMS: Responses = {
    200: {"description": "The bytes.", "content": {BYTES: {"schema": {"type": "string"}}}},
    206: {"description": "Some of the bytes.", "content": {BYTES: {"schema": {"type": "string"}}}},
    302: {"description": "The value lies elsewhere; Location says where."},
    304: {"description": "The caller has it already."},
}


@router.get("/blob", response_class=Response, responses=_FORMS | errors(400, 404, 412, 416))
@router.head(
    "/blob",
    name="blob_head",
    response_class=Response,
    responses=_FORMS | errors(400, 404, 412, 416),
)
async def blob(
    call: CallOf,
    entity: Annotated[Literal["node", "edge"], Query()],
    type_: Annotated[str, Query(alias="type")],
    id_: Annotated[str, Query(alias="id")],
    property_: Annotated[str, Query(alias="property")],
    branch: Annotated[str | None, Query()] = None,
    snapshot: Annotated[str | None, Query()] = None,
) -> Response:
    """Return the bytes of a blob; ranges and entity tags as for any file."""
    if branch is not None and snapshot is not None:
        raise BadRequestError("give a branch or a snapshot, not both")
    await allow_state(call, branch=branch, commit=snapshot, tag=None)
    selector = (entity, type_, id_, property_)
    found = await call.read(
        lambda graph: graph.blobs.stat(*selector, branch=branch, commit=snapshot)
    )
    headers = {
        "ETag": f'"{found.etag}"',
        SNAPSHOT_ID: found.resolved_snapshot,
    }
    if found.uri is not None:
        headers |= {"Location": found.uri, "Cache-Control": "no-store"}
        return Response(status_code=302, headers=headers)
    if (early := _condition(call, headers)) is not None:
        return early
    return await _bytes(call, found, selector, headers)


def _condition(call: Call, headers: dict[str, str]) -> Response | None:
    sent, etag = call.request.headers, headers["ETag"]
    if "if-match" in sent and not _names(sent["if-match"], etag):
        raise HttpProblem(
            412, "the value is another one", type_="precondition_failed", headers={"ETag": etag}
        )
    if "if-none-match" in sent and _names(sent["if-none-match"], etag):
        return Response(status_code=304, headers=headers)
    return None


def _names(header: str, etag: str) -> bool:
    tags = [item.strip().removeprefix("W/") for item in header.split(",")]
    return "*" in tags or etag in tags


async def _bytes(
    call: Call, found: BlobStat, selector: tuple[str, str, str, str], headers: dict[str, str]
) -> Response:
    size = found.size or 0
    start, end, status = 0, size, 200
    wanted = _RANGE.fullmatch(call.request.headers.get("range", ""))
    valid = call.request.headers.get("if-range", headers["ETag"]) == headers["ETag"]
    if wanted and valid and call.request.method == "GET" and (wanted["first"] or wanted["last"]):
        start, end = _part(size, wanted["first"], wanted["last"])
        status = 206
        headers = {**headers, "Content-Range": f"bytes {start}-{end - 1}/{size}"}
    headers = {**headers, "Accept-Ranges": "bytes", "Content-Length": str(end - start)}
    if call.request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=BYTES)

    session = call.served.session(call.actor)
    answer = await stream(
        call.service.threads,
        lambda: _chunks(session, selector, found.resolved_snapshot, start, end),
        media_type=BYTES,
        headers=headers,
    )
    answer.status_code = status
    return answer


def _part(size: int, first: str, last: str) -> tuple[int, int]:
    if not first:
        return max(0, size - int(last)), size
    length = None if not last else int(last) - int(first) + 1
    if length is not None and length < 1:
        raise BadRequestError("the range ends before it begins")
    return blob_range(size, offset=int(first), length=length)


def _chunks(
    graph: Session, selector: tuple[str, str, str, str], snapshot: str, start: int, end: int
) -> Iterator[bytes]:
    # The commit that was described, so that both calls see the same value.
    with graph.blobs.open(*selector, commit=snapshot) as source:
        yield from _copied(source, start, end)


def _copied(source: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    source.seek(start)
    left = end - start
    while left > 0 and (part := source.read(min(STREAM_CHUNK_BYTES, left))):
        left -= len(part)
        yield part
