"""Whole snapshots, as streams of JSON lines; one type also as Arrow or Parquet."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from starlette.responses import Response

from omnigraph.commits import MAIN
from omnigraph.errors import BadRequestError
from omnigraph.graph import Session
from omnigraph.limits import STREAM_CHUNK_BYTES
from omnigraph.ops.export import type_of_table
from omnigraph.policy import Action
from omnigraph.server.call import CallOf, state_of
from omnigraph.server.json_routes import Sent, topic
from omnigraph.server.responses import (
    arrow_chunks,
    ndjson_chunks,
    parquet_chunks,
)
from omnigraph.server.routes.describing import Responses, errors
from omnigraph.server.routes.states import branch_of_tag, readable_commit
from omnigraph.values.headers import ARROW, JSON, NDJSON, PARQUET
from omnigraph.values.requests import BaselineRequest, ExportRequest

if TYPE_CHECKING:
    import pyarrow as pa

router = topic("export")
MEDIA_TYPE = f"{NDJSON}; charset=utf-8"
_TABLES: dict[str, Callable[[pa.Table], Iterator[bytes]]] = {
    ARROW: arrow_chunks,
    PARQUET: parquet_chunks,
}
_LINES: Responses = {
    200: {
        "description": "One entity per line, nodes before edges.",
        "content": {NDJSON: {"schema": {"type": "string"}}},
    }
}
_FORMS: Responses = {
    200: {
        "description": "Entities, as JSON lines unless the Accept header asks for a table.",
        "content": {
            NDJSON: {"schema": {"type": "string"}},
            **{form: {"schema": {"type": "string", "contentMediaType": form}} for form in _TABLES},
        },
    }
}


@router.post(
    "/export",
    response_class=Response,
    responses=_FORMS | errors(400, 404, 406, 409, 413, 415, 503),
)
async def export(call: CallOf, body: Sent[ExportRequest]) -> Response:
    """Export one snapshot; loading it into an empty graph of the same schema reproduces it.

    The Accept header may ask for one type as an Arrow stream or a Parquet file.
    """
    branch, commit, version = state_of(body.branch, body.snapshot)
    source = branch or MAIN
    if commit is not None:
        source = (await readable_commit(call, commit)).branch or MAIN
    elif (tag := body.tag) is not None:
        source = await call.read(lambda graph: branch_of_tag(graph, tag))
    call.allow(Action.EXPORT, branch=source)
    types = [*body.type_names, *(type_of_table(key) for key in body.table_keys)]
    state: dict[str, Any] = {
        "branch": branch,
        "commit": commit,
        "version": version if version is not None else body.version,
        "tag": body.tag,
        "timestamp": body.timestamp,
    }
    # Older clients ask for JSON and mean lines of it.
    form = call.accepted(NDJSON, *_TABLES, JSON).media_type
    if form in _TABLES:
        if len(types) != 1:
            raise BadRequestError(
                "a table holds one type", hint='name it: {"type_names": ["Person"]}'
            )
        make = _TABLES[form]
        return await call.stream(
            lambda graph: make(graph.export_table(types[0], **state)), media_type=form
        )

    def chunks(graph: Session) -> Iterator[bytes]:
        entities = graph.export(types=types, **state)
        if isinstance(entities, int):
            raise TypeError("an export without a destination yields entities")
        return ndjson_chunks(entities)

    return await call.stream(chunks, media_type=MEDIA_TYPE)


@router.post(
    "/changes/baseline",
    response_class=Response,
    responses=_LINES | errors(400, 404, 413, 503),
)
async def baseline(call: CallOf, body: Sent[BaselineRequest]) -> Response:
    """Export one snapshot; the last line has the cursor where the change feed goes on."""
    branch = MAIN if body.branch is None else body.branch
    call.allow(Action.EXPORT, branch=branch)

    def chunks(graph: Session) -> Iterator[bytes]:
        folder = tempfile.TemporaryDirectory(prefix="omnigraph-baseline-")
        path = os.path.join(folder.name, "baseline.jsonl")
        try:
            graph.feed.baseline(path, branch=branch, kinds=body.kind, types=body.type, ops=body.op)
            file = open(path, "rb")  # noqa: SIM115  # read after this call returns
        finally:
            folder.cleanup()
        return _file_chunks(file)

    return await call.stream(chunks, media_type=MEDIA_TYPE)


def _file_chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while part := file.read(STREAM_CHUNK_BYTES):
            yield part
