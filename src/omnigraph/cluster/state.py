"""What was applied to a cluster: one file, replaced as a whole, and only by who saw it last.

Beside it lie the texts it points to, by digest and never changed, and a lock. The lock spares two
appliers useless work and tells people who is at it; what decides is the replacement, which fails
when the file is no longer the one that was read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from omnigraph.clock import now_us
from omnigraph.errors import OmniGraphError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.ids import UlidSource
from omnigraph.store import ControlFiles, Durability, locate, new_syncer, open_slots

FOLDER = "__cluster"
STATE = f"{FOLDER}/state.json"
LOCK = "lock.json"
STATE_VERSION = 1
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
T = TypeVar("T")


class Applied(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A resource as it was applied; `bindings` is what a policy or a provider is for."""

    digest: str
    bindings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Put the bindings in order: who is named first does not matter."""
        msgspec.structs.force_setattr(self, "bindings", tuple(sorted(self.bindings)))


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """All that was applied."""

    config_digest: str | None = None
    resources: dict[str, Applied] = {}


class Status(msgspec.Struct, frozen=True):
    """How a resource is."""

    status: str
    message: str | msgspec.UnsetType = msgspec.UNSET
    conditions: list[str] = []


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """An actor's consent to one destructive change, from one digest to another."""

    id: str
    resource: str
    operation: str
    before_digest: str | None = None
    after_digest: str | None = None
    approved_by: str
    created_at: int


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file.

    `approvals` are those nothing used yet, by resource. The graphs in `removing` are gone, but
    perhaps not yet their files. Records are for people.
    """

    version: int = STATE_VERSION
    state_revision: int = 0
    applied_revision: Revision = Revision()
    resource_statuses: dict[str, Status] = {}
    approvals: dict[str, Approval] = {}
    removing: tuple[str, ...] = ()
    approval_records: dict[str, dict[str, object]] = {}

    @property
    def resources(self) -> dict[str, Applied]:
        """What was applied, by address."""
        return self.applied_revision.resources


EMPTY = State()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A state and the bytes it was read from, None for a cluster without one.

    `older` names files whose content is in the state now; they go when it is written.
    """

    state: State = EMPTY
    body: bytes | None = None
    older: tuple[str, ...] = ()

    @property
    def cas(self) -> str | None:
        """Identifies what was applied; approvals and clearing away change nothing about that."""
        if self.body is None:
            return None
        applied = msgspec.structs.replace(self.state, approvals={}, removing=())
        return _digest(msgspec.json.encode(applied))


class LockBody(msgspec.Struct, frozen=True):
    """Who holds the lock."""

    id: str
    operation: str
    pid: int
    created_at: int


