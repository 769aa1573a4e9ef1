"""Blobs, whole or in part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, BinaryIO, Literal

from fastapi import Query
from starlette.responses import Response

from omnigraph.errors import BlobRangeError
from omnigraph.graph import BlobStat, Session
from omnigraph.limits import STREAM_CHUNK_BYTES
from omnigraph.server.call import Call, CallOf, state_of
from omnigraph.server.http_errors import HttpProblem
from omnigraph.server.json_routes import topic
from omnigraph.server.routes.describing import Responses, errors
from omnigraph.server.routes.states import allow_state
from omnigraph.values.headers import BYTES, SNAPSHOT_ID
from omnigraph.values.words import EntityKind

router = topic("blobs")
_RANGE = re.compile(r"bytes=[ \t]*(?P<first>[0-9]{0,18})-(?P<last>[0-9]{0,18})", re.IGNORECASE)
_TAG = re.compile(r'(?P<weak>W/)?(?P<tag>"[^"]*")')
_FORMS: Responses = {
    200: {"description": "The bytes.", "content": {BYTES: {"schema": {"type": "string"}}}},
    206: {"description": "Some of the bytes.", "content": {BYTES: {"schema": {"type": "string"}}}},
    302: {"description": "The value is stored elsewhere; Location names the place."},
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
    line, commit, version = state_of(branch, snapshot)
    await allow_state(call, branch=line, commit=commit, tag=None)
    selector = (entity, type_, id_, property_)

    def find(graph: Session) -> BlobStat:
        if version is None:
            return graph.blobs.stat(*selector, branch=line, commit=commit)
        at = graph.snapshot(line, version=version).graph_commit_id
        return graph.blobs.stat(*selector, commit=at)

    stat = await call.read(find)
    headers = {
        "ETag": f'"{stat.etag}"',
        SNAPSHOT_ID: stat.resolved_snapshot,
    }
    if stat.uri is not None:
        headers |= {"Location": stat.uri, "Cache-Control": "no-store"}
        return Response(status_code=302, headers=headers)
    if (early := _condition(call, headers)) is not None:
        return early
    return await _bytes(call, stat, selector, headers)


def _condition(call: Call, headers: dict[str, str]) -> Response | None:
    sent, etag = call.request.headers, headers["ETag"]
    # A value that is to be exactly this one is compared strongly: a weak tag never is.
    if "if-match" in sent and not _names(sent["if-match"], etag, weak=False):
        raise HttpProblem(
            412, "the value is another one", type_="precondition_failed", headers={"ETag": etag}
        )
    if "if-none-match" in sent and _names(sent["if-none-match"], etag, weak=True):
        return Response(status_code=304, headers=headers)
    return None


def _names(header: str, etag: str, *, weak: bool) -> bool:
    if header.strip() == "*":
        return True
    tags = [match["tag"] for match in _TAG.finditer(header) if weak or not match["weak"]]
    return etag in tags


async def _bytes(
    call: Call, stat: BlobStat, selector: tuple[EntityKind, str, str, str], headers: dict[str, str]
) -> Response:
    size = stat.size or 0
    start, end, status = 0, size, 200
    part = _part(call, size, headers["ETag"])
    if part is not None:
        start, end, status = *part, 206
        headers = {**headers, "Content-Range": f"bytes {start}-{end - 1}/{size}"}
    headers = {**headers, "Accept-Ranges": "bytes", "Content-Length": str(end - start)}
    if call.request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=BYTES)

    answer = await call.stream(
        lambda graph: _chunks(graph, selector, stat.resolved_snapshot, start, end),
        media_type=BYTES,
        headers=headers,
    )
    answer.status_code = status
    return answer


def _part(call: Call, size: int, etag: str) -> tuple[int, int] | None:
    """Return start and end of what a Range header asks for; None for the whole value.

    A header that makes no sense is ignored, as is one for another value. Raises `BlobRangeError`
    for a part that lies outside the value.
    """
    sent = call.request.headers
    wanted = _RANGE.fullmatch(sent.get("range", "").strip())
    if wanted is None or call.request.method != "GET" or sent.get("if-range", etag) != etag:
        return None
    first, last = wanted["first"], wanted["last"]
    if not first:
        if not last or (size == 0 and int(last) > 0):
            return None
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), size if not last else min(int(last) + 1, size)
        if last and int(last) < start:
            return None
    if start >= size:
        raise BlobRangeError(start=start, end=max(start, end), length=size)
    return start, end


def _chunks(
    graph: Session, selector: tuple[EntityKind, str, str, str], snapshot: str, start: int, end: int
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
