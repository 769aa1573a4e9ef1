"""Policies for when none was written, and which of them a server starts with."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from omnigraph.errors import BadRequestError
from omnigraph.policy.protocol import Access, Action, Decision, Policy


class ServerState(StrEnum):
    """How closed a server is."""

    OPEN = "open"
    DEFAULT_DENY = "default_deny"
    POLICY_ENABLED = "policy_enabled"


class OpenAccess(Struct, frozen=True):
    """Allows everything on a graph, to every actor, named or not, and nothing on the server."""

    name: str = "open"

    def decide(self, access: Access) -> Decision:
        """Allow all but what is about the server itself."""
        if not access.action.on_server:
            return Decision(allowed=True, message=f"{access.describe()} is open to every caller")
        return Decision(
            allowed=False,
            message=f"this needs a policy that allows {access.action}",
            hint="start the server with a policy for it",
        )


class ReadOnlyAccess(Struct, frozen=True):
    """Allows reading to every known actor and nothing else: tokens without a policy."""

    name: str = "default-deny"

    def decide(self, access: Access) -> Decision:
        """Allow reads."""
        if access.actor is not None and access.action is Action.READ:
            return Decision(allowed=True, message="every known actor may read")
        who = "an unnamed actor" if access.actor is None else f"'{access.actor}'"
        return Decision(
            allowed=False,
            message=f"{who} may not {access.describe()}: without a policy only reading is allowed",
            hint="install a policy that allows it",
        )


def server_state(*, tokens: bool, policy: bool, unauthenticated: bool = False) -> ServerState:
    """Return the state of a server, by whether it has tokens and a policy.

    Raises `BadRequestError` for what must not start: a policy that can know no caller, and no
    tokens without saying so.
    """
    if tokens:
        return ServerState.POLICY_ENABLED if policy else ServerState.DEFAULT_DENY
    if policy:
        raise BadRequestError(
            "a policy without tokens would deny every request",
            hint="configure bearer tokens, or leave the policy out",
        )
    if not unauthenticated:
        raise BadRequestError(
            "no tokens are configured",
            hint="configure bearer tokens, or pass --unauthenticated to need none",
        )
    return ServerState.OPEN


def policy_for(state: ServerState, policy: Policy | None) -> Policy:
    """Return what decides in a state: the policy of a graph or server, or what stands in for it.

    A graph without a policy of its own on a server with tokens can only be read.
    """
    if state is ServerState.OPEN:
        return OpenAccess()
    if state is ServerState.POLICY_ENABLED and policy is not None:
        return policy
    return ReadOnlyAccess()
