"""A proxy in front of an S3 server that counts requests, slows them down and breaks them.

It speaks plain HTTP/1.1 on loopback and passes everything on as it came, so signatures stay valid.
What it does to a request is decided by rules that a test adds; every request is kept, with the
time it took, so that a test can tell how many were made, of what kind, and how many of them had to
wait for each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

_HEADER_BYTES_MAX = 1 << 20
_NO_BODY = (204, 304)


class Fault(Enum):
    """What becomes of a request."""

    ERROR = "the server answers 500 and does nothing"
    BUSY = "the server answers 503 SlowDown and does nothing"
    CUT = "the connection ends before the server is asked"
    LOST = "the server does it, and the connection ends without an answer"
    HANG = "the server does it, and the answer never comes while the client waits"


@dataclass(slots=True)
class Request:
    """One request as it passed, and what became of it."""

    method: str
    path: str
    query: dict[str, list[str]]
    condition: str | None
    sent_bytes: int
    began: float
    ended: float = 0.0
    status: int = 0
    answered_bytes: int = 0
    fault: Fault | None = None

    @property
    def kind(self) -> str:
        """LIST, or the method; `PUT-IF` has a condition, and DELETE may name several objects."""
        if self.method == "POST" and "delete" in self.query:
            return "DELETE"
        if self.method == "GET" and "list-type" in self.query:
            return "LIST"
        return "PUT-IF" if self.method == "PUT" and self.condition else self.method

    @property
    def target(self) -> str:
        """The object, or the prefix of a listing."""
        return self.query["prefix"][0] if self.kind == "LIST" else self.path


Rule = Callable[[Request], "Fault | None"]


@dataclass(slots=True)
class Traffic:
    """The requests of one block."""

    requests: list[Request] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.requests)

    def kinds(self) -> Counter[str]:
        """Return how many requests of each kind there were."""
        return Counter(request.kind for request in self.requests)

    def of(self, kind: str, part: str = "") -> list[Request]:
        """Return the requests of a kind whose target holds a text."""
        return [r for r in self.requests if r.kind == kind and part in r.target]

    @property
    def answered_bytes(self) -> int:
        """Bytes the server sent."""
        return sum(request.answered_bytes for request in self.requests)

    @property
    def round_trips(self) -> int:
        """How many requests had to wait for each other: the longest row of them in time."""
        found, free_at = 0, 0.0
        for request in sorted(self.requests, key=lambda item: item.ended):
            if request.began >= free_at:
                found, free_at = found + 1, request.ended
        return found

    def __str__(self) -> str:
        start = min((request.began for request in self.requests), default=0.0)
        return "\n".join(
            f"{(r.began - start) * 1e3:7.1f} {(r.ended - start) * 1e3:7.1f} {r.kind:7} "
            f"{r.status} {r.sent_bytes:7} {r.answered_bytes:7} {r.target}"
            for r in sorted(self.requests, key=lambda item: item.began)
        )


class Proxy:
    """A running proxy. A context manager; `endpoint` is what clients are told."""

    def __init__(self, upstream: str) -> None:
        address = urlsplit(upstream)
        self._host, self._port = str(address.hostname), int(address.port or 80)
        self.endpoint = ""
        self.latency_s = 0.0
        self.hang_s = 60.0
        self._rules: list[Rule] = []
        self._seen: list[Request] = []
        self._lock = threading.Lock()
        self._limit: asyncio.Semaphore | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="omnigraph-proxy", daemon=True)
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    # ---- what tests say and ask -----------------------------------------------------------

    def limit(self, at_once: int | None) -> None:
        """Let only so many requests through at a time."""
        self._limit = None if at_once is None else asyncio.Semaphore(at_once)

    @contextlib.contextmanager
    def rule(self, rule: Rule) -> Iterator[None]:
        """Break what a rule says, inside the block. Rules run one at a time."""
        self._rules.append(rule)
        try:
            yield
        finally:
            self._rules.remove(rule)

    @contextlib.contextmanager
    def slow(self, latency_s: float) -> Iterator[None]:
        """Make every request of the block take so much longer."""
        before, self.latency_s = self.latency_s, latency_s
        try:
            yield
        finally:
            self.latency_s = before

    @contextlib.contextmanager
    def watched(self) -> Iterator[Traffic]:
        """Collect the requests of the block."""
        start = len(self._seen)
        found = Traffic()
        yield found
        with self._lock:
            found.requests += self._seen[start:]

    @property
    def passed(self) -> int:
        """How many requests there were so far."""
        with self._lock:
            return len(self._seen)

    # ---- the loop -------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEADER_BYTES_MAX)
        )
        port = server.sockets[0].getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{port}"
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = _Upstream(self._host, self._port)
        try:
            while (head := await _head(reader)) is not None:
                body = await _body(reader, head)
                if not await self._pass(head, body, upstream, writer):
                    break
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            upstream.close()
            writer.close()

    async def _pass(
        self, head: bytes, body: bytes, upstream: _Upstream, writer: asyncio.StreamWriter
    ) -> bool:
        """Pass one request on; False when the connection is to end."""
        request = _request(head, body)
        fault = self._fault(request)
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        async with self._limit or contextlib.nullcontext():
            answer: bytes | None = None
            if fault in (None, Fault.LOST, Fault.HANG):
                answer = await upstream.ask(head, body, request.method)
                request.status = int(answer[9:12])
                request.answered_bytes = len(answer)
        if fault is Fault.HANG:
            await asyncio.sleep(self.hang_s)
        if fault in (Fault.ERROR, Fault.BUSY):
            answer = _refusal(fault)
            request.status = int(answer[9:12])
        request.ended = time.monotonic()
        with self._lock:
            self._seen.append(request)
        if answer is None or fault in (Fault.LOST, Fault.HANG):
            return False
        writer.write(answer)
        await writer.drain()
        return True

    def _fault(self, request: Request) -> Fault | None:
        with self._lock:
            for rule in self._rules:
                if (found := rule(request)) is not None:
                    request.fault = found
                    return found
        return None


class _Upstream:
    """The connection to the server that belongs to one connection of a client."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, head: bytes, body: bytes, method: str) -> bytes:
        """Send a request and return the whole answer."""
        if self._writer is None or self._reader is None or self._reader.at_eof():
            self.close()
            self._reader, self._writer = await asyncio.open_connection(
                *self._address, limit=_HEADER_BYTES_MAX
            )
        self._writer.write(head + body)
        await self._writer.drain()
        answer = await _head(self._reader)
        if answer is None:
            raise ConnectionResetError("the server went away")
        if method == "HEAD" or int(answer[9:12]) in _NO_BODY:
            return answer
        return answer + await _body(self._reader, answer)

    def close(self) -> None:
        """End the connection."""
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None


