"""The commands of a cluster. They answer with a report; what is wrong stands in it."""

from __future__ import annotations

import os
from collections.abc import Callable

from omnigraph.catalog import shape_hash
from omnigraph.cluster.applying import Apply, live_schema, with_resources
from omnigraph.cluster.config import CONFIG_FILE, graph_uri
from omnigraph.cluster.desired import Desired, read_desired
from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.ledger import Applied, Ledger, LedgerError, State, Status
from omnigraph.cluster.planning import make_plan
from omnigraph.cluster.reports import (
    Report,
    observations,
    plan_json,
    resources_json,
    statuses_json,
)
from omnigraph.errors import BadRequestError, OmniGraphError
from omnigraph.graph import open_graph
from omnigraph.policy import check_actor

Folder = str | os.PathLike[str]
Body = dict[str, object]


def validate(folder: Folder) -> Report:
    """Read the configuration and everything it names, and report every mistake."""
    findings = Findings()
    desired = read_desired(folder, findings)
    body: Body = {"config_file": CONFIG_FILE}
    if desired is not None:
        body |= resources_json(desired)
    return Report(config_dir=os.fspath(folder), diagnostics=findings.items, body=body)


def plan(folder: Folder) -> Report:
    """Report what `apply` would do. Nothing is written."""

    def work(desired: Desired, ledger: Ledger, findings: Findings) -> Body:
        known = ledger.read()
        applied = {} if known is None else known[0].applied_revision.resources
        for left in ledger.unfinished():
            message = f"a {left.operation} was interrupted; apply resolves it first"
            findings.warning("cluster_recovery_pending", left.resource, message)
        found = make_plan(desired, applied, ledger.approvals(), findings)
        return plan_json(desired, found) | {"state_observations": observations(ledger, known)}

    return _on_ledger(folder, work)


def apply(folder: Folder, *, actor: str | None = None) -> Report:
    """Make the cluster what its configuration says, as far as that is allowed.

    What needs an approval and has none stays as it is; `converged` tells whether all was done.
    """
    check_actor(actor)

    def work(desired: Desired, ledger: Ledger, findings: Findings) -> Body:
        with ledger.lock("apply") as lock:
            outcome = Apply(ledger, desired, lock, findings, actor).run()
        changes = outcome.plan.changes
        blocked = [change for change in changes if change.disposition == "blocked"]
        applied = outcome.state.applied_revision.config_digest
        body: Body = {
            "changes": [change.to_json() for change in changes],
            "applied_count": len(changes) - len(blocked),
            "deferred_count": len(blocked),
            "converged": applied == desired.config_digest,
            "state_written": outcome.state_written,
            "resource_statuses": statuses_json(outcome.state.resource_statuses),
            "state_observations": observations(ledger, ledger.read()),
        }
        return body if actor is None else body | {"actor": actor}

    return _on_ledger(folder, work)


def status(folder: Folder) -> Report:
    """Report how every resource is, compared with the ledger and the configuration."""

    def work(desired: Desired, ledger: Ledger, findings: Findings) -> Body:
        known = ledger.read()
        if known is None:
            findings.warning("state_missing", "", "nothing was applied yet")
        statuses = _observed(desired, ledger, None if known is None else known[0])
        return {
            "resource_statuses": statuses_json(statuses),
            "observations": observations(ledger, known),
        }

    return _on_ledger(folder, work)


def refresh(folder: Folder) -> Report:
    """Write into the ledger which schema each graph really has.

    A schema that was changed past the cluster is `drifted`, and the next plan leads back to what
    the configuration says.
    """

    def work(desired: Desired, ledger: Ledger, findings: Findings) -> Body:
        with ledger.lock("refresh") as lock:
            known = ledger.read()
            if known is None:
                findings.error("state_missing", "", "nothing was applied yet")
                return {}
            state, cas = known
            statuses = _observed(desired, ledger, state)
            resources = dict(state.applied_revision.resources)
            for address in [a for a, item in statuses.items() if item.status == "drifted"]:
                live = live_schema(graph_uri(ledger.root, address.partition(".")[2]))
                resources[address] = Applied(digest=live or "")
            after = with_resources(state, resources)
            after.resource_statuses = statuses
            after.state_revision += 1
            ledger.write(after, expected=cas, lock=lock)
        return {
            "resource_statuses": statuses_json(statuses),
            "observations": observations(ledger, ledger.read()),
        }

    return _on_ledger(folder, work)


