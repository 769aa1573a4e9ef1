"""Vectors made by a server that speaks the OpenAI embeddings interface."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence

from msgspec import Struct

from omnigraph.clock import elapsed_s, sleep
from omnigraph.embed.protocol import Vectors
from omnigraph.errors import BadRequestError, EmbeddingError

_TRY_AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
_SHOWN_CHARS = 300


class Patience(Struct, frozen=True, kw_only=True):
    """How long one call may take, and how often it is tried."""

    timeout_s: float = 30.0
    deadline_s: float = 60.0
    attempts: int = 4
    backoff_s: float = 0.2


class HttpEmbedder:
    """Posts texts to `<base_url>/embeddings`.

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
        self._url = base_url.rstrip("/") + "/embeddings"
        self._api_key = api_key
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
        problem = "no attempt was made"
        for attempt in range(patience.attempts):
            left = ends - elapsed_s()
            if attempt:
                pause = min(patience.backoff_s * 2 ** (attempt - 1), max(left, 0.0))
                self._sleep(pause)
                left = ends - elapsed_s()
            if left <= 0:
                problem = f"{problem}; {patience.deadline_s:g} seconds are over"
                break
            try:
                return self._once(body, min(patience.timeout_s, left))
            except urllib.error.HTTPError as error:
                with error:
                    text = error.read(4096).decode("utf-8", "replace")
                problem = f"status {error.code}: {text[:_SHOWN_CHARS]}"
                if error.code not in _TRY_AGAIN:
                    break
            except (OSError, http.client.HTTPException) as error:
                problem = str(getattr(error, "reason", None) or error) or type(error).__name__
        raise EmbeddingError(f"embedding with model '{self.model}' at {self._url}: {problem}")

    def _once(self, body: bytes, timeout_s: float) -> bytes:
        headers = {"Content-Type": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        # The scheme was checked when the embedder was made.
        request = urllib.request.Request(self._url, data=body, headers=headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
            found: bytes = answer.read()
        return found
