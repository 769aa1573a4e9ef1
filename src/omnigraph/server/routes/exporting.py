"""Whole snapshots, as streams of JSON lines."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

from starlette.responses import Response

from omnigraph.errors import BadRequestError
from omnigraph.limits import STREAM_CHUNK_BYTES
from omnigraph.manifest import MAIN
from omnigraph.policy import Action
from omnigraph.server.bodies import BaselineRequest, ExportRequest
from omnigraph.server.call import CallOf, state_of
from omnigraph.server.json_routes import topic
from omnigraph.server.responses import NDJSON, ndjson_chunks, stream
from omnigraph.server.routes.describing import Responses, errors
from omnigraph.server.routes.states import branch_of_tag, readable_commit

router = topic("export")
MEDIA_TYPE = f"{NDJSON}; charset=utf-8"
_LINES: Responses = {
    200: {
        "description": "One entity per line, nodes before edges.",
        "content": {NDJSON: {"schema": {"type": "string"}}},
    }
}


@router.post(
    "/export",
    response_class=Response,
    responses=_LINES | errors(400, 404, 409, 413, 415, 503),
)
async def export(call: CallOf, body: ExportRequest) -> Response:
    """Export one snapshot; loading it into an empty graph of the same schema reproduces it."""
    branch, commit, version = state_of(body.branch, body.snapshot)
    source = branch or MAIN
    if commit is not None:
        source = (await readable_commit(call, commit)).branch or MAIN
    elif (tag := body.tag) is not None:
        source = await call.read(lambda graph: branch_of_tag(graph, tag))
    call.allow(Action.EXPORT, branch=source)
    types = [*body.type_names, *(_type_of(key) for key in body.table_keys)]
    handle = call.served.handle(call.actor)

    def chunks() -> Iterator[bytes]:
        entities = handle.export(
            branch=branch,
            types=types,
            commit=commit,
            version=version if version is not None else body.version,
            tag=body.tag,
            timestamp=body.timestamp,
        )
        if isinstance(entities, int):
            raise TypeError("an export without a destination yields entities")
        return ndjson_chunks(entities)

    return await stream(call.service.threads, chunks, media_type=MEDIA_TYPE)


def _type_of(table_key: str) -> str:
    kind, separator, name = table_key.partition(":")
    if kind not in ("node", "edge") or not separator or not name:
        raise BadRequestError(f"{table_key!r} is no table key", hint="use node:Type or edge:Type")
    return name


@router.post(
    "/changes/baseline",
    response_class=Response,
    responses=_LINES | errors(400, 404, 413, 503),
)
async def baseline(call: CallOf, body: BaselineRequest) -> Response:
    """Export one snapshot; the last line has the cursor where the change feed goes on."""
    branch = MAIN if body.branch is None else body.branch
    call.allow(Action.EXPORT, branch=branch)
    handle = call.served.handle(call.actor)

    def chunks() -> Iterator[bytes]:
        folder = tempfile.TemporaryDirectory(prefix="omnigraph-baseline-")
        path = os.path.join(folder.name, "baseline.jsonl")
        try:
            handle.feed.baseline(path, branch=branch)
            file = open(path, "rb")  # noqa: SIM115  # read after this call returns
        finally:
            folder.cleanup()
        return _file_chunks(file)

    return await stream(call.service.threads, chunks, media_type=MEDIA_TYPE)


def _file_chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while part := file.read(STREAM_CHUNK_BYTES):
            yield part
