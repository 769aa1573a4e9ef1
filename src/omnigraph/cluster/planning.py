"""The difference between what a cluster shall be and what was applied, in the order to do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from omnigraph.cluster.config import graph_uri
from omnigraph.cluster.desired import Desired, Resource
from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.ledger import Applied, Approval
from omnigraph.errors import OmniGraphError
from omnigraph.graph import open_graph

Operation = Literal["create", "update", "delete"]
Disposition = Literal["applied", "derived", "blocked"]

# What is made comes before what needs it; what is removed goes the other way round.
_METADATA = {"policy": "policy_bindings", "provider": "embedding_profile"}
_ORDER = {"provider": 0, "graph": 1, "schema": 2, "query": 3, "policy": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One resource that is not as it shall be, and what becomes of it."""

    resource: str
    operation: Operation
    before: str | None = None
    after: str | None = None
    disposition: Disposition = "applied"
    reason: str | None = None
    bindings: tuple[str, ...] = ()
    bindings_changed: bool = False
    migration: Mapping[str, object] | None = None

    @property
    def kind(self) -> str:
        """The first word of the address."""
        return self.resource.partition(".")[0]

    @property
    def graph_id(self) -> str | None:
        """The graph it is about, where there is one."""
        if self.kind not in ("graph", "schema", "query"):
            return None
        return self.resource.split(".")[1]

    def to_json(self) -> dict[str, object]:
        """Return the wire form; what says nothing is left out."""
        found: dict[str, object | None] = {
            "resource": self.resource,
            "operation": self.operation,
            "before_digest": self.before,
            "after_digest": self.after,
            "disposition": self.disposition,
            "reason": self.reason,
            "binding_change": True if self.bindings_changed else None,
            "metadata_change": _METADATA[self.kind] if self.bindings_changed else None,
            "migration": None if self.migration is None else dict(self.migration),
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalNeeded:
    """A destructive change somebody has to agree to."""

    change: Change
    reason: str
    approval: Approval | None = None

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        return {
            "resource": self.change.resource,
            "reason": self.reason,
            "satisfied": self.approval is not None,
        }


@dataclass(slots=True, kw_only=True)
class Plan:
    """All changes in order, and the approvals they need."""

    changes: list[Change] = field(default_factory=list)
    approvals: list[ApprovalNeeded] = field(default_factory=list)

    def blast_radius(self, desired: Desired) -> list[dict[str, object]]:
        """Return, for each change, the resources that depend on what it changes."""
        found: list[dict[str, object]] = []
        for change in self.changes:
            affected: list[str] = []
            waiting = [change.resource]
            while waiting:
                here = waiting.pop()
                users = [a for a, b in desired.dependencies if b == here and a not in affected]
                affected += users
                waiting += users
            if affected:
                found.append({"resource": change.resource, "affected": sorted(affected)})
        return found


def make_plan(
    desired: Desired,
    applied: Mapping[str, Applied],
    approvals: list[Approval],
    findings: Findings,
) -> Plan:
    """Compare, look at the data that stands in the way, and decide what can be done."""
    changes = sorted(_differences(desired.resources, applied), key=_position)
    plan = Plan()
    for change in changes:
        plan.changes.append(_judged(change, desired, plan, approvals, findings))
    _hold_back(plan, desired)
    return plan


def _differences(desired: Mapping[str, Resource], applied: Mapping[str, Applied]) -> list[Change]:
    found: list[Change] = []
    for address, resource in desired.items():
        known = applied.get(address)
        if known is None:
            found.append(Change(resource=address, operation="create", after=resource.digest))
            continue
        rebound = sorted(known.bindings) != sorted(resource.bindings)
        if known.digest != resource.digest or rebound:
            change = Change(
                resource=address,
                operation="update",
                before=known.digest,
                after=resource.digest,
                bindings=tuple(known.bindings),
                bindings_changed=rebound,
            )
            found.append(change)
    found += [
        Change(
            resource=address,
            operation="delete",
            before=known.digest,
            bindings=tuple(known.bindings),
        )
        for address, known in applied.items()
        if address not in desired
    ]
    return found


def _position(change: Change) -> tuple[int, str]:
    place = _ORDER[change.kind]
    return (9 - place if change.operation == "delete" else place), change.resource


def _judged(
    change: Change,
    desired: Desired,
    plan: Plan,
    approvals: list[Approval],
    findings: Findings,
) -> Change:
    if change.kind == "schema" and change.operation == "create":
        # The graph is made with its schema.
        return replace(change, disposition="derived")
    if change.kind == "schema" and change.operation == "update":
        return _judged_schema(change, desired, plan, approvals, findings)
    if change.kind == "graph" and change.operation == "delete":
        return _with_approval(change, "the graph and its data are removed", plan, approvals,
                              findings)  # fmt: skip
    return change


def _judged_schema(
    change: Change,
    desired: Desired,
    plan: Plan,
    approvals: list[Approval],
    findings: Findings,
) -> Change:
    graph_id = change.graph_id or ""
    uri = graph_uri(desired.config.root, graph_id)
    try:
        with open_graph(uri, mode="ro") as graph:
            preview = graph.schema.plan(desired.schemas[graph_id])
    except OmniGraphError as error:
        findings.warning("schema_preview_unavailable", change.resource, error.message)
        return replace(change, disposition="blocked", reason="schema_preview_unavailable")
    change = replace(change, migration=preview.to_json())
    if not preview.supported:
        findings.warning("apply_unsupported_change", change.resource, preview.render())
        return replace(change, disposition="blocked", reason="apply_unsupported_change")
    if preview.problems:
        messages = "; ".join(str(item["message"]) for item in preview.problems[:3])
        findings.warning("schema_apply_failed", change.resource, messages)
        return replace(change, disposition="blocked", reason="schema_apply_failed")
    if preview.drops:
        return _with_approval(change, "types or properties are dropped", plan, approvals, findings)
    return change


def _with_approval(
    change: Change, reason: str, plan: Plan, approvals: list[Approval], findings: Findings
) -> Change:
    """Let a destructive change pass only with an approval of exactly this change."""
    given = [item for item in approvals if item.resource == change.resource]
    fitting = next((item for item in given if fits(item, change)), None)
    plan.approvals.append(ApprovalNeeded(change=change, reason=reason, approval=fitting))
    if fitting is not None:
        return change
    code = "approval_stale" if given else "approval_required"
    message = (
        "what was approved is not what would be done; approve it again"
        if given
        else f"{reason}; `omnigraph cluster approve {change.resource}` allows it"
    )
    findings.warning(code, change.resource, message)
    return replace(change, disposition="blocked", reason=code)


def fits(approval: Approval, change: Change) -> bool:
    """Whether an approval is for exactly this change."""
    return (approval.operation, approval.before_digest, approval.after_digest) == (
        change.operation,
        change.before,
        change.after,
    )


def _hold_back(plan: Plan, desired: Desired) -> None:
    for number, change in enumerate(plan.changes):
        if change.disposition != "blocked" and rests_on_blocked(change, plan, desired):
            plan.changes[number] = replace(
                change, disposition="blocked", reason="apply_dependency_blocked"
            )


def rests_on_blocked(change: Change, plan: Plan, desired: Desired) -> bool:
    """Whether a change needs one that is blocked.

    A query needs its schema, a graph that stays keeps its parts, and nothing takes away the
    policy of a graph that was to go and did not.
    """
    blocked = {item.resource for item in plan.changes if item.disposition == "blocked"}
    if any(f"graph.{target}" in blocked for target in change.bindings):
        return True
    if change.operation == "delete":
        return change.graph_id is not None and f"graph.{change.graph_id}" in blocked
    return any(a == change.resource and b in blocked for a, b in desired.dependencies)
