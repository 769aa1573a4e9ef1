"""HTTP: requests to one graph of a server, and what can go wrong on the way."""

from __future__ import annotations

import contextlib
import datetime
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast
from urllib.parse import SplitResult, quote, urlsplit

from omnigraph.errors import (
    BadRequestError,
    OmniGraphError,
    OutcomeUnknownError,
    StorageError,
    StorageFailureKind,
    TooManyRequestsError,
    UnauthorizedError,
)
from omnigraph.http_client import (
    Answer,
    AnswerLostError,
    HttpClient,
    NotSentError,
    Response,
    retry_after_s,
)
from omnigraph.limits import CLIENT_BACKOFF_S, CLIENT_RETRIES, CLIENT_RETRY_AFTER_S_MAX
from omnigraph.remote.wire_errors import error_from
from omnigraph.values.headers import (
    ARROW,
    IDEMPOTENCY_KEY,
    IF_COMMIT,
    MESSAGE,
    NDJSON,
    encode_message,
)
from omnigraph.version import __version__

Json = dict[str, Any]
Parameters = Mapping[str, object]
A = TypeVar("A", bound=Answer)


class Connection:
    """Sends requests. Threads may share it."""

    def __init__(
        self,
        url: str,
        *,
        graph: str | None,
        token: str | None,
        timeout: float | None,
        retries: int = CLIENT_RETRIES,
        login_hint: str | None = None,
        http: HttpClient | None = None,
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
        self._http = http or HttpClient(self.url, headers, timeout)
        self._retries = retries
        self._login_hint = login_hint

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return f"{self.url}{self._prefix}"

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, path: str, params: Parameters | None = None) -> Json:
        """Ask for something."""
        return _body(self._ask("GET", path, params=params))

    def post(self, path: str, body: Json, *, accept: str | None = None) -> Response:
        """Ask for something that needs a body; nothing is written by it."""
        return self._ask("POST", path, json=_known(body), headers=_accept(accept))

    def _ask(self, method: str, path: str, **options: Any) -> Response:
        return _checked(self._persist(method, path, **options), self._login_hint)

    def _persist(self, method: str, path: str, **options: Any) -> Response:
        """Send a request that may come twice: again, if the server is busy, or hung up.

        Raises `_NoAnswerError` when an answer was lost and no later one tells what happened.
        """
        lost: _NoAnswerError | None = None
        for attempt in range(self._retries + 1):
            try:
                response = self._send(method, path, **options)
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
                self._http.pause(pause)
        raise cast("_NoAnswerError", lost)

    def write(
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
        response = self._write(
            path, expected_head, operation_id, message, headers, params=params, **options
        )
        return _body(response)

    def invoke(
        self,
        path: str,
        body: Json,
        *,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        accept: str = ARROW,
    ) -> Response:
        """Run a stored query, which may read or write; rows come in the accepted form."""
        options = {"json": _known(body)}
        return self._write(path, expected_head, operation_id, message, _accept(accept), **options)

    def _write(
        self,
        path: str,
        expected_head: str | None,
        operation_id: str | None,
        message: str | None,
        headers: dict[str, str],
        **options: Any,
    ) -> Response:
        key = operation_id or new_id()
        headers = {**headers, IDEMPOTENCY_KEY: key}
        if expected_head is not None:
            headers[IF_COMMIT] = expected_head
        if message is not None:
            headers[MESSAGE] = encode_message(message)
        try:
            response = self._persist("POST", path, headers=headers, **options)
        except _NoAnswerError as error:
            raise OutcomeUnknownError(str(error), operation_id=key) from error
        try:
            return _checked(response, self._login_hint)
        except OutcomeUnknownError as error:
            error.operation_id = key
            raise

    def change(
        self, method: str, path: str, body: Json | None = None, *, expected_head: str | None = None
    ) -> Json:
        """Make or remove something that has no operation id, such as a branch."""
        headers = {IDEMPOTENCY_KEY: new_id()}
        if expected_head is not None:
            headers[IF_COMMIT] = expected_head
        sent = _known(body) if body else None
        response = self._persist(method, path, json=sent, headers=headers)
        return _body(_checked(response, self._login_hint))

    def head(self, path: str, params: Parameters) -> Response:
        """Ask about something without getting it; a redirect is an answer."""
        response = self._persist("HEAD", path, params=params)
        if response.status_code >= 400:
            # The answer to HEAD has no body to learn the reason from.
            response = self._persist("GET", path, params=params)
        return _checked(response, self._login_hint)

    @contextlib.contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        params: Parameters | None = None,
        accept: str | None = None,
    ) -> Iterator[Response]:
        """Get an answer piece by piece."""
        sent = None if body is None else _known(body)
        headers = _accept(accept)
        target = f"{self._prefix}{path}"
        try:
            with self._http.stream(
                method, target, params=_parameters(params), json=sent, headers=headers
            ) as response:
                if response.status_code >= 300:
                    response.read()
                    _checked(response, self._login_hint)
                yield response
        except (NotSentError, AnswerLostError) as error:
            raise _unreachable(self.url, error) from error

    def _send(
        self, method: str, path: str, *, params: Parameters | None = None, **options: Any
    ) -> Response:
        try:
            return self._http.request(
                method, f"{self._prefix}{path}", params=_parameters(params), **options
            )
        except NotSentError as error:
            raise _unreachable(self.url, error) from error
        except AnswerLostError as error:
            raise _NoAnswerError(self.url, error) from error
        except (ValueError, TypeError) as error:
            raise BadRequestError(f"a value is not expressible as JSON: {error}") from error


