"""Answers: JSON, and streams that are made as fast as they are taken."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import Buffer

from omnigraph.errors import ResourceLimitError
from omnigraph.graph import Result
from omnigraph.graph.result import plain_rows
from omnigraph.limits import RENDER_ROWS, STREAM_CHUNK_BYTES
from omnigraph.server.connections import hung_up
from omnigraph.server.http_errors import Failure
from omnigraph.server.threads import Threads
from omnigraph.values.headers import ARROW, ARROW_METADATA, JSON, NDJSON

ARROW_BATCH_ROWS = 8192
PARQUET_GROUP_ROWS = 64 * 1024

Check = Callable[[], None]
"""Raises when the client wants no answer any more, or it took too long."""

_encode = msgspec.json.Encoder().encode


def json_response(
    body: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON answer."""
    return Response(_encode(body), status_code=status, media_type=JSON, headers=dict(headers or {}))


def error_response(failure: Failure) -> Response:
    """Return the answer to a request that failed."""
    return json_response(failure.body, status=failure.status, headers=failure.headers)


def ndjson_chunks(values: Iterable[object]) -> Iterator[bytes]:
    """Yield values as lines, in parts of a bounded size."""
    parts: list[bytes] = []
    size = 0
    for value in values:
        line = _encode(value)
        parts += (line, b"\n")
        size += len(line) + 1
        if size >= STREAM_CHUNK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def result_rows(
    result: Result, check: Check, *, ints: Literal["number", "string"] = "number"
) -> Iterator[list[dict[str, object]]]:
    """Yield a query's rows as plain data, some at a time; `check` stops it in between."""
    table = result.to_arrow()
    for start in range(0, table.num_rows, RENDER_ROWS):
        check()
        part = Result(table.slice(start, RENDER_ROWS), query_name=result.query_name, commit_id="")
        yield part.rows_json(ints=ints)


def result_json(
    result: Result,
    check: Check,
    *,
    ints: Literal["number", "string"],
    rows_max: int,
    bytes_max: int,
) -> dict[str, object]:
    """Return a query's answer as a whole. Raises `ResourceLimitError` for one that is too large."""
    _within("rows", result.num_rows, rows_max)
    parts: list[bytes] = []
    size = 0
    for rows in result_rows(result, check, ints=ints):
        parts.append(_encode(rows)[1:-1])
        size += len(parts[-1])
        _within("bytes", size, bytes_max)
    body: dict[str, object] = {
        "query_name": result.query_name,
        "target": dict(result.target),
        "row_count": result.num_rows,
        "columns": result.columns,
        "rows": msgspec.Raw(b"[" + b",".join(parts) + b"]"),
        "graph_commit_id": result.commit_id,
    }
    if not result.columns:
        del body["columns"]
    return body


def _within(what: str, actual: int, limit: int) -> None:
    if actual > limit:
        raise ResourceLimitError(
            resource=f"{what} of a JSON answer",
            limit=limit,
            actual=actual,
            hint=f"ask for {NDJSON} or {ARROW}, which are streamed, or use limit and offset",
        )


def result_lines(result: Result, check: Check) -> Iterator[object]:
    """Yield a query's rows after a line that describes them."""
    yield {
        "kind": "metadata",
        "query_name": result.query_name,
        "target": result.target,
        "row_count": result.num_rows,
        "columns": result.columns,
        "graph_commit_id": result.commit_id,
    }
    for rows in result_rows(result, check):
        yield from rows


def result_chunks(result: Result) -> Iterator[bytes]:
    """Yield a query's rows as an Arrow stream; the schema says what they are the answer to."""
    about = {
        "query_name": result.query_name,
        "target": result.target,
        "graph_commit_id": result.commit_id,
        "column_types": result.column_types,
    }
    table = result.to_arrow()
    metadata = {**(table.schema.metadata or {}), ARROW_METADATA: json.dumps(about).encode()}
    return arrow_chunks(table.replace_schema_metadata(metadata))


def arrow_chunks(table: pa.Table) -> Iterator[bytes]:
    """Yield a table as an Arrow stream."""
    sink = _Sink()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=ARROW_BATCH_ROWS):
            writer.write_batch(batch)
            yield from sink.taken()
    yield from sink.taken()


