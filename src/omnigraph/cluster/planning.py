"""Compares what a cluster should be with what it is, and decides what can be done, in which order.

Nothing here reads or writes: files and graphs were looked at before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from omnigraph.cluster.reports import Findings
from omnigraph.cluster.state import Applied, Approval, revision_digest

_METADATA = {"policy": "policy_bindings", "provider": "embedding_profile"}
# What is made comes before what needs it; what is removed goes the other way round.
_ORDER = {"provider": 0, "graph": 1, "schema": 2, "query": 3, "policy": 4}


@dataclass(slots=True, kw_only=True)
class Desired:
    """What a cluster at `root` should be: resources, what they need, and their texts by address."""

    root: str
    resources: dict[str, Applied] = field(default_factory=dict)
    dependencies: list[tuple[str, str]] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def graph_ids(self) -> list[str]:
        """The graphs that should exist."""
        return [a.partition(".")[2] for a in self.resources if a.startswith("graph.")]

    @property
    def config_digest(self) -> str:
        """Identifies the whole: all resources and what policies are for."""
        return revision_digest(self.resources)

    def users_of(self, address: str) -> list[str]:
        """Return what depends on a resource, directly or not, sorted."""
        users: set[str] = set()
        waiting = {address}
        while waiting:
            waiting = {a for a, b in self.dependencies if b in waiting} - users
            users |= waiting
        return sorted(users)

    def to_json(self) -> dict[str, object]:
        """Return the wire form of the resources."""
        digests = {address: item.digest for address, item in sorted(self.resources.items())}
        return {
            "resource_digests": digests,
            "resources": [
                {"address": a, "kind": kind_of(a), "digest": digest, "path": self.paths[a]}
                for a, digest in digests.items()
            ],
            "dependencies": [{"from": a, "to": b} for a, b in sorted(self.dependencies)],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a graph says to a new schema. It has `live` now; a refusal is a code and a reason."""

    live: str | None = None
    migration: Mapping[str, object] | None = None
    drops: bool = False
    refusal: tuple[str, str] | None = None