class _NoAnswerError(StorageError):
    """The request was sent, and no answer came."""

    def __init__(self, url: str, error: AnswerLostError) -> None:
        super().__init__(f"no answer from {url}: {error}", failure=StorageFailureKind.UNKNOWN)
        self.timed_out = error.timed_out


def _address(url: str) -> SplitResult:
    """Return the parts of a server's address. Raises for what is not an address."""
    refused = BadRequestError(f"{url!r} is not a server address", hint="use https://host")
    try:
        parts = urlsplit(url)
        # Looking at the port is what checks it.
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        raise refused from None
    if not known:
        raise refused
    return parts


def _unreachable(url: str, error: Exception) -> StorageError:
    return StorageError(
        f"cannot reach {url}: {error}",
        failure=StorageFailureKind.TRANSIENT,
        hint="check the address, and that the server is running",
    )


_OF_BRANCH = re.compile(r"HEAD(?:[~^@].*)?|@\{.*", re.DOTALL)


def state_fields(
    branch: str | None,
    commit: str | None,
    version: int | None,
    tag: str | None,
    timestamp: datetime.datetime | str | None,
) -> Json:
    """Return the fields that say which state is meant."""
    if commit is not None and branch is not None and _OF_BRANCH.fullmatch(commit):
        # A server takes a branch or a state: here it is a state of that branch.
        commit = f"{branch}{commit.removeprefix('HEAD')}"
    return {
        "branch": branch if commit is None else None,
        "snapshot": commit,
        "version": version,
        "tag": tag,
        "timestamp": moment_text(timestamp),
    }


def moment_text(timestamp: datetime.datetime | str | None) -> str | None:
    """Return an instant as it travels."""
    return timestamp.isoformat() if isinstance(timestamp, datetime.datetime) else timestamp


def new_id() -> str:
    """Return an id for a write. The source of ids is loaded for writes only."""
    from omnigraph.ids import UlidSource

    return UlidSource().next()


def _known(body: Json) -> Json:
    return {name: value for name, value in body.items() if value is not None}


def _parameters(params: Parameters | None) -> Parameters | None:
    known = _known(dict(params or {}))
    return {n: str(v).lower() if isinstance(v, bool) else v for n, v in known.items()} or None


def _accept(accept: str | None) -> dict[str, str]:
    return {} if accept is None else {"Accept": accept}


def _asked_to_wait(response: Answer) -> float | None:
    """Return the pause a busy server asks for, None where it does not, or for too long a one."""
    if response.status_code not in (429, 503):
        return None
    seconds = retry_after_s(response.headers)
    return None if seconds is None or seconds > CLIENT_RETRY_AFTER_S_MAX else seconds


def _settled(response: A, lost: _NoAnswerError | None) -> A:
    """Return an answer, unless an earlier one was lost and this does not tell what became of it."""
    refused = response.status_code in (401, 403, 408, 429) or response.status_code >= 500
    if lost is not None and refused:
        raise lost
    return response


def _checked(response: A, login_hint: str | None = None) -> A:
    """Return an answer. Raises what a failure stands for; a refused token has a hint."""
    if response.status_code < 400:
        return response
    error = _failure(response)
    if isinstance(error, TooManyRequestsError):
        error.retry_after_s = math.ceil(retry_after_s(response.headers) or 0)
    if isinstance(error, UnauthorizedError) and error.hint is None:
        error.hint = login_hint
    raise error


def _failure(response: Answer) -> OmniGraphError:
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {"error": f"the server answered {response.status_code}"}
    return error_from(response.status_code, body)


def _body(response: Answer) -> Json:
    try:
        body = response.json()
    except ValueError as error:
        raise StorageError(
            "the answer is not from an OmniGraph server", hint="check the address"
        ) from error
    return body if isinstance(body, dict) else {}
