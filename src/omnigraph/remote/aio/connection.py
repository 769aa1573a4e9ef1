"""HTTP: requests to one graph of a server, and what can go wrong on the way."""

# Made from src/omnigraph/remote/connection.py by `make client`: change that, not this.
from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast
from urllib.parse import quote

from omnigraph.errors import (
    BadRequestError,
    OutcomeUnknownError,
    StorageError,
)
from omnigraph.http_client import AnswerLostError, NotSentError
from omnigraph.limits import CLIENT_BACKOFF_S, CLIENT_RETRIES
from omnigraph.remote.aio.http import AsyncHttpClient, AsyncResponse
from omnigraph.remote.connection import (
    Json,
    Parameters,
    _accept,
    _address,
    _asked_to_wait,
    _body,
    _checked,
    _known,
    _NoAnswerError,
    _parameters,
    _settled,
    _unreachable,
    new_id,
)
from omnigraph.values.headers import (
    ARROW,
    IDEMPOTENCY_KEY,
    IF_COMMIT,
    MESSAGE,
    NDJSON,
    encode_message,
)
from omnigraph.version import __version__


class AsyncConnection:
    """Sends requests. Tasks of one event loop may share it."""

    def __init__(
        self,
        url: str,
        *,
        graph: str | None,
        token: str | None,
        timeout: float | None,
        retries: int = CLIENT_RETRIES,
        login_hint: str | None = None,
        http: AsyncHttpClient | None = None,
    ) -> None:
        parts = _address(url)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise BadRequestError("the address of a server has no user, query or fragment")
        if token is not None and (not token.isascii() or token != token.strip() or not token):
            raise BadRequestError("the token is empty or has characters no token has")
        self.url = url.rstrip("/")
        self._prefix = "" if graph is None else f"/graphs/{quote(graph, safe='')}"
        headers = {"User-Agent": f"omnigraph-python/{__version__}"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._http = http or AsyncHttpClient(self.url, headers, timeout)
        self._retries = retries
        self._login_hint = login_hint

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return f"{self.url}{self._prefix}"

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def get(self, path: str, params: Parameters | None = None) -> Json:
        """Ask for something."""
        return _body(await self._ask("GET", path, params=params))

    async def post(self, path: str, body: Json, *, accept: str | None = None) -> AsyncResponse:
        """Ask for something that needs a body; nothing is written by it."""
        return await self._ask("POST", path, json=_known(body), headers=_accept(accept))

    async def _ask(self, method: str, path: str, **options: Any) -> AsyncResponse:
        return _checked(await self._persist(method, path, **options), self._login_hint)

    async def _persist(self, method: str, path: str, **options: Any) -> AsyncResponse:
        """Send a request that may come twice: again, if the server is busy, or hung up.

        Raises `_NoAnswerError` when an answer was lost and no later one tells what happened.
        """
        lost: _NoAnswerError | None = None
        for attempt in range(self._retries + 1):
            try:
                response = await self._send(method, path, **options)
            except _NoAnswerError as error:
                lost, pause = error, CLIENT_BACKOFF_S * 2**attempt
                if error.timed_out:
                    break  # It may still be at work: asking again would only add to that.
            except StorageError:
                if lost is None:
                    raise
                break
            else:
                wait = _asked_to_wait(response)
                if wait is None or attempt == self._retries:
                    return _settled(response, lost)
                pause = wait
            if attempt < self._retries:
                await self._http.pause(pause)
        raise cast("_NoAnswerError", lost)

    async def write(
        self,
        path: str,
        body: Json | None = None,
        *,
        content: bytes | None = None,
        content_type: str = NDJSON,
        params: Parameters | None = None,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> Json:
        """Write something. Raises `OutcomeUnknownError` when the answer got lost."""
        options: Json = {"content": content} if body is None else {"json": _known(body)}
        headers = {} if content is None else {"Content-Type": content_type}
        response = await self._write(
            path, expected_head, operation_id, message, headers, params=params, **options
        )
        return _body(response)

    async def invoke(
        self,
        path: str,
        body: Json,
        *,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        accept: str = ARROW,
    ) -> AsyncResponse:
        """Run a stored query, which may read or write; rows come in the accepted form."""
        options = {"json": _known(body)}
        return await self._write(
            path, expected_head, operation_id, message, _accept(accept), **options
        )

    async def _write(
        self,
        path: str,
        expected_head: str | None,
        operation_id: str | None,
        message: str | None,
        headers: dict[str, str],
        **options: Any,
    ) -> AsyncResponse:
        key = operation_id or new_id()
        headers = {**headers, IDEMPOTENCY_KEY: key}
        if expected_head is not None:
            headers[IF_COMMIT] = expected_head
        if message is not None:
            headers[MESSAGE] = encode_message(message)
        try:
            response = await self._persist("POST", path, headers=headers, **options)
        except _NoAnswerError as error:
            raise OutcomeUnknownError(str(error), operation_id=key) from error
        try:
            return _checked(response, self._login_hint)
        except OutcomeUnknownError as error:
            error.operation_id = key
            raise

    async def change(
        self, method: str, path: str, body: Json | None = None, *, expected_head: str | None = None
    ) -> Json:
        """Make or remove something that has no operation id, such as a branch."""
        headers = {IDEMPOTENCY_KEY: new_id()}
        if expected_head is not None:
            headers[IF_COMMIT] = expected_head
        sent = _known(body) if body else None
        response = await self._persist(method, path, json=sent, headers=headers)
        return _body(_checked(response, self._login_hint))

    async def head(self, path: str, params: Parameters) -> AsyncResponse:
        """Ask about something without getting it; a redirect is an answer."""
        response = await self._persist("HEAD", path, params=params)
        if response.status_code >= 400:
            # The answer to HEAD has no body to learn the reason from.
            response = await self._persist("GET", path, params=params)
        return _checked(response, self._login_hint)

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        params: Parameters | None = None,
        accept: str | None = None,
    ) -> AsyncIterator[AsyncResponse]:
        """Get an answer piece by piece."""
        sent = None if body is None else _known(body)
        headers = _accept(accept)
        target = f"{self._prefix}{path}"
        try:
            async with self._http.stream(
                method, target, params=_parameters(params), json=sent, headers=headers
            ) as response:
                if response.status_code >= 300:
                    await response.read()
                    _checked(response, self._login_hint)
                yield response
        except (NotSentError, AnswerLostError) as error:
            raise _unreachable(self.url, error) from error

    async def _send(
        self, method: str, path: str, *, params: Parameters | None = None, **options: Any
    ) -> AsyncResponse:
        try:
            return await self._http.request(
                method, f"{self._prefix}{path}", params=_parameters(params), **options
            )
        except NotSentError as error:
            raise _unreachable(self.url, error) from error
        except AnswerLostError as error:
            raise _NoAnswerError(self.url, error) from error
        except (ValueError, TypeError) as error:
            raise BadRequestError(f"a value is not expressible as JSON: {error}") from error
