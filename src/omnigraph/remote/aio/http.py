"""HTTP by the streams of `asyncio`: as `omnigraph.http_client`, for programs that must not wait.

A request whose task is cancelled closes its connection, which tells the server to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import json
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from omnigraph import environment
from omnigraph.errors import BadRequestError
from omnigraph.http_client import (
    IDLE_CONNECTIONS_MAX,
    READ_BYTES,
    AnswerLostError,
    NotSentError,
    Parameters,
    credentials,
    is_silent,
    proxy_for,
    request_parts,
    request_target,
)

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?\r\n")
_BODILESS = (204, 304)
_BREAKS = (OSError, EOFError, ValueError, asyncio.LimitOverrunError, http.client.HTTPException)


class Link:
    """A connection to a server, used by one request at a time."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float | None
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.timeout = timeout
        self.closed = False

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[asyncio.StreamReader]:
        """Wait for the server, no longer than is allowed. Raises `AnswerLostError`."""
        try:
            async with asyncio.timeout(self.timeout):
                yield self.reader
        except TimeoutError as error:
            raise AnswerLostError("TimeoutError", timed_out=True) from error
        except _BREAKS as error:
            raise AnswerLostError(type(error).__name__) from error

    def is_usable(self) -> bool:
        """Whether nothing came on it since its last answer, not even its end."""
        if getattr(self.reader, "_buffer", b""):
            # What came was taken from the socket already.
            return False
        socket = self.writer.get_extra_info("socket")
        return not self.writer.is_closing() and socket is not None and is_silent(socket.fileno())

    def abort(self) -> None:
        """Close it at once."""
        self.closed = True
        self.writer.transport.abort()

    async def close(self) -> None:
        """Close it."""
        self.closed = True
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