class StateError(Exception):
    """The state cannot be used; `diagnostic` is the code to report. Never leaves this room."""

    def __init__(self, diagnostic: str, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.diagnostic = diagnostic


class StateFile:
    """The state of one cluster, and what lies beside it."""

    def __init__(self, root: str) -> None:
        self.root = root
        location = locate(root)
        self._syncer = new_syncer(location, Durability.FULL)
        self.control = ControlFiles(location, self._syncer)
        self._slots = open_slots(location, self._syncer, folder=FOLDER)
        self._ids = UlidSource()
        self._held: str | None = None

    def close(self) -> None:
        """Release threads."""
        self._syncer.close()

    def read(self) -> Stored:
        """Return what was applied. Raises `StateError` for a file that cannot be used."""
        body = self.control.read(STATE)
        if body is None:
            return Stored()
        ledger: object = decoded(body, object, "the ledger")
        version = ledger.get("version") if isinstance(ledger, dict) else None
        if version != STATE_VERSION:
            message = f"the ledger has version {version}; this release reads {STATE_VERSION}"
            raise StateError("unsupported_state_version", message)
        return Stored(state=decoded(body, State, "the ledger"), body=body)

    def write(self, before: Stored, state: State) -> Stored:
        """Replace the state if it still is what was read. Raises `StateError` if it is not."""
        fire(Failpoint.CLUSTER_PRE_STATE)
        self.check_lock()
        body = msgspec.json.format(msgspec.json.encode(state), indent=2)
        if not self.control.replace_if(STATE, before.body, body):
            raise StateError("state_cas_mismatch", "another process changed the ledger meanwhile")
        fire(Failpoint.CLUSTER_POST_STATE)
        for name in before.older:
            self.control.delete(name)
        return Stored(state=state, body=body)

    def new_id(self) -> str:
        """Return an id that was never used."""
        return self._ids.next()

    # ---- the lock -------------------------------------------------------------------------

    @contextlib.contextmanager
    def lock(self, operation: str) -> Iterator[None]:
        """Hold the lock, perhaps that of a process that died. Raises `StateError`."""
        self._held = self.new_id()
        body = msgspec.json.encode(LockBody(self._held, operation, os.getpid(), now_us()))
        slot = self._slots.take(LOCK, body)
        if slot is None:
            self._slots.wait_until_known([LOCK])
            slot = self._slots.seize(LOCK)
            if slot is not None:
                slot.rewrite(body)
        if slot is None:
            other = self.lock_body()
            who = "" if other is None else f" ({other[0].operation}, lock {other[0].id})"
            raise StateError("state_lock_held", f"the cluster is being changed{who}")
        fire(Failpoint.CLUSTER_POST_LOCK)
        try:
            yield
        finally:
            slot.remove()

    def lock_body(self) -> tuple[LockBody, bool] | None:
        """Return who holds the lock and whether they live; None when it is free."""
        slot = self._slots.peek(LOCK)
        if slot is None:
            return None
        try:
            return msgspec.json.decode(slot[0], type=LockBody), slot[1]
        except UNREADABLE:
            return LockBody("", "unreadable", 0, 0), slot[1]

    def check_lock(self) -> None:
        """Stop when the lock was taken away. Raises `StateError`."""
        lock = self.lock_body()
        if lock is None or lock[0].id != self._held:
            raise StateError("state_cas_mismatch", "another process took the lock meanwhile")

    def force_unlock(self, lock_id: str) -> None:
        """Remove the lock of this id, also of an owner that lives. Raises `StateError`."""
        lock = self.lock_body()
        if lock is None:
            raise StateError("state_lock_missing", "there is no lock")
        if lock[0].id != lock_id:
            raise StateError("state_lock_id_mismatch", f"the lock is {lock[0].id}")
        self.control.delete(f"{FOLDER}/{LOCK}")

    # ---- texts ----------------------------------------------------------------------------

    def keep_payload(self, address: str, text: str) -> None:
        """Keep a text under its digest; it may be there already."""
        body = text.encode("utf-8")
        self.control.create(payload_name(address, _digest(body)), body)

    def payload(self, address: str, digest: str) -> str:
        """Return a kept text. Raises `StateError` when it is gone or not what it was."""
        name = payload_name(address, digest)
        try:
            body = self.control.read(name)
        except OmniGraphError as error:
            raise StateError("catalog_payload_read_error", error.message) from error
        if body is None:
            raise StateError("catalog_payload_missing", f"{name} is gone")
        if _digest(body) != digest:
            raise StateError("catalog_payload_mismatch", f"{name} was changed")
        return body.decode("utf-8")


def observations(file: StateFile, stored: Stored) -> dict[str, object]:
    """Return what can be seen of a state and its lock."""
    held, state = file.lock_body(), stored.state
    fields: dict[str, object | None] = {
        "state_path": f"{file.root}/{STATE}",
        "lock_path": f"{file.root}/{FOLDER}/{LOCK}",
        "state_found": stored.body is not None,
        "state_revision": state.state_revision,
        "resource_count": len(state.resources),
        "applied_config_digest": state.applied_revision.config_digest,
        "state_cas": stored.cas,
        "locked": held is not None and held[1],
    }
    if held is not None:
        body = msgspec.structs.asdict(held[0])
        fields |= {f"lock_{name}": value for name, value in body.items()}
        fields["lock_age_seconds"] = max(0, (now_us() - held[0].created_at) // 1_000_000)
    return {name: value for name, value in fields.items() if value is not None}


def revision_digest(resources: Mapping[str, Applied]) -> str:
    """Identify resources as a whole, wished for or applied: equal when all of them are."""
    entries = {address: [item.digest, item.bindings] for address, item in resources.items()}
    return _digest(json.dumps(entries, sort_keys=True).encode())


def revision_of(resources: dict[str, Applied]) -> Revision:
    """Return resources as what was applied."""
    return Revision(resources=resources, config_digest=revision_digest(resources))


def payload_name(address: str, digest: str) -> str:
    """Return where the text of a query, policy or provider is kept."""
    kind, _, rest = address.partition(".")
    ending = {"query": "gq", "provider": "json"}.get(kind, "yaml")
    place = rest.replace(".", "/", 1) if kind == "query" else rest
    return f"{FOLDER}/resources/{kind}/{place}/{digest}.{ending}"


def decoded(body: bytes, shape: type[T], name: str) -> T:
    """Return what some bytes hold. Raises `StateError`."""
    try:
        return msgspec.json.decode(body, type=shape)
    except UNREADABLE as error:
        raise StateError("invalid_state_json", f"{name} is damaged: {error}") from error


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
