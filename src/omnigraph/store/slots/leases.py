"""Slots in an object store: the owner holds a lease, which it renews while it works.

Owner and others never compare clocks. An owner that is alive changes its slot at every third of a
lease; a process that has seen the same content for a whole lease and a margin, on its own clock,
may take the slot over. Every change is a put under the condition that the content is the one that
was seen, and carries a nonce of its own, so a put whose answer was lost is recognised by looking.

An owner that was out for too long loses its slot without knowing. That costs it a retry, never
data: the exact publish decides. Such an owner must not delete the slot, which may be another's.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from omnigraph.bounded import BoundedCache
from omnigraph.clock import elapsed_s, sleep
from omnigraph.errors import ConflictError, OmniGraphError
from omnigraph.limits import LEASE_MARGIN_S, LEASE_POLL_S, LEASE_S, SLOTS_SEEN_MAX
from omnigraph.store.files.counters import count

if TYPE_CHECKING:
    from omnigraph.store.files.object_files import ObjectFiles, Tag


def _enveloped(body: bytes) -> bytes:
    """Return a slot's content: a first line that is never the same, then the body."""
    return json.dumps({"nonce": secrets.token_hex(16)}).encode() + b"\n" + body


def slot_body(content: bytes) -> bytes:
    """Return the body in a slot's content."""
    return content.partition(b"\n")[2]


class LeasedSlot:
    """A slot this process owns, renewed by a thread until it is removed or closed."""

    def __init__(self, files: ObjectFiles, path: str, body: bytes, tag: Tag, since: float) -> None:
        self.name = path.rpartition("/")[2]
        self.body = body
        self._files = files
        self._path = path
        self._tag: Tag | None = tag
        self._renewed = since
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._renew, name="omnigraph-lease", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def lapsed(self) -> bool:
        """Whether another process may have taken the slot over."""
        return self._tag is None or elapsed_s() - self._renewed > LEASE_S - LEASE_MARGIN_S

    def rewrite(self, body: bytes) -> None:
        """Replace the body. Raises `ConflictError` when the slot is no longer ours."""
        with self._lock:
            if not self._swap(body):
                raise ConflictError("another writer took over the branch", hint="try again")
            self.body = body

    def _swap(self, body: bytes) -> bool:
        """Put a body under the content last seen; False when that is gone."""
        if self._tag is None:
            return False
        # From before the put: others may have seen it from then on.
        begun = elapsed_s()
        self._tag = self._files.swap(self._path, _enveloped(body), self._tag)
        if self._tag is not None:
            self._renewed = begun
        return self._tag is not None

    def _renew(self) -> None:
        while not self._closed.wait(LEASE_S / 3):
            with self._lock:
                if self._closed.is_set():
                    return
                try:
                    if not self._swap(self.body):
                        return
                except OmniGraphError:
                    # The store is not answering: the next turn tries again, or the lease lapses.
                    continue

    def remove(self) -> None:
        """Delete the slot while it is surely ours; otherwise leave it to a recovery."""
        if self._closed.is_set():
            return
        self._closed.set()
        with self._lock:
            if not self.lapsed:
                count("slot_deletes")
                self._files.delete(self._path)

    def close(self) -> None:
        """Stop renewing and leave the slot: it is dead when its lease has passed."""
        self._closed.set()


class LeasedSlots:
    """The slots below one prefix of an object store."""

    def __init__(self, folder: str, files: ObjectFiles) -> None:
        self._folder = folder
        self._files = files
        self._lock = threading.Lock()
        # What was seen last of a slot, and since when.
        self._seen: BoundedCache[str, tuple[Tag, float]] = BoundedCache(SLOTS_SEEN_MAX)

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def take(self, name: str, body: bytes) -> LeasedSlot | None:
        """Create a slot; None when the name is held."""
        count("slot_puts")
        begun = elapsed_s()
        tag = self._files.put_new(self._path(name), _enveloped(body))
        return None if tag is None else LeasedSlot(self._files, self._path(name), body, tag, begun)

    def seize(self, name: str) -> LeasedSlot | None:
        """Take over a slot that was not renewed for a lease; None when its owner may live."""
        stored = self._files.get(self._path(name))
        if stored is None:
            self._forget(name)
            return None
        content, tag = stored
        if not self._dead(name, tag):
            return None
        begun = elapsed_s()
        body = slot_body(content)
        ours = self._files.swap(self._path(name), _enveloped(body), tag)
        return (
            None if ours is None else LeasedSlot(self._files, self._path(name), body, ours, begun)
        )

    def _dead(self, name: str, tag: Tag) -> bool:
        """Whether a slot has had this content for longer than a living owner would leave it."""
        with self._lock:
            known = self._seen.get(name)
            if known is None or known[0] != tag:
                self._seen.put(name, (tag, elapsed_s()))
                return False
            return elapsed_s() - known[1] > LEASE_S + LEASE_MARGIN_S

    def _forget(self, name: str) -> None:
        with self._lock:
            self._seen.pop(name)

    def peek(self, name: str) -> tuple[bytes, bool] | None:
        """Return a slot's body and whether its owner may live; None when it is gone."""
        stored = self._files.get(self._path(name))
        if stored is None:
            self._forget(name)
            return None
        return slot_body(stored[0]), not self._dead(name, stored[1])

    def exists(self, name: str) -> bool:
        """Whether there is a slot of this name."""
        return self._files.exists(self._path(name))

    def names(self) -> list[str]:
        """List every slot."""
        count("slot_lists")
        return [name for name in self._files.names(self._folder) if not name.startswith(".")]

    def wait_until_known(self, names: Iterable[str]) -> None:
        """Watch slots until each was renewed, went away, or is known to be dead."""
        wanted = list(names)
        # As many at once as are remembered: a slot that was forgotten would be watched anew.
        for start in range(0, len(wanted), self._seen.limit):
            self._watch(wanted[start : start + self._seen.limit])

    def _watch(self, names: list[str]) -> None:
        open_names = {name: self._files.tag(self._path(name)) for name in names}
        for name, tag in open_names.items():
            if tag is not None:
                self._dead(name, tag)
        pending = {name: tag for name, tag in open_names.items() if tag is not None}
        while pending:
            for name, first in list(pending.items()):
                tag = self._files.tag(self._path(name))
                if tag is None or tag != first or self._dead(name, tag):
                    del pending[name]
            if pending:
                sleep(LEASE_POLL_S)

    def remove_unfinished(self) -> int:
        """Return 0: a slot is put as a whole, with its name."""
        return 0

    def wait(self, name: str, *, timeout_s: float) -> bool:
        """Wait until a slot is gone or its lease has passed; False when it is still held."""
        deadline = elapsed_s() + timeout_s
        pause_s = LEASE_POLL_S / 8
        while elapsed_s() < deadline:
            tag = self._files.tag(self._path(name))
            if tag is None:
                self._forget(name)
                return True
            if self._dead(name, tag):
                return True
            sleep(pause_s)
            pause_s = min(pause_s * 1.5, LEASE_POLL_S)
        return False
