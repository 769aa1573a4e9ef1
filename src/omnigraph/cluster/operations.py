"""The commands of a cluster. They answer with a report; what is wrong stands in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress

import msgspec

from omnigraph.clock import now_us
from omnigraph.cluster import graphs
from omnigraph.cluster.applying import Run
from omnigraph.cluster.config import CONFIG_FILE
from omnigraph.cluster.desired import read_desired
from omnigraph.cluster.older_files import with_older_files
from omnigraph.cluster.planning import differences, make_plan, plan_json
from omnigraph.cluster.reports import Findings, Report
from omnigraph.cluster.state import (
    Applied,
    Approval,
    StateError,
    StateFile,
    Status,
    Stored,
    observations,
    revision_of,
)
from omnigraph.errors import BadRequestError, NotFoundError, OmniGraphError
from omnigraph.policy import check_actor

Folder = str | os.PathLike[str]
Body = dict[str, object]
_PENDING = {
    "create": "not applied yet",
    "update": "the configuration has changed",
    "delete": "not in the configuration any more",
}


def validate(folder: Folder) -> Report:
    """Read the configuration and everything it names, and report every mistake."""
    findings = Findings()
    desired = read_desired(folder, findings)
    body: Body = {"config_file": CONFIG_FILE}
    if desired is not None:
        body |= desired.to_json()
    return Report(config_dir=os.fspath(folder), diagnostics=findings.items, body=body)


def plan(folder: Folder) -> Report:
    """Report what `apply` would do. Nothing is written."""

    def work(on: Run) -> Body:
        state = on.stored.state
        actual = graphs.look(on.desired, state)
        removing = {f"graph.{graph_id}": "graph_delete" for graph_id in state.removing}
        for resource, operation in (removing | actual.finished).items():
            message = f"a {operation} was interrupted; apply resolves it first"
            on.findings.warning("cluster_recovery_pending", resource, message)
        changes = make_plan(on.desired, actual, state.approvals, on.findings)
        return plan_json(on.desired, changes)

    return _run(folder, work, seen_as="state_observations")


def apply(folder: Folder, *, actor: str | None = None) -> Report:
    """Make the cluster what its configuration says, as far as that is allowed.

    What needs an approval and has none stays as it is; `converged` tells whether all was done.
    """
    check_actor(actor)

    def work(on: Run) -> Body:
        on.actor, before = actor, on.stored.state.state_revision
        changes = on.apply()
        state, blocked = on.stored.state, sum(change.is_blocked for change in changes)
        body: Body = {
            "changes": [change.to_json() for change in changes],
            "applied_count": len(changes) - blocked,
            "deferred_count": blocked,
            "converged": state.applied_revision.config_digest == on.desired.config_digest,
            "state_written": state.state_revision != before,
            "resource_statuses": _sorted(state.resource_statuses),
        }
        return body if actor is None else body | {"actor": actor}

    return _run(folder, work, lock="apply", seen_as="state_observations")


def status(folder: Folder) -> Report:
    """Report how every resource is, compared with what was applied and the configuration."""

    def work(on: Run) -> Body:
        if on.stored.body is None:
            on.findings.warning("state_missing", "", "nothing was applied yet")
        return {"resource_statuses": _sorted(_observed(on)[0])}

    return _run(folder, work, seen_as="observations")


def refresh(folder: Folder) -> Report:
    """Write into the ledger which schema each graph really has.

    A schema that was changed past the cluster is `drifted`, and the next plan leads back to what
    the configuration says.
    """

    def work(on: Run) -> Body:
        if on.stored.body is None:
            on.findings.error("state_missing", "", "nothing was applied yet")
            return {}
        statuses, drifted = _observed(on)
        _write(on, on.stored.state.resources | drifted, statuses)
        return {"resource_statuses": _sorted(statuses)}

    return _run(folder, work, lock="refresh", seen_as="observations")


def adopt(folder: Folder) -> Report:
    """Begin a ledger with the graphs that are there already, each with the schema it has.

    Only for a cluster without a ledger; the next plan leads from there to the configuration.
    """

    def work(on: Run) -> Body:
        if on.stored.body is not None:
            on.findings.error("state_already_exists", "", "the cluster has a ledger")
            return {}
        resources: dict[str, Applied] = {}
        for graph_id in on.desired.graph_ids:
            with suppress(NotFoundError):
                live = graphs.live_schema(on.file.root, graph_id)
                resources |= graphs.adopted(graph_id, live)
        statuses = {address: Status("applied") for address in resources}
        _write(on, resources, statuses)
        return {"resource_statuses": _sorted(statuses)}

    return _run(folder, work, lock="import", seen_as="observations")


def approve(folder: Folder, resource: str, *, actor: str) -> Report:
    """Agree to one destructive change, exactly as it stands in the plan now."""
    if not actor.strip():
        raise BadRequestError("an approval needs an actor", hint="name yourself with --as")
    check_actor(actor)

    def work(on: Run) -> Body:
        state = on.stored.state
        actual = graphs.look(on.desired, state)
        # What a plan says about approvals is no news here.
        changes = make_plan(on.desired, actual, state.approvals, Findings())
        change = next((c for c in changes if c.resource == resource and c.danger is not None), None)
        if change is None or change.approval is not None:
            message = "no change of it waits for an approval"
            on.findings.error("approval_not_required", resource, message)
            return {}
        given = Approval(
            id=on.file.new_id(),
            resource=resource,
            operation=change.operation,
            before_digest=change.digests[0],
            after_digest=change.digests[1],
            approved_by=actor,
            created_at=now_us(),
        )
        approvals = state.approvals | {resource: given}
        on.file.write(on.stored, msgspec.structs.replace(state, approvals=approvals))
        return {
            "approval_id": given.id,
            "resource": resource,
            "operation": change.operation,
            "approved_by": actor,
        }

    return _run(folder, work, lock="approve")


def force_unlock(folder: Folder, lock_id: str) -> Report:
    """Remove the lock of exactly this id, for an owner that lives but will not go on."""

    def work(on: Run) -> Body:
        on.file.force_unlock(lock_id)
        return {"lock_removed": True}

    # A ledger that cannot be read is no reason to keep a lock.
    return _run(folder, work, reads=False)


def _run(
    folder: Folder,
    work: Callable[[Run], Body],
    *,
    lock: str | None = None,
    seen_as: str | None = None,
    reads: bool = True,
) -> Report:
    """Do some work on a configuration without mistakes; tell what can be seen of the state then."""
    findings = Findings()
    desired = read_desired(folder, findings)
    body: Body = {}
    if desired is not None and findings.ok:
        file = StateFile(desired.root)
        try:
            with nullcontext() if lock is None else file.lock(lock):
                stored = with_older_files(file, file.read()) if reads else Stored()
                body = work(Run(desired=desired, file=file, stored=stored, findings=findings))
            if seen_as is not None and body:
                body[seen_as] = observations(file, file.read())
        except StateError as error:
            findings.error(error.diagnostic, file.root, error.message)
        finally:
            file.close()
    return Report(config_dir=os.fspath(folder), diagnostics=findings.items, body=body)


def _write(on: Run, resources: dict[str, Applied], statuses: dict[str, Status]) -> None:
    state = on.stored.state
    after = msgspec.structs.replace(
        state,
        state_revision=state.state_revision + 1,
        applied_revision=revision_of(resources),
        resource_statuses=statuses,
    )
    on.file.write(on.stored, after)


def _observed(on: Run) -> tuple[dict[str, Status], dict[str, Applied]]:
    """Return how resources are, and the schemas that graphs have instead of those applied."""
    applied = on.stored.state.resources
    statuses = {address: Status("applied") for address in {**on.desired.resources, **applied}}
    drifted: dict[str, Applied] = {}
    for change in differences(on.desired.resources, applied):
        statuses[change.resource] = Status("pending", _PENDING[change.operation])
    for address, known in applied.items():
        kind, _, rest = address.partition(".")
        try:
            if kind == "schema":
                live = graphs.live_schema(on.file.root, rest)
                if live != known.digest:
                    drifted[address] = Applied(digest=live)
                    message = "the graph has another schema than was applied"
                    statuses[address] = Status("drifted", message)
            elif kind != "graph":
                on.file.payload(address, known.digest)
        except OmniGraphError as error:
            statuses[address] = Status("error", error.message)
        except StateError as error:
            statuses[address] = Status("error", error.message, [error.diagnostic])
    return statuses, drifted


def _sorted(statuses: Mapping[str, Status]) -> Body:
    return dict(msgspec.to_builtins(dict(sorted(statuses.items()))))
