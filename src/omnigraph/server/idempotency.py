"""Requests that carry a key: each has its effect once, and its answer is given again.

A key is bound to its actor, its route and all else that was sent. What a commit remembers is
recognised by its operation id, which is made of the key and of a digest of the request: a commit
never stands for a request with another body, whatever became of the record of keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from starlette.requests import Request

from omnigraph.errors import BadRequestError, OmniGraphError, OutcomeUnknownError
from omnigraph.server.http_errors import HttpProblem
from omnigraph.store import Claim, RequestKeys
from omnigraph.values.commits import keyed_operation
from omnigraph.values.headers import IDEMPOTENCY_KEY, MESSAGE

T = TypeVar("T")
Json = dict[str, object]
Landed = Callable[[OmniGraphError, Claim], T | None]
"""Tells of a refusal whether it was this request that had its way before: then what it made."""

KEY_CHARS_MAX = 128
DIGEST_CHARS = 32
NESTED = "/graphs/{graph_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """A request with a key: the name of the key, and the digest of what was sent with it."""

    key: str
    name: str
    request: str

    @property
    def operation_id(self) -> str:
        """The id of the operation this request is, and no other."""
        return keyed_operation(self.key, name=self.name, request=self.request)


def keyed(request: Request, actor: str | None, body: bytes) -> Keyed | None:
    """Return a request by its key; None for one that has none. Raises `BadRequestError`."""
    given = request.headers.getlist(IDEMPOTENCY_KEY)
    if not given:
        return None
    key = given[0]
    if len(given) > 1 or not key.strip() or len(key) > KEY_CHARS_MAX or not key.isascii():
        raise BadRequestError(
            f"the header {IDEMPOTENCY_KEY} must be 1 to {KEY_CHARS_MAX} characters, given once"
        )
    # The same route has one name, whether the graph is in the path or not.
    route = request.scope["route"].path.removeprefix(NESTED)
    path = {k: v for k, v in request.path_params.items() if k != "graph_id"}
    name = _digest(actor is not None, actor or "", request.method, route, key)
    content = hashlib.sha256(body).hexdigest()
    message = request.headers.getlist(MESSAGE)
    parts = [path, sorted(request.query_params.multi_items()), content]
    sent = _digest(*parts, *([message] if message else []))
    return Keyed(key=key, name=name, request=sent)


def _digest(*parts: object) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:DIGEST_CHARS]


def once(
    keys: RequestKeys,
    asked: Keyed,
    work: Callable[[str], T],
    tell: Callable[[T], Json],
    *,
    lasting: bool,
    landed: Landed[T] | None,
) -> Json:
    """Do some work unless it was done, and return what it is answered.

    With `lasting` no commit remembers it: its answer is kept. So is that of work without effect.
    """
    with keys.turn(asked.name):
        claim = keys.claim(asked.name, asked.request, durable=lasting)
        if claim is None:
            raise HttpProblem(
                422,
                f"the {IDEMPOTENCY_KEY} '{asked.key}' was used for another request: a key stands "
                "for one request with one body",
                type_="idempotency_key_reused",
            )
        if claim.answer is not None:
            return claim.answer
        outcome = _done(keys, asked, claim, work, landed)
        answer = tell(outcome)
        if lasting or getattr(outcome, "commit", None) is None:
            keys.settle(asked.name, asked.request, claim, answer, durable=lasting)
        return answer


def _done(
    keys: RequestKeys,
    asked: Keyed,
    claim: Claim,
    work: Callable[[str], T],
    landed: Landed[T] | None,
) -> T:
    try:
        return work(asked.operation_id)
    except OutcomeUnknownError as error:
        raise OutcomeUnknownError(error.message, operation_id=asked.key) from error
    except OmniGraphError as error:
        # One that was begun before and has no answer: its process ended, or another has it.
        outcome = None if claim.is_new or landed is None else landed(error, claim)
        if outcome is not None:
            return outcome
        if claim.is_new and error.http_status < 500:
            keys.release(asked.name)
        raise
