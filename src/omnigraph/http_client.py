"""HTTP by the standard library: a client that starts at once, for one server.

Connections are kept and used again, each by one thread at a time. Proxies are those the
environment names. Redirects are answers, not followed.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from omnigraph import clock, environment

IDLE_CONNECTIONS_MAX = 10
"""Connections kept for the next requests: more only help a client of that many threads."""

READ_BYTES = 1 << 16
"""Bytes taken at a time from an answer that is read piece by piece."""

Parameters = Mapping[str, object]


class NotSentError(Exception):
    """The server could not be reached: nothing was sent."""


class AnswerLostError(Exception):
    """The request was sent, wholly or in part, and its answer did not come, or not to its end.

    `timed_out` says that the server did not hang up: it may still be at work.
    """

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.timed_out = timed_out


class Answer(Protocol):
    """An answer whose body was read, by whichever thread."""

    status_code: int
    headers: http.client.HTTPMessage

    @property
    def content(self) -> bytes:
        """The whole body."""

    def json(self) -> Any:  # noqa: ANN401 - whatever the server sent
        """Return the body as data. Raises `ValueError` for what is no JSON."""


class Response:
    """An answer: its status, its headers, and its body, read at once or piece by piece."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._found = response
        self._content: bytes | None = None
        self.status_code = response.status
        self.headers = response.headers

    @property
    def content(self) -> bytes:
        """The whole body."""
        if self._content is None:
            with _answering():
                self._content = self._found.read()
        return self._content

    def read(self) -> bytes:
        """Return the whole body."""
        return self.content

    def json(self) -> Any:  # noqa: ANN401 - whatever the server sent
        """Return the body as data. Raises `ValueError` for what is no JSON."""
        return json.loads(self.content)

    def iter_bytes(self) -> Iterator[bytes]:
        """Yield the body as it comes."""
        while True:
            with _answering():
                part = self._found.read1(READ_BYTES)
            if not part:
                break
            yield part
        if self._found.length:
            raise AnswerLostError("IncompleteRead")
        self._found.close()

    def iter_lines(self) -> Iterator[bytes]:
        """Yield the lines of the body as they come, without their ends."""
        rest = b""
        for part in self.iter_bytes():
            *whole, rest = (rest + part).split(b"\n")
            yield from whole
        if rest:
            yield rest

    @property
    def is_spent(self) -> bool:
        """Whether the body was read to its end and the server keeps the connection open."""
        return self._found.isclosed() and not self._found.will_close


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        slow = isinstance(error, TimeoutError)
        raise AnswerLostError(type(error).__name__, timed_out=slow) from error


_WAIT_DIGITS_MAX = 12
"""Digits of a wait that are read: the first twelve are thousands of years."""


def retry_after_s(headers: http.client.HTTPMessage) -> float | None:
    """Return how many seconds a server asks to wait: a number, or a date of HTTP."""
    text = (headers.get("retry-after") or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:_WAIT_DIGITS_MAX])
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(moment.timestamp() - clock.now_us() / 1e6, 0.0)


