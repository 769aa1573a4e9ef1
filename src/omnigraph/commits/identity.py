"""Who a commit is. Identities of new commits are made here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.clock import now_us
from omnigraph.commits.groups import Group, Touched
from omnigraph.commits.intents import Intent, IntentMember
from omnigraph.commits.records import BRANCH_CREATE, RECOVERY, RECOVERY_ACTOR, GraphCommit


class CommitIdentity(Struct, frozen=True, kw_only=True):
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
    again: GraphCommit | None = None
    """The commit itself, if it exists already and is only taken over by another branch."""
    message: str | None = None


class CommitChain(Struct, frozen=True, kw_only=True):
    """The commits that one publish makes, each the parent of the next.

    Of several it is known what each touched; of one the tables tell.
    """

    members: tuple[CommitIdentity, ...]
    touched: tuple[Touched, ...] = ()

    @property
    def last(self) -> CommitIdentity:
        """The commit that is the head when all is published."""
        return self.members[-1]


def alone(identity: CommitIdentity) -> CommitChain:
    """Return a chain of one commit."""
    return CommitChain(members=(identity,))


def chained(members: Iterable[tuple[CommitIdentity, Touched]]) -> CommitChain:
    """Return commits as one chain, each made after the one before: a moment names one state."""
    identities: list[CommitIdentity] = []
    touched: list[Touched] = []
    for identity, rows in members:
        if identities:
            earliest = identities[-1].created_at_us + 1
            identity = replace(identity, created_at_us=max(identity.created_at_us, earliest))
        identities.append(identity)
        touched.append(rows)
    return CommitChain(
        members=tuple(identities), touched=tuple(touched) if len(identities) > 1 else ()
    )


def mint(
    new_id: Callable[[], str],
    kind: str,
    *,
    actor_id: str | None,
    operation_id: str,
    merged_parent: str | None = None,
    merged_branch: str | None = None,
    message: str | None = None,
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
        message=message,
    )


def taken_over(commits: Sequence[GraphCommit], group: Group) -> CommitChain:
    """Return the first commits of a group as those that a branch starts with."""
    touched = tuple(group.touched_by(item.graph_commit_id) for item in commits)
    return CommitChain(
        members=tuple(
            CommitIdentity(
                operation_id=item.operation_id,
                commit_id=item.graph_commit_id,
                # What the slot says is under way; the commits themselves stay what they are.
                kind=BRANCH_CREATE,
                actor_id=item.actor_id,
                created_at_us=item.created_at_us,
                schema_hash=item.schema_hash,
                again=item,
            )
            for item in commits
        ),
        touched=touched if len(commits) > 1 else (),
    )


def finishing(intent: Intent) -> CommitChain:
    """Return the commits under whose ids recovery finishes what a dead owner began."""
    return CommitChain(
        members=tuple(_finishing(intent, item) for item in intent.commits),
        touched=tuple(item.touched for item in intent.group),
    )


def _finishing(intent: Intent, member: IntentMember) -> CommitIdentity:
    return CommitIdentity(
        operation_id=member.operation_id,
        commit_id=member.commit_id,
        kind=member.kind,
        actor_id=RECOVERY_ACTOR,
        created_at_us=member.created_at_us,
        schema_hash=intent.schema_hash,
        recovery_for_actor=member.actor_id,
        merged_parent_commit_id=intent.merged_parent_commit_id,
        merged_branch=intent.merged_branch,
        message=member.message or None,
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
