"""Who may do what: one question, one answer, and the reason.

The engine asks `Policy.decide` before every operation. What stands behind it is a bundle of
rules (`load_policy`), or one of the defaults; this room knows neither graphs nor servers.
"""

from __future__ import annotations

from omnigraph.policy.actors import actor_problem, check_actor, text_problem
from omnigraph.policy.bundle import Bundle, copies_unread, parse_bundle, read_bundle
from omnigraph.policy.cases import Outcome, parse_action, run_cases
from omnigraph.policy.cedar import CedarPolicy, load_policy, policy_from_text
from omnigraph.policy.defaults import (
    OpenAccess,
    ReadOnlyAccess,
    ServerState,
    policy_for,
    server_state,
)
from omnigraph.policy.protocol import (
    Access,
    Action,
    Decision,
    Permit,
    Policy,
    check,
    denial,
    with_roles,
)

__all__ = [
    "Access",
    "Action",
    "Bundle",
    "CedarPolicy",
    "Decision",
    "OpenAccess",
    "Outcome",
    "Permit",
    "Policy",
    "ReadOnlyAccess",
    "ServerState",
    "actor_problem",
    "check",
    "check_actor",
    "copies_unread",
    "denial",
    "load_policy",
    "parse_action",
    "parse_bundle",
    "policy_for",
    "policy_from_text",
    "read_bundle",
    "run_cases",
    "server_state",
    "text_problem",
    "with_roles",
]
