"""The ledger of a cluster: what was applied, kept as one file that is replaced as a whole.

Around it lie the payloads it points to (by digest, never changed), the records of work that is
under way, and approvals. One process at a time writes, and it holds the lock; when it dies the
kernel frees the lock, and the next one finds the records.
"""

from __future__ import annotations

import hashlib
import os
from typing import TypeVar

import msgspec

from omnigraph.clock import now_us as now_us
from omnigraph.errors import ConflictError, OmniGraphError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.ids import UlidSource
from omnigraph.store import ControlFiles, Durability, HeldSlot, locate, new_syncer, open_slots

FOLDER = "__cluster"
STATE = f"{FOLDER}/state.json"
LOCK = "lock.json"
STATE_VERSION = 1
T = TypeVar("T")


class Applied(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A resource as it was applied."""

    digest: str
    bindings: list[str] = []


class Revision(msgspec.Struct, kw_only=True):
    """All that was applied."""

    config_digest: str | None = None
    resources: dict[str, Applied] = {}


class Status(msgspec.Struct, omit_defaults=True, kw_only=True):
    """How a resource is."""

    status: str
    conditions: list[str] = []
    message: str | None = None


class State(msgspec.Struct, kw_only=True):
    """The ledger's content."""

    version: int = STATE_VERSION
    state_revision: int = 0
    applied_revision: Revision = msgspec.field(default_factory=Revision)
    resource_statuses: dict[str, Status] = {}
    approval_records: dict[str, dict[str, object]] = {}
    recovery_records: dict[str, dict[str, object]] = {}
    observations: dict[str, object] = {}


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Something outside the ledger that is being done, noted before it begins."""

    id: str
    operation: str
    resource: str
    before_digest: str | None = None
    after_digest: str | None = None
    created_at: int


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody's consent to one destructive change, from one digest to another."""

    id: str
    resource: str
    operation: str
    before_digest: str | None = None
    after_digest: str | None = None
    approved_by: str
    created_at: int


class LockBody(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds the lock."""

    id: str
    operation: str
    pid: int
    created_at: int


class LedgerError(Exception):
    """The ledger cannot be used; `diagnostic` is the code to report. Never leaves this room."""

    def __init__(self, diagnostic: str, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.diagnostic = diagnostic


class Ledger:
    """The files of one cluster below its root."""

    def __init__(self, root: str, *, durability: Durability = Durability.FULL) -> None:
        self.root = root
        self._location = locate(root)
        self._syncer = new_syncer(self._location, durability)
        self._control = ControlFiles(self._location, self._syncer)
        self._slots = open_slots(self._location, self._syncer, folder=FOLDER)
        self._ids = UlidSource()

    def close(self) -> None:
        """Release threads."""
        self._syncer.close()

    # ---- the ledger itself ----------------------------------------------------------------

    def read(self) -> tuple[State, str] | None:
        """Return the ledger and what identifies its bytes; None when there is none yet."""
        body = self._control.read(STATE)
        if body is None:
            return None
        version = _version(body)
        if version != STATE_VERSION:
            raise LedgerError(
                "unsupported_state_version",
                f"the ledger has version {version}; this release reads {STATE_VERSION}",
            )
        return _decoded(body, State, "the ledger"), _digest(body)

    def write(self, state: State, *, expected: str | None, lock: Lock) -> str:
        """Replace the ledger if it still is what was read and the lock is still held."""
        fire(Failpoint.CLUSTER_PRE_STATE)
        before = self._control.read(STATE)
        actual = None if before is None else _digest(before)
        body = msgspec.json.format(msgspec.json.encode(state), indent=2)
        ours = actual == expected and lock.is_held()
        if not ours or not self._control.replace_if(STATE, before, body):
            raise LedgerError("state_cas_mismatch", "somebody else changed the ledger meanwhile")
        fire(Failpoint.CLUSTER_POST_STATE)
        return _digest(body)

    # ---- the lock -------------------------------------------------------------------------

    def lock(self, operation: str) -> Lock:
        """Take the lock, or that of somebody who died. Raises `LedgerError`."""
        held = LockBody(
            id=self._ids.next(), operation=operation, pid=os.getpid(), created_at=now_us()
        )
        body = msgspec.json.encode(held)
        slot = self._slots.take(LOCK, body)
        if slot is None:
            self._slots.settle([LOCK])
            slot = self._slots.seize(LOCK)
            if slot is not None:
                slot.rewrite(body)
        if slot is None:
            other = self.lock_body()
            who = "" if other is None else f" ({other[0].operation}, lock {other[0].id})"
            raise LedgerError("state_lock_held", f"the cluster is being changed{who}")
        fire(Failpoint.CLUSTER_POST_LOCK)
        return Lock(slot, held)

    def lock_body(self) -> tuple[LockBody, bool] | None:
        """Return who holds the lock and whether they live; None when nobody does."""
        found = self._slots.peek(LOCK)
        if found is None:
            return None
        try:
            return msgspec.json.decode(found[0], type=LockBody), found[1]
        except _UNREADABLE:
            return LockBody(id="", operation="unreadable", pid=0, created_at=0), found[1]

    def force_unlock(self, lock_id: str) -> None:
        """Remove the lock of this id, whoever holds it. Raises `LedgerError`."""
        found = self.lock_body()
        if found is None:
            raise LedgerError("state_lock_missing", "there is no lock")
        if found[0].id != lock_id:
            raise LedgerError("state_lock_id_mismatch", f"the lock is {found[0].id}")
        self._control.delete(f"{FOLDER}/{LOCK}")

    # ---- payloads, work and approvals -----------------------------------------------------

    def keep_payload(self, address: str, digest: str, text: str) -> None:
        """Keep a text under its digest; it may be there already."""
        self._control.create(payload_name(address, digest), text.encode("utf-8"))

    def payload(self, address: str, digest: str) -> str:
        """Return a kept text. Raises `LedgerError` when it is gone or not what it was."""
        name = payload_name(address, digest)
        try:
            body = self._control.read(name)
        except OmniGraphError as error:
            raise LedgerError("catalog_payload_read_error", error.message) from error
        if body is None:
            raise LedgerError("catalog_payload_missing", f"{name} is gone")
        if _digest(body) != digest:
            raise LedgerError("catalog_payload_mismatch", f"{name} was changed")
        return body.decode("utf-8")

    def begin(
        self, operation: str, resource: str, *, before: str | None, after: str | None
    ) -> Work:
        """Note that work outside the ledger begins."""
        work = Work(
            id=self._ids.next(),
            operation=operation,
            resource=resource,
            before_digest=before,
            after_digest=after,
            created_at=now_us(),
        )
        self._control.create(f"{FOLDER}/recoveries/{work.id}.json", msgspec.json.encode(work))
        fire(Failpoint.CLUSTER_POST_RECORD)
        return work

    def end(self, work: Work) -> None:
        """Forget work that the ledger tells of, or that never happened."""
        self._control.delete(f"{FOLDER}/recoveries/{work.id}.json")

    def unfinished(self) -> list[Work]:
        """Return the work that was begun and not ended, oldest first."""
        return self._records("recoveries", Work)

    def approve(
        self, resource: str, operation: str, before: str | None, after: str | None, actor: str
    ) -> Approval:
        """Keep somebody's consent to a change."""
        approval = Approval(
            id=self._ids.next(),
            resource=resource,
            operation=operation,
            before_digest=before,
            after_digest=after,
            approved_by=actor,
            created_at=now_us(),
        )
        name = f"{FOLDER}/approvals/{approval.id}.json"
        self._control.create(name, msgspec.json.encode(approval))
        return approval

    def approvals(self) -> list[Approval]:
        """Return the approvals nothing used yet, oldest first."""
        return self._records("approvals", Approval)

    def use_approval(self, approval: Approval) -> None:
        """Remove an approval whose change was made."""
        self._control.delete(f"{FOLDER}/approvals/{approval.id}.json")

    def _records(self, folder: str, shape: type[T]) -> list[T]:
        found: list[T] = []
        for name in self._control.names(f"{FOLDER}/{folder}"):
            body = self._control.read(f"{FOLDER}/{folder}/{name}")
            if body is not None:
                found.append(_decoded(body, shape, name))
        return found


class Lock:
    """The lock while it is held. A context manager that gives it back."""

    def __init__(self, slot: HeldSlot, body: LockBody) -> None:
        self._slot = slot
        self.body = body

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self._slot.remove()

    def is_held(self) -> bool:
        """Whether nobody took the lock away; one that only was not renewed in time is renewed."""
        if self._slot.lapsed:
            try:
                self._slot.rewrite(self._slot.body)
            except ConflictError:
                return False
        return self._slot.is_ours()


def payload_name(address: str, digest: str) -> str:
    """Return where the text of a query, policy or provider is kept."""
    kind, _, rest = address.partition(".")
    if kind == "query":
        graph_id, _, name = rest.partition(".")
        return f"{FOLDER}/resources/query/{graph_id}/{name}/{digest}.gq"
    if kind == "provider":
        return f"{FOLDER}/resources/provider/{rest}/{digest}.json"
    return f"{FOLDER}/resources/policy/{rest}/{digest}.yaml"


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _version(body: bytes) -> object:
    try:
        found = msgspec.json.decode(body)
    except _UNREADABLE as error:
        raise LedgerError("invalid_state_json", f"the ledger is damaged: {error}") from error
    return found.get("version") if isinstance(found, dict) else None


def _decoded(body: bytes, shape: type[T], name: str) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except _UNREADABLE as error:
        raise LedgerError("invalid_state_json", f"{name} is damaged: {error}") from error
