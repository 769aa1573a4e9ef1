"""Vectors made by a server that speaks the OpenAI embeddings interface."""

from __future__ import annotations

import json
import threading
import urllib.parse
import weakref
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from omnigraph.clock import elapsed_s, sleep
from omnigraph.embed.protocol import Vectors
from omnigraph.errors import BadRequestError, EmbeddingError
from omnigraph.http_client import (
    AnswerLostError,
    HttpClient,
    NotSentError,
    Response,
    retry_after_s,
)

_TRY_AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
_SHOWN_CHARS = 300


class Patience(Struct, frozen=True, kw_only=True):
    """How long one call may take, and how often it is tried."""

    timeout_s: float = 30.0
    deadline_s: float = 60.0
    attempts: int = 4
    backoff_s: float = 0.2


class HttpEmbedder:
    """Posts texts to `<base_url>/embeddings` over connections it keeps. Threads may share it.

    >>> og.HttpEmbedder("bge-small", base_url="http://127.0.0.1:8081/v1")
    HttpEmbedder('bge-small', url='http://127.0.0.1:8081/v1/embeddings')
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None = None,
        patience: Patience | None = None,
        sleep: Callable[[float], None] = sleep,
    ) -> None:
        if urllib.parse.urlsplit(base_url).scheme not in ("http", "https"):
            raise BadRequestError(f"the embedding server must be an http address, not {base_url!r}")
        self.model = model
        self._base_url = base_url.rstrip("/")
        self._url = f"{self._base_url}/embeddings"
        self._api_key = api_key
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http: HttpClient | None = None
        self._lock = threading.Lock()
        self._patience = patience or Patience()
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"HttpEmbedder({self.model!r}, url={self._url!r})"

    def embed(self, texts: Sequence[str], *, dimension: int) -> Vectors:
        """Return one vector per text. Raises `EmbeddingError`."""
        body = {"model": self.model, "input": list(texts), "dimensions": dimension}
        answer = self._post(json.dumps(body).encode())
        try:
            items = sorted(json.loads(answer)["data"], key=lambda item: item["index"])
            return [item["embedding"] for item in items]
        except (ValueError, KeyError, TypeError) as error:
            raise EmbeddingError(f"{self._url} did not answer with embeddings") from error

    def _post(self, body: bytes) -> bytes:
        patience = self._patience
        ends = elapsed_s() + patience.deadline_s
        problem, wait = "no attempt was made", 0.0
        for attempt in range(patience.attempts):
            if attempt:
                pause = max(wait, patience.backoff_s * 2 ** (attempt - 1))
                self._sleep(min(pause, max(ends - elapsed_s(), 0.0)))
            left = ends - elapsed_s()
            if left <= 0:
                problem = f"{problem}; {patience.deadline_s:g} seconds are over"
                break
            try:
                answer = self._send_request(body, min(patience.timeout_s, left))
            except (NotSentError, AnswerLostError) as error:
                problem, wait = str(error.__cause__ or error) or str(error), 0.0
                continue
            if answer.status_code < 300:
                return answer.content
            text = answer.content[:4096].decode("utf-8", "replace")
            problem = f"status {answer.status_code}: {text[:_SHOWN_CHARS]}"
            if answer.status_code not in _TRY_AGAIN:
                break
            wait = retry_after_s(answer.headers) or 0.0
        raise EmbeddingError(f"embedding with model '{self.model}' at {self._url}: {problem}")

    def _send_request(self, body: bytes, timeout_s: float) -> Response:
        return self._connected().request(
            "POST",
            "/embeddings",
            content=body,
            headers={"Content-Type": "application/json"},
            timeout=timeout_s,
        )

    def _connected(self) -> HttpClient:
        """Return what keeps the connections; a copy in another process has its own."""
        with self._lock:
            if self._http is None:
                self._http = HttpClient(self._base_url, self._headers, self._patience.timeout_s)
                weakref.finalize(self, self._http.close)
            return self._http

    def __reduce__(self) -> tuple[object, ...]:
        again = partial(
            HttpEmbedder,
            self.model,
            base_url=self._base_url,
            api_key=self._api_key,
            patience=self._patience,
            sleep=self._sleep,
        )
        return again, ()
