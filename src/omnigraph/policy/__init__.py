"""Who may do what: one question, one answer, and the reason.

The engine asks `Policy.decide` before every operation. What stands behind it is a bundle of
rules (`load_policy`), or one of the defaults; this room knows neither graphs nor servers.
"""

from __future__ import annotations

from omnigraph.policy.defaults import (
    OpenAccess,
    ReadOnlyAccess,
    ServerState,
    policy_for,
    server_state,
)
from omnigraph.policy.protocol import Access, Action, Decision, Permit, Policy, check, denial

__all__ = [
    "Access",
    "Action",
    "Decision",
    "OpenAccess",
    "Permit",
    "Policy",
    "ReadOnlyAccess",
    "ServerState",
    "check",
    "denial",
    "policy_for",
    "server_state",
]