class AsyncResponse:
    """An answer: its status, its headers, and its body, read at once or piece by piece."""

    def __init__(self, link: Link, method: str, head: bytes) -> None:
        first, _, rest = head.partition(b"\r\n")
        status = _STATUS.fullmatch(first + b"\r\n")
        if status is None:
            raise AnswerLostError("BadStatusLine")
        self.status_code = int(status[2])
        self.headers = http.client.parse_headers(io.BytesIO(rest))
        self._link = link
        self._content: bytes | None = None
        self._spent = False
        words = (self.headers.get("connection") or "").lower()
        self._kept = "close" not in words if status[1] == b"1" else "keep-alive" in words
        self._chunked = "chunked" in (self.headers.get("transfer-encoding") or "").lower()
        self._length = self._said_length()
        if method == "HEAD" or self.status_code in _BODILESS:
            self._chunked, self._length = False, 0

    def _said_length(self) -> int | None:
        text = self.headers.get("content-length")
        if self._chunked or text is None:
            return None
        if not (text.isascii() and text.isdigit()):
            raise AnswerLostError("BadContentLength")
        return int(text)

    @property
    def content(self) -> bytes:
        """The whole body, which was read before."""
        if self._content is None:
            raise BadRequestError("the answer was not read yet")
        return self._content

    async def read(self) -> bytes:
        """Return the whole body."""
        if self._content is None:
            self._content = b"".join([part async for part in self.iter_bytes()])
        return self._content

    def json(self) -> Any:
        """Return the body as data. Raises `ValueError` for what is no JSON."""
        return json.loads(self.content)

    async def iter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        parts = self._chunks() if self._chunked else self._unchunked_parts()
        async for part in parts:
            yield part
        self._spent = True

    async def _unchunked_parts(self) -> AsyncIterator[bytes]:
        left = self._length
        while left is None or left > 0:
            async with self._link.reading() as reader:
                part = await reader.read(READ_BYTES if left is None else min(left, READ_BYTES))
            if not part:
                if left is None and not self._link.closed:
                    self._kept = False
                    return
                raise AnswerLostError("IncompleteRead")
            left = None if left is None else left - len(part)
            yield part

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := await self._chunk_size():
            while size:
                async with self._link.reading() as reader:
                    part = await reader.read(min(size, READ_BYTES))
                if not part:
                    raise AnswerLostError("IncompleteRead")
                size -= len(part)
                yield part
            async with self._link.reading() as reader:
                await reader.readexactly(2)
        trailer = b""
        while trailer != b"\r\n":
            async with self._link.reading() as reader:
                trailer = await reader.readuntil(b"\r\n")

    async def _chunk_size(self) -> int:
        async with self._link.reading() as reader:
            line = await reader.readuntil(b"\r\n")
            return int(line.partition(b";")[0].strip().decode("ascii"), 16)

    async def iter_lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of the body as they come, without their ends."""
        rest = b""
        async for part in self.iter_bytes():
            *whole, rest = (rest + part).split(b"\n")
            for line in whole:
                yield line
        if rest:
            yield rest

    @property
    def is_spent(self) -> bool:
        """Whether the body was read to its end and the server keeps the connection open."""
        return self._spent and self._kept


class AsyncHttpClient:
    """Requests to one server, of the tasks of one event loop."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float | None) -> None:
        self._parts = urlsplit(url)
        self._headers = {"Host": self._parts.netloc, "Accept-Encoding": "identity", **headers}
        self._timeout = timeout
        self._proxy = proxy_for(self._parts, environment.variables())
        if self._proxy is not None and self._parts.scheme == "http":
            self._headers |= credentials(self._proxy)
        self._idle: list[Link] = []
        self._tls: ssl.SSLContext | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def close(self) -> None:
        """Close the connections that are not in use; the others go when they are done."""
        idle, self._idle, self._closed = self._idle, [], True
        for link in idle:
            await link.close()

    async def pause(self, seconds: float) -> None:
        """Wait before a request is sent again."""
        await asyncio.sleep(seconds)

    async def request(self, method: str, path: str, **options: Any) -> AsyncResponse:
        """Send a request and read the whole answer. Options as `stream` has them."""
        async with self.stream(method, path, **options) as response:
            await response.read()
            return response

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        params: Parameters | None = None,
        json: object = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[AsyncResponse]:
        """Send a request; its answer is read inside the block.

        Raises `NotSentError`, `AnswerLostError`, and `ValueError` for what is no JSON.
        """
        body, sent = request_parts(self._headers, headers, json, content)
        target = request_target(self._parts, self._proxy, path, params)
        link = await self._take_link()
        try:
            response = await _exchange(link, method, _head(method, target, sent, body), body)
            yield response
        except BaseException:
            # A task that was cancelled is among these: the server sees the connection go.
            link.abort()
            raise
        if response.is_spent and not self._closed and len(self._idle) < IDLE_CONNECTIONS_MAX:
            self._idle.append(link)
        else:
            await link.close()

    # ---- connections ----------------------------------------------------------------------

    async def _take_link(self) -> Link:
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise BadRequestError(
                "this graph was used in another event loop", hint="connect once in each"
            )
        self._loop = loop
        while self._idle:
            link = self._idle.pop()
            if link.is_usable():
                return link
            link.abort()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._new()
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise NotSentError(type(error).__name__) from error

    async def _new(self) -> Link:
        parts, proxy = self._parts, self._proxy
        secure = parts.scheme == "https"
        if secure and self._tls is None:
            self._tls = ssl.create_default_context()
        near = parts if proxy is None else proxy
        port = near.port or (443 if secure and proxy is None else 80)
        direct = self._tls if secure and proxy is None else None
        link = Link(
            *await asyncio.open_connection(str(near.hostname), port, ssl=direct), self._timeout
        )
        if not secure or proxy is None:
            return link
        try:
            await self._tunnel(link)
        except BaseException:
            link.abort()
            raise
        return link

    async def _tunnel(self, link: Link) -> None:
        """Let a proxy lead to the server, and speak TLS with the server through it."""
        parts, proxy = self._parts, self._proxy
        place = f"{parts.hostname}:{parts.port or 443}"
        named = {"Host": place, **(credentials(proxy) if proxy is not None else {})}
        link.writer.write(_head("CONNECT", place, named, None))
        status = _STATUS.match(await link.reader.readuntil(b"\r\n\r\n"))
        if status is None or not status[2].startswith(b"2"):
            raise OSError("the proxy refused")
        await link.writer.start_tls(
            self._tls or ssl.create_default_context(), server_hostname=parts.hostname
        )


async def _exchange(link: Link, method: str, head: bytes, body: bytes | None) -> AsyncResponse:
    async with link.reading() as reader:
        # A server may refuse a body before all of it is sent: its answer says why.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            link.writer.write(head)
            if body:
                link.writer.write(body)
            await link.writer.drain()
        while True:
            response = AsyncResponse(link, method, await reader.readuntil(b"\r\n\r\n"))
            if response.status_code >= 200:
                return response


def _head(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *_lines(headers)]
    if body is not None or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body or b'')}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _lines(headers: Mapping[str, str]) -> Iterator[str]:
    for name, value in headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"the header {name} has a line break")
        yield f"{name}: {value}"
