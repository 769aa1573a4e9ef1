"""What the commands of a cluster answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from omnigraph.cluster.desired import Desired, Resource
from omnigraph.cluster.diagnostics import ClusterDiagnostic
from omnigraph.cluster.ledger import FOLDER, LOCK, STATE, Ledger, State, Status, now_us
from omnigraph.cluster.planning import Plan
from omnigraph.errors import BadRequestError, ConflictError

# Codes that mean: somebody else was first, look again.
_CONFLICTS = frozenset({"state_lock_held", "state_cas_mismatch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One answer. `body` holds what only this command tells."""

    config_dir: str
    diagnostics: Sequence[ClusterDiagnostic] = ()
    body: Mapping[str, object] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing was in the way."""
        return not any(item.severity == "error" for item in self.diagnostics)

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        found: dict[str, object] = {
            "ok": self.ok,
            "config_dir": self.config_dir,
            "diagnostics": [item.to_json() for item in self.diagnostics],
        }
        return found | dict(self.body)

    def check(self) -> Report:
        """Return the report if it is good.

        Raises `ConflictError` when somebody else was first, else `BadRequestError`.
        """
        wrong = [item for item in self.diagnostics if item.severity == "error"]
        if not wrong:
            return self
        message = "\n".join(item.render() for item in wrong)
        if any(item.code in _CONFLICTS for item in wrong):
            raise ConflictError(message, hint="wait for the other one, then try again")
        raise BadRequestError(message)


def resources_json(desired: Desired) -> dict[str, object]:
    """Return the resources of a configuration."""

    def address(resource: Resource) -> str:
        return resource.address

    ordered = sorted(desired.resources.values(), key=address)
    return {
        "resource_digests": {item.address: item.digest for item in ordered},
        "resources": [item.to_json() for item in ordered],
        "dependencies": [{"from": a, "to": b} for a, b in sorted(desired.dependencies)],
    }


def plan_json(desired: Desired, plan: Plan) -> dict[str, object]:
    """Return a plan."""
    return {
        "desired_revision": {"config_digest": desired.config_digest},
        "changes": [change.to_json() for change in plan.changes],
        "blast_radius": plan.blast_radius(desired),
        "approvals_required": [item.to_json() for item in plan.approvals],
    }


def observations(ledger: Ledger, known: tuple[State, str] | None) -> dict[str, object]:
    """Return what can be seen of the ledger and its lock."""
    held = ledger.lock_body()
    found: dict[str, object | None] = {
        "state_path": f"{ledger.root}/{STATE}",
        "lock_path": f"{ledger.root}/{FOLDER}/{LOCK}",
        "state_found": known is not None,
        "state_revision": 0 if known is None else known[0].state_revision,
        "resource_count": 0 if known is None else len(known[0].applied_revision.resources),
        "applied_config_digest": None if known is None else known[0].applied_revision.config_digest,
        "state_cas": None if known is None else known[1],
        "locked": held is not None and held[1],
    }
    if held is not None:
        body = held[0]
        found |= {
            "lock_id": body.id,
            "lock_operation": body.operation,
            "lock_created_at": body.created_at,
            "lock_pid": body.pid,
            "lock_age_seconds": max(0, (now_us() - body.created_at) // 1_000_000),
        }
    return {name: value for name, value in found.items() if value is not None}


def statuses_json(statuses: Mapping[str, Status]) -> dict[str, object]:
    """Return how resources are."""
    found: dict[str, object] = {}
    for address, item in sorted(statuses.items()):
        body: dict[str, object] = {"status": item.status, "conditions": list(item.conditions)}
        found[address] = body if item.message is None else body | {"message": item.message}
    return found
