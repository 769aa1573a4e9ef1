"""Who a commit is. Identities of new commits are made here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.clock import now_us
from omnigraph.commits.intents import Intent
from omnigraph.commits.records import RECOVERY, RECOVERY_ACTOR


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitIdentity:
    """Who a commit is: minted once per operation, kept through every retry."""

    operation_id: str
    commit_id: str
    kind: str
    actor_id: str | None
    created_at_us: int
    schema_hash: str
    recovery_for_actor: str | None = None
    merged_parent_commit_id: str | None = None
    merged_branch: str | None = None


def mint(
    new_id: Callable[[], str],
    kind: str,
    *,
    actor_id: str | None,
    operation_id: str,
    merged_parent: str | None = None,
    merged_branch: str | None = None,
) -> CommitIdentity:
    """Return the identity of a commit to be made; its schema is that of the state it is made on."""
    return CommitIdentity(
        operation_id=operation_id,
        commit_id=new_id(),
        kind=kind,
        actor_id=actor_id,
        created_at_us=now_us(),
        schema_hash="",
        merged_parent_commit_id=merged_parent,
        merged_branch=merged_branch,
    )


def finishing(intent: Intent) -> CommitIdentity:
    """Return the identity under which recovery finishes a commit of a dead owner."""
    return CommitIdentity(
        operation_id=intent.operation_id,
        commit_id=intent.commit_id,
        kind=intent.kind,
        actor_id=RECOVERY_ACTOR,
        created_at_us=intent.created_at_us,
        schema_hash=intent.schema_hash,
        recovery_for_actor=intent.actor_id,
        merged_parent_commit_id=intent.merged_parent_commit_id,
        merged_branch=intent.merged_branch,
    )


def undoing(intent: Intent, schema_hash: str) -> CommitIdentity:
    """Return the identity under which recovery undoes what a dead owner began.

    The schema is the head's: a schema change that is undone was never accepted.
    """
    return CommitIdentity(
        operation_id=intent.rollback_id,
        commit_id=intent.rollback_id,
        kind=RECOVERY,
        actor_id=RECOVERY_ACTOR,
        created_at_us=intent.created_at_us,
        schema_hash=schema_hash,
        recovery_for_actor=intent.actor_id,
    )
