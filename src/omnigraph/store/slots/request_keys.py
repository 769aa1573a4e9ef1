"""Keys that callers gave their requests: each is bound to one request, by a small file.

The process that makes the file binds the key, so that several processes on one graph agree. The
file holds the answer as well, for requests that leave no commit to be recognised by.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from omnigraph.clock import now_us
from omnigraph.errors import ConflictError, StorageError
from omnigraph.limits import KEY_CLAIM_ATTEMPTS_MAX, KEY_SWEEP_EVERY
from omnigraph.store.files.durability import Syncer
from omnigraph.store.files.location import Location

REQUESTS_FOLDER = "__requests"
Answer = dict[str, Any]
_SHARD_CHARS = 2


class _Bound(msgspec.Struct, frozen=True, kw_only=True):
    """What the file of a key says."""

    request: str
    at_us: int
    answer: Answer | None = None


class Claim(Struct, frozen=True, kw_only=True):
    """A key that is bound to a request: since when, by this call or before, with which answer."""

    is_new: bool
    since_us: int
    answer: Answer | None = None


class RequestKeys:
    """The keys that were used on one graph. Threads and processes may share them."""

    def __init__(self, location: Location, syncer: Syncer, *, kept_s: float) -> None:
        self._location = location
        self._files = location.files
        self._syncer = syncer
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._turns: dict[str, tuple[threading.Lock, int]] = {}
        self._claims = 0

    @contextlib.contextmanager
    def turn(self, key: str) -> Iterator[None]:
        """Let the requests of this process that carry the same key take turns."""
        with self._lock:
            lock, users = self._turns.get(key, (threading.Lock(), 0))
            self._turns[key] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, users = self._turns.pop(key)
                if users > 1:
                    self._turns[key] = lock, users - 1

    def claim(self, key: str, request: str, *, durable: bool) -> Claim | None:
        """Bind a key to a request; None when it is bound to another one already.

        With `durable` it survives a power loss as well as a restart.
        """
        self._sweep_sometimes(key)
        path = self._path(key)
        for _attempt in range(KEY_CLAIM_ATTEMPTS_MAX):
            mine = _Bound(request=request, at_us=now_us())
            content = msgspec.json.encode(mine)
            if self._files.create(path, content, sync=False):
                self._sync(path, durable)
                return Claim(is_new=True, since_us=mine.at_us)
            stored = self._files.read(path)
            known = _decoded(stored)
            if stored is not None and (known is None or self._is_over(known.at_us)):
                if not self._files.replace_if(path, stored, content, sync=False):
                    continue
                self._sync(path, durable)
                return Claim(is_new=True, since_us=mine.at_us)
            if known is None:
                continue  # it was given back meanwhile
            if known.request != request:
                return None
            return Claim(is_new=False, since_us=known.at_us, answer=known.answer)
        raise ConflictError("the key is used by another request right now", hint="try again")

    def settle(
        self, key: str, request: str, claim: Claim, answer: Answer, *, durable: bool
    ) -> None:
        """Remember what a request was answered."""
        path = self._path(key)
        bound = _Bound(request=request, at_us=claim.since_us, answer=answer)
        self._files.replace(path, msgspec.json.encode(bound), sync=False)
        self._sync(path, durable)

    def release(self, key: str) -> None:
        """Give a key back whose request was refused: nothing came of it."""
        path = self._path(key)
        known = _decoded(self._files.read(path))
        if known is not None and known.answer is None:
            self._files.delete(path)

    def _sync(self, path: str, durable: bool) -> None:
        if durable:
            self._syncer.sync([path])

    def _path(self, key: str) -> str:
        return self._location.path(f"{REQUESTS_FOLDER}/{key[:_SHARD_CHARS]}/{key}.json")

    def _is_over(self, at_us: int) -> bool:
        return at_us + self._kept_s * 1e6 < now_us()

    def _sweep_sometimes(self, key: str) -> None:
        """Now and then forget old keys of one folder: no request has to wait for all of them."""
        with self._lock:
            self._claims += 1
            due = self._claims % KEY_SWEEP_EVERY == 0
        if due:
            # What stays is found again later; no request fails for it.
            with contextlib.suppress(StorageError):
                self.sweep(key[:_SHARD_CHARS])

    def sweep(self, shard: str) -> None:
        """Forget the old keys of one folder."""
        folder = self._location.path(f"{REQUESTS_FOLDER}/{shard}")
        for entry in list(self._files.entries(folder)):
            if self._is_over(int(entry.changed_at_s * 1e6)):
                self._files.delete(entry.path)


def _decoded(content: bytes | None) -> _Bound | None:
    """Return what a file says; None for none, and for one that a power loss cut off."""
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=_Bound)
    except msgspec.DecodeError:
        return None