class HttpClient:
    """Requests to one server. Threads may share it."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        timeout: float | None,
        connect_with: Callable[[], socket.socket] | None = None,
    ) -> None:
        self._parts = urlsplit(url)
        self._connect_with = connect_with
        self._headers = dict(headers)
        self._timeout = timeout
        self._proxy = None if connect_with else proxy_for(self._parts, environment.variables())
        if self._proxy is not None and self._parts.scheme == "http":
            self._headers |= credentials(self._proxy)
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._closed = False

    def close(self) -> None:
        """Close the connections that are not in use; the others go when they are done."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for connection in idle:
            connection.close()

    def pause(self, seconds: float) -> None:
        """Wait before a request is sent again."""
        clock.sleep(seconds)

    def request(
        self,
        method: str,
        path: str,
        **options: Any,  # noqa: ANN401 - those of `stream`, which names them
    ) -> Response:
        """Send a request and read the whole answer. Options as `stream` has them."""
        with self.stream(method, path, **options) as response:
            response.read()
            return response

    @contextlib.contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Parameters | None = None,
        json: object = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Iterator[Response]:
        """Send a request; its answer is read inside the block. `timeout` is for this one only.

        Raises `NotSentError`, `AnswerLostError`, and `ValueError` for what is no JSON.
        """
        body, sent = request_parts(self._headers, headers, json, content)
        target = request_target(self._parts, self._proxy, path, params)
        connection = self._take_connection()
        _wait_at_most(connection, self._timeout if timeout is None else timeout)
        try:
            response = self._answer(connection, method, target, body, sent)
            yield response
        except BaseException:
            connection.close()
            raise
        self._give_back(connection, response)

    def _answer(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> Response:
        if connection.sock is None:
            try:
                connection.connect()
            except (OSError, http.client.HTTPException) as error:
                raise NotSentError(type(error).__name__) from error
        with _answering():
            # A server may refuse a body before all of it is sent: its answer says why.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, target, body=body, headers=dict(headers))
            return Response(connection.getresponse())

    # ---- connections ----------------------------------------------------------------------

    def _take_connection(self) -> http.client.HTTPConnection:
        if self._process != os.getpid():
            # Forked: what the parent has open, the parent uses.
            self._idle, self._lock, self._process = [], threading.Lock(), os.getpid()
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        if idle is not None and _is_open(idle):
            return idle
        if idle is not None:
            idle.close()
        return self._new()

    def _give_back(self, connection: http.client.HTTPConnection, response: Response) -> None:
        with self._lock:
            if response.is_spent and not self._closed and len(self._idle) < IDLE_CONNECTIONS_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _new(self) -> http.client.HTTPConnection:
        parts, proxy = self._parts, self._proxy
        near = parts if proxy is None else proxy
        if self._connect_with is not None:
            return _Given(str(parts.hostname), self._connect_with)
        if parts.scheme != "https":
            return _Connection(str(near.hostname), near.port or 80, timeout=self._timeout)
        made = http.client.HTTPSConnection(
            str(near.hostname), near.port or 443, timeout=self._timeout
        )
        if proxy is not None:
            made.set_tunnel(str(parts.hostname), parts.port or 443, headers=credentials(proxy))
        return made


def request_parts(
    always: Mapping[str, str],
    headers: Mapping[str, str] | None,
    json: object,
    content: bytes | None,
) -> tuple[bytes | None, dict[str, str]]:
    """Return the body and the headers of a request. Raises `ValueError` for what is no JSON."""
    sent = {**always, **(headers or {})}
    if json is None:
        return content, sent
    sent.setdefault("Content-Type", "application/json")
    return _encode(json), sent


def request_target(
    parts: SplitResult, proxy: SplitResult | None, path: str, params: Parameters | None
) -> str:
    """Return what the first line of a request names; a proxy wants the whole address."""
    query = urlencode(params, doseq=True) if params else ""
    target = f"{parts.path.rstrip('/')}{path}" or "/"
    target = f"{target}?{query}" if query else target
    if proxy is not None and parts.scheme == "http":
        return f"http://{parts.netloc}{target}"
    return target


def _wait_at_most(connection: http.client.HTTPConnection, timeout: float | None) -> None:
    connection.timeout = timeout
    if connection.sock is not None:
        connection.sock.settimeout(timeout)


class _Connection(http.client.HTTPConnection):
    """A connection whose small requests leave at once."""

    def connect(self) -> None:
        super().connect()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Given(http.client.HTTPConnection):
    """A connection over a socket that the caller makes."""

    def __init__(self, host: str, connect_with: Callable[[], socket.socket]) -> None:
        super().__init__(host)
        self._connect_with = connect_with

    def connect(self) -> None:
        self.sock = self._connect_with()


def _is_open(connection: http.client.HTTPConnection) -> bool:
    return connection.sock is not None and is_silent(connection.sock.fileno())


def is_silent(fileno: int) -> bool:
    """Whether a connection that waited can be used: nothing came on it, not even its end."""
    if fileno < 0:
        return False
    waiting = select.poll()  # `select.select` knows the first 1,024 files of a process only.
    waiting.register(fileno, select.POLLIN)
    return not waiting.poll(0)


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def credentials(proxy: SplitResult) -> dict[str, str]:
    """Return the header by which a proxy knows its user."""
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def proxy_for(parts: SplitResult, variables: Mapping[str, str]) -> SplitResult | None:
    """Return the proxy that the environment names for a server."""
    if not any(name.lower().endswith("_proxy") for name in variables):
        return None
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    url = proxies.get(parts.scheme) or proxies.get("all")
    if url is None or proxy_bypass(parts.netloc):
        return None
    return urlsplit(url if "://" in url else f"http://{url}")