@dataclass(slots=True, kw_only=True)
class Actual:
    """What a cluster is: what was applied, and what its graphs say.

    `previews` is about graphs whose schema is to change; `occupied` tells why a graph cannot be
    made at its place; `finished` names operations of an apply that died before it told of them.
    """

    applied: dict[str, Applied] = field(default_factory=dict)
    previews: dict[str, Preview] = field(default_factory=dict)
    occupied: dict[str, str] = field(default_factory=dict)
    finished: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One resource that is not as it should be, and what becomes of it.

    One with `danger` destroys something and needs an approval.
    """

    resource: str
    before: Applied | None = None
    after: Applied | None = None
    disposition: Literal["applied", "derived", "blocked"] = "applied"
    reason: str | None = None
    preview: Preview = Preview()
    danger: str | None = None
    approval: Approval | None = None

    @property
    def what(self) -> tuple[str, str]:
        """The kind of the resource and the operation."""
        return kind_of(self.resource), self.operation

    @property
    def operation(self) -> str:
        """Create, update or delete."""
        if self.before is None:
            return "create"
        return "delete" if self.after is None else "update"

    @property
    def digests(self) -> tuple[str | None, str | None]:
        """The digest before and after."""
        before, after = self.before, self.after
        return (
            None if before is None else before.digest,
            None if after is None else after.digest,
        )

    @property
    def graph_id(self) -> str:
        """The graph it is about, empty where there is none."""
        return self.resource.split(".")[1] if self.what[0] in ("graph", "schema", "query") else ""

    @property
    def is_blocked(self) -> bool:
        """Whether it is not done."""
        return self.disposition == "blocked"

    def blocked(self, reason: str) -> Change:
        """Return it as one that is not done."""
        return replace(self, disposition="blocked", reason=self.reason or reason)

    def to_json(self) -> dict[str, object]:
        """Return the wire form; what says nothing is left out."""
        before, after = self.before, self.after
        rebound = before and after and before.bindings != after.bindings
        migration = self.preview.migration
        fields: dict[str, object | None] = {
            "resource": self.resource,
            "operation": self.operation,
            "before_digest": self.digests[0],
            "after_digest": self.digests[1],
            "disposition": self.disposition,
            "reason": self.reason,
            "binding_change": True if rebound else None,
            "metadata_change": _METADATA[self.what[0]] if rebound else None,
            "migration": None if migration is None else dict(migration),
        }
        return {name: value for name, value in fields.items() if value is not None}


def kind_of(address: str) -> str:
    """Return the first word of an address."""
    return address.partition(".")[0]


def differences(desired: Mapping[str, Applied], applied: Mapping[str, Applied]) -> list[Change]:
    """Return what is not as it should be, in the order to change it."""
    changes = [
        Change(resource=address, before=applied.get(address), after=desired.get(address))
        for address in {**desired, **applied}
        if applied.get(address) != desired.get(address)
    ]
    return sorted(changes, key=_position)


def _position(change: Change) -> tuple[int, str]:
    place = _ORDER[change.what[0]]
    return (9 - place if change.after is None else place), change.resource


def make_plan(
    desired: Desired, actual: Actual, approvals: Mapping[str, Approval], findings: Findings
) -> list[Change]:
    """Return all changes in order; what cannot be done now is blocked, with the reason."""
    changes = differences(desired.resources, actual.applied)
    plan = [_judged(c, actual, approvals.get(c.resource), findings) for c in changes]
    for number, change in enumerate(plan):
        if rests_on_blocked(change, plan, desired):
            plan[number] = change.blocked("apply_dependency_blocked")
    return plan


def _judged(
    change: Change, actual: Actual, approval: Approval | None, findings: Findings
) -> Change:
    """Return a change with what the graphs and approvals say to it."""
    change = replace(change, approval=approval if _fits(approval, change) else None)
    danger = None
    match change.what:
        case "graph", "create" if (message := actual.occupied.get(change.graph_id)) is not None:
            findings.error("graph_create_failed", change.resource, message)
            return change.blocked("graph_create_failed")
        case "graph", "delete":
            danger = "the graph and its data are removed"
        case "schema", "create":
            # The graph is made with its schema.
            return replace(change, disposition="derived")
        case "schema", "update":
            preview = actual.previews[change.graph_id]
            change = replace(change, preview=preview)
            if preview.refusal is not None:
                code, message = preview.refusal
                findings.warning(code, change.resource, message)
                return change.blocked(code)
            danger = "types or properties are dropped" if preview.drops else None
    change = replace(change, danger=danger)
    if danger is None or change.approval is not None:
        return change
    code = "approval_stale" if approval else "approval_required"
    message = f"{danger}; `omnigraph cluster approve {change.resource}` allows it"
    if approval:
        message = "what was approved is not what would be done; approve it again"
    findings.warning(code, change.resource, message)
    return change.blocked(code)


def _fits(approval: Approval | None, change: Change) -> bool:
    """Whether an approval is for exactly this change."""
    if approval is None or approval.operation != change.operation:
        return False
    return (approval.before_digest, approval.after_digest) == change.digests


def rests_on_blocked(change: Change, plan: list[Change], desired: Desired) -> bool:
    """Whether a change needs one that is blocked.

    A query needs its schema, a graph that stays keeps its parts, and nothing takes away the
    policy of a graph that was to go and did not.
    """
    blocked = {item.resource for item in plan if item.is_blocked}
    bindings = () if change.before is None else change.before.bindings
    if any(f"graph.{target}" in blocked for target in bindings):
        return True
    if change.after is None:
        return f"graph.{change.graph_id}" in blocked
    return any(a == change.resource and b in blocked for a, b in desired.dependencies)


def plan_json(desired: Desired, plan: list[Change]) -> dict[str, object]:
    """Return the wire form of a plan."""
    users = {change.resource: desired.users_of(change.resource) for change in plan}
    return {
        "desired_revision": {"config_digest": desired.config_digest},
        "changes": [change.to_json() for change in plan],
        "blast_radius": [
            {"resource": a, "affected": affected} for a, affected in users.items() if affected
        ],
        "approvals_required": [
            {"resource": c.resource, "reason": c.danger, "satisfied": c.approval is not None}
            for c in plan
            if c.danger is not None
        ],
    }