def parquet_chunks(table: pa.Table) -> Iterator[bytes]:
    """Yield a table as a Parquet file."""
    sink = _Sink()
    with pq.ParquetWriter(sink, table.schema) as writer:
        for start in range(0, table.num_rows, PARQUET_GROUP_ROWS):
            writer.write_table(table.slice(start, PARQUET_GROUP_ROWS))
            yield from sink.taken()
    yield from sink.taken()


def csv_chunks(result: Result, check: Check) -> Iterator[bytes]:
    """Yield a query's rows as CSV, null as nothing and lists as JSON; `check` stops it."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(result.columns)
    table = result.to_arrow()
    for start in range(0, max(table.num_rows, 1), RENDER_ROWS):
        check()
        rows = plain_rows(table.slice(start, RENDER_ROWS), ints="number")
        writer.writerows([map(_field, row) for row in rows])
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()


def _field(value: object) -> object:
    return _encode(value).decode() if isinstance(value, list | bool) else value


class _Sink:
    """A file whose bytes are taken out as they come."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: Buffer) -> int:
        self._parts.append(part := bytes(data))
        self._size += len(part)
        return len(part)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def taken(self) -> Iterator[bytes]:
        data = b"".join(self._parts)
        self._parts.clear()
        for start in range(0, len(data), STREAM_CHUNK_BYTES):
            yield data[start : start + STREAM_CHUNK_BYTES]


@dataclass(frozen=True, slots=True)
class Begun:
    """The beginning of a streamed answer, and what follows, if anything does."""

    first: list[bytes]
    rest: Iterator[bytes] | None


def begin(parts: Iterator[bytes]) -> Begun:
    """Make the first parts of an answer. A small answer is whole then."""
    gathered = _gathered(parts)
    first = list(islice(gathered, 2))
    return Begun(first, gathered if len(first) == 2 else None)


def _gathered(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Join small parts: each one that is sent costs a change of threads."""
    held: list[bytes] = []
    size = 0
    for part in parts:
        if held and size + len(part) > STREAM_CHUNK_BYTES:
            yield b"".join(held)
            held, size = [], 0
        held.append(part)
        size += len(part)
    if held:
        yield b"".join(held)


def streamed(
    threads: Threads,
    begun: Begun,
    *,
    media_type: str,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the rest of an answer as a stream, or all of it if there is no rest.

    Each part is made when the one before it was handed to the network: a slow reader holds no
    thread and few parts.
    """
    named = dict(headers or {})
    if begun.rest is None:
        return Response(b"".join(begun.first), media_type=media_type, headers=named)
    body = _parts(threads, begun.first, begun.rest)
    return _Stream(body, media_type=media_type, headers=named)


class _Stream(Response):
    """An answer sent in parts, until it ends or its reader hangs up."""

    def __init__(
        self, parts: AsyncGenerator[bytes], *, media_type: str, headers: dict[str, str]
    ) -> None:
        self._parts = parts
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        sent = asyncio.ensure_future(self._send(send))
        left = asyncio.ensure_future(hung_up(receive))
        try:
            await asyncio.wait((sent, left), return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            if not sent.done():
                sent.cancel()
            outcome, _left_or_not = await asyncio.gather(sent, left, return_exceptions=True)
        if isinstance(outcome, Exception):
            raise outcome

    async def _send(self, send: Send) -> None:
        async with contextlib.aclosing(self._parts) as parts:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _parts(
    threads: Threads, first: list[bytes], rest: Iterator[bytes]
) -> AsyncGenerator[bytes]:
    work: asyncio.Future[bytes | None] | None = None
    try:
        for part in first:
            yield part
        while True:
            work = threads.begin_read(lambda: next(rest, None))
            # A reader that hangs up does not stop the part that is being made.
            more = await asyncio.shield(work)
            if more is None:
                return
            yield more
    finally:
        _close_after(threads, rest, work)


def _close_after(
    threads: Threads, rest: Iterator[bytes], work: asyncio.Future[bytes | None] | None
) -> None:
    """Let go of what an answer is made from, once nothing is made from it any more."""

    def close(ended: asyncio.Future[bytes | None] | None = None) -> None:
        if ended is not None and not ended.cancelled():
            ended.exception()  # The response does not look at it any more.
        # In a thread: giving much memory back takes a while.
        with contextlib.suppress(RuntimeError):
            threads.begin_read(getattr(rest, "close", _nothing))

    if work is None or work.done():
        close()
    else:
        work.add_done_callback(close)


def _nothing() -> None:
    """Close what needs no closing."""