async def _head(reader: asyncio.StreamReader) -> bytes | None:
    """Read up to the empty line; None when the other side has ended."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None


def _header(head: bytes, name: bytes) -> bytes | None:
    for line in head.split(b"\r\n")[1:]:
        key, _colon, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """Read a body as it stands, however its length is told."""
    if (_header(head, b"transfer-encoding") or b"").lower() == b"chunked":
        found = b""
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            found += line + await reader.readexactly(size + 2)
            if size == 0:
                return found
    length = int(_header(head, b"content-length") or 0)
    return await reader.readexactly(length) if length else b""


def _request(head: bytes, body: bytes) -> Request:
    method, target, _version = head.split(b"\r\n", 1)[0].decode().split(" ")
    address = urlsplit(target)
    condition = _header(head, b"if-none-match") or _header(head, b"if-match")
    return Request(
        method=method,
        path=unquote(address.path),
        query=parse_qs(address.query, keep_blank_values=True),
        condition=None if condition is None else condition.decode(),
        sent_bytes=len(body),
        began=time.monotonic(),
    )


def _refusal(fault: Fault) -> bytes:
    status, code = (
        ("503 Slow Down", "SlowDown") if fault is Fault.BUSY else ("500 Internal", "InternalError")
    )
    body = f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body
