"""Durable intents: what a slot says its owner is about to do."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

import msgspec

from omnigraph.commits.groups import RowIds

INTENT_FORMAT = 1
GROUP_FORMAT = 2
"""Of a plan that makes several commits. An older release says that it cannot read it."""
MESSAGE_FORMAT = 3
"""Of a plan whose commits carry a message."""
NAME_CHARS_MAX = 120
UNSTAGED = "unstaged"
"""In place of a transaction no version carries: recovery never takes such a change for complete."""


class IntentTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table the owner will move: from which version, under which transaction."""

    table_key: str
    incarnation: int
    path: str
    expected_version: int
    transaction_uuid: str


class IntentMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One of the commits a plan makes."""

    operation_id: str
    commit_id: str
    kind: str
    actor_id: str | None
    created_at_us: int
    touched: dict[str, RowIds] = {}
    message: str | msgspec.UnsetType = msgspec.UNSET


class Intent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A plan as it is written into a slot. Without tables it was never armed.

    Of several commits it names the last one, which decides about all; `members` names each.
    """

    format: int = INTENT_FORMAT
    operation_id: str
    commit_id: str
    rollback_id: str
    kind: str
    branch: str
    head_commit_id: str
    manifest_version: int
    actor_id: str | None
    schema_hash: str
    created_at_us: int
    merged_parent_commit_id: str | None = None
    merged_branch: str | None = None
    tables: tuple[IntentTable, ...] = ()
    members: tuple[IntentMember, ...] | msgspec.UnsetType = msgspec.UNSET
    message: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def group(self) -> tuple[IntentMember, ...]:
        """The commits of the plan if there are several, in their order."""
        return self.members or ()

    @property
    def commits(self) -> tuple[IntentMember, ...]:
        """Every commit of the plan, in their order."""
        return self.group or (
            IntentMember(
                operation_id=self.operation_id,
                commit_id=self.commit_id,
                kind=self.kind,
                actor_id=self.actor_id,
                created_at_us=self.created_at_us,
                message=self.message,
            ),
        )


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def encode_intent(intent: Intent) -> bytes:
    """Return the body of a slot."""
    return msgspec.json.encode(intent)


def decode_intent(body: bytes) -> Intent | None:
    """Return the intent in a slot's body, None when the body is torn or foreign."""
    try:
        return msgspec.json.decode(body, type=Intent)
    except _UNREADABLE:
        return None


def newer_format(body: bytes) -> int | None:
    """Return the format number of an intent some newer release wrote, else None."""
    try:
        fields = msgspec.json.decode(body)
    except _UNREADABLE:
        return None
    number = fields.get("format") if isinstance(fields, dict) else None
    return number if isinstance(number, int) and number > MESSAGE_FORMAT else None


def slot_name(branch_uid: str, head_commit_id: str) -> str:
    """Return the slot of a branch at a head. Long branch names are hashed: names have limits."""
    safe = quote(branch_uid, safe="")
    if len(safe) > NAME_CHARS_MAX:
        safe = hashlib.sha256(branch_uid.encode()).hexdigest()
    return f"{safe}@{head_commit_id}.json"