def adopt(folder: Folder) -> Report:
    """Begin a ledger with the graphs that are there already, each with the schema it has.

    Only for a cluster without a ledger; the next plan leads from there to the configuration.
    """

    def work(desired: Desired, ledger: Ledger, findings: Findings) -> Body:
        with ledger.lock("import") as lock:
            if ledger.read() is not None:
                findings.error("state_already_exists", "", "the cluster has a ledger")
                return {}
            resources: dict[str, Applied] = {}
            for graph_id in desired.config.file.graphs:
                live = live_schema(graph_uri(ledger.root, graph_id))
                if live is not None:
                    resources[f"graph.{graph_id}"] = Applied(digest="")
                    resources[f"schema.{graph_id}"] = Applied(digest=live)
            state = with_resources(State(state_revision=1), resources)
            state.resource_statuses = {a: Status(status="applied") for a in resources}
            ledger.write(state, expected=None, lock=lock)
        return {
            "resource_statuses": statuses_json(state.resource_statuses),
            "observations": observations(ledger, ledger.read()),
        }

    return _on_ledger(folder, work)


def approve(folder: Folder, resource: str, *, actor: str) -> Report:
    """Agree to one destructive change, exactly as it stands in the plan now."""
    if not actor.strip():
        raise BadRequestError("an approval needs an actor", hint="name yourself with --as")
    check_actor(actor)

    def work(desired: Desired, ledger: Ledger, findings: Findings) -> Body:
        known = ledger.read()
        applied = {} if known is None else known[0].applied_revision.resources
        # What a plan says about approvals is no news here.
        found = make_plan(desired, applied, ledger.approvals(), Findings())
        needed = next((n for n in found.approvals if n.change.resource == resource), None)
        if needed is None or needed.approval is not None:
            message = "no change of it waits for an approval"
            findings.error("approval_not_required", resource, message)
            return {}
        change = needed.change
        with ledger.lock("approve"):
            for old in (item for item in ledger.approvals() if item.resource == resource):
                ledger.use_approval(old)
            given = ledger.approve(resource, change.operation, change.before, change.after, actor)
        return {
            "approval_id": given.id,
            "resource": resource,
            "operation": change.operation,
            "approved_by": actor,
        }

    return _on_ledger(folder, work)


def force_unlock(folder: Folder, lock_id: str) -> Report:
    """Remove the lock of exactly this id, for an owner that lives but will not go on."""

    def work(_desired: Desired, ledger: Ledger, _findings: Findings) -> Body:
        ledger.force_unlock(lock_id)
        return {"lock_removed": True}

    return _on_ledger(folder, work)


def _on_ledger(folder: Folder, work: Callable[[Desired, Ledger, Findings], Body]) -> Report:
    """Do some work on a configuration without mistakes and its ledger."""
    findings = Findings()
    desired = read_desired(folder, findings)
    body: Body = {}
    if desired is not None and findings.ok:
        ledger = Ledger(desired.config.root)
        try:
            body = work(desired, ledger, findings)
        except LedgerError as error:
            findings.error(error.diagnostic, ledger.root, error.message)
        finally:
            ledger.close()
    return Report(config_dir=os.fspath(folder), diagnostics=findings.items, body=body)


def _observed(desired: Desired, ledger: Ledger, state: State | None) -> dict[str, Status]:
    """Return how resources are: what the ledger says, and what can be seen."""
    applied = {} if state is None else state.applied_revision.resources
    found: dict[str, Status] = {}
    for address, resource in desired.resources.items():
        known = applied.get(address)
        if known is None:
            found[address] = Status(status="pending", message="not applied yet")
        elif known.digest != resource.digest or sorted(known.bindings) != sorted(resource.bindings):
            found[address] = Status(status="pending", message="the configuration has changed")
        else:
            found[address] = Status(status="applied")
    for address, known in applied.items():
        if address not in desired.resources:
            message = "not in the configuration any more"
            found[address] = Status(status="pending", message=message)
        kind, _, rest = address.partition(".")
        if kind == "schema":
            seen = _seen_schema(ledger.root, rest, known.digest)
            if seen is not None:
                found[address] = seen
        elif kind in ("query", "policy", "provider"):
            try:
                ledger.payload(address, known.digest)
            except LedgerError as error:
                conditions = [error.diagnostic]
                found[address] = Status(status="error", conditions=conditions,
                                        message=error.message)  # fmt: skip
    return found


def _seen_schema(root: str, graph_id: str, digest: str) -> Status | None:
    """Return what is wrong with a graph, None when it has the schema the ledger says."""
    try:
        with open_graph(graph_uri(root, graph_id), mode="ro") as graph:
            live = shape_hash(graph.catalog)
    except OmniGraphError as error:
        return Status(status="error", message=error.message)
    if live == digest:
        return None
    return Status(status="drifted", message="the graph has another schema than was applied")
