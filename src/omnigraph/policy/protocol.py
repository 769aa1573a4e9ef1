"""What a policy is asked and what it answers, whatever decides."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Protocol

from msgspec import Struct, structs

from omnigraph.errors import PolicyDeniedError
from omnigraph.values.value import Value


class Action(StrEnum):
    """Everything a policy can allow."""

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    INVOKE_QUERY = "invoke_query"
    ADMIN = "admin"
    GRAPH_LIST = "graph_list"
    CONFIG_MANAGE = "config_manage"

    @property
    def on_server(self) -> bool:
        """Whether it concerns the whole server, not one graph."""
        return self in (Action.GRAPH_LIST, Action.CONFIG_MANAGE)

    @property
    def scope_key(self) -> str | None:
        """Which branch a rule may narrow it by: the one it works on or the one it changes."""
        if self in (Action.READ, Action.EXPORT, Action.CHANGE):
            return "branch_scope"
        if self in (
            Action.SCHEMA_APPLY,
            Action.BRANCH_CREATE,
            Action.BRANCH_DELETE,
            Action.BRANCH_MERGE,
        ):
            return "target_branch_scope"
        return None


class Access(Struct, frozen=True, kw_only=True):
    """One question: may this actor do this, on these branches?

    `branch` is what is read, written or forked; `target_branch` what is made, removed or merged
    into. An actor without a name is None, and no policy allows it anything.
    """

    action: Action
    actor: str | None
    branch: str | None = None
    target_branch: str | None = None
    roles: tuple[str, ...] = ()
    """What the actor's token says it is: groups of a policy can name these, too."""

    def describe(self) -> str:
        """Return the question as words, without who asks."""
        places = [name for name in (self.branch, self.target_branch) if name is not None]
        if len(places) == 2:
            return f"{self.action} from branch '{places[0]}' to branch '{places[1]}'"
        return f"{self.action} on branch '{places[0]}'" if places else str(self.action)


class Decision(Value, frozen=True, kw_only=True):
    """An answer, and why.

    `matched_rule_id` is the rule that allowed it. `near_rule_ids` are rules that would have
    allowed this actor the same action on another kind of branch.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"near_rule_ids", "hint"})

    allowed: bool
    matched_rule_id: str | None = None
    message: str
    near_rule_ids: tuple[str, ...] = ()
    hint: str | None = None


class Policy(Protocol):
    """Decides. Implementations are immutable and answer from memory, from any thread.

    >>> from omnigraph.policy import Decision
    >>> class ReadOnly:
    ...     name = "read-only"
    ...     def decide(self, access):
    ...         return Decision(allowed=access.action == "read", message="only reads")
    >>> with og.open("tasks.omni", policy=ReadOnly()) as mine:
    ...     len(mine.query(TASKS))
    2
    """

    @property
    def name(self) -> str:
        """What messages call the policy."""

    def decide(self, access: Access) -> Decision:
        """Answer one question. Never raises for an unknown actor: the answer is no."""


class Permit(Protocol):
    """Asks on behalf of one handle; returns when allowed, raises `PolicyDeniedError` when not."""

    def __call__(
        self,
        action: Action,
        *,
        branch: str | None = None,
        target_branch: str | None = None,
        actor: str | None = None,
    ) -> None:
        """Ask."""


class RolePolicy(Struct, frozen=True):
    """A policy, asked by an actor with roles."""

    policy: Policy
    roles: tuple[str, ...]

    @property
    def name(self) -> str:
        """What messages call the policy."""
        return self.policy.name

    def decide(self, access: Access) -> Decision:
        """Answer one question."""
        return self.policy.decide(structs.replace(access, roles=self.roles))


def with_roles(policy: Policy, roles: tuple[str, ...]) -> Policy:
    """Return a policy as it is for an actor with roles."""
    return RolePolicy(policy, roles) if roles else policy


def check(policy: Policy | None, access: Access) -> None:
    """Return when a policy allows something; raise `PolicyDeniedError` when it does not.

    Without a policy everything is allowed.
    """
    if policy is None:
        return
    decision = policy.decide(access)
    if not decision.allowed:
        raise denial(policy, access, decision)


def denial(policy: Policy, access: Access, decision: Decision) -> PolicyDeniedError:
    """Return the error that explains a refusal."""
    return PolicyDeniedError(
        decision.message,
        hint=decision.hint,
        action=str(access.action),
        resource="server" if access.action.on_server else "graph",
        actor=access.actor,
        branch=access.branch,
        target_branch=access.target_branch,
        policy=policy.name,
        near_rule_ids=decision.near_rule_ids,
    )
