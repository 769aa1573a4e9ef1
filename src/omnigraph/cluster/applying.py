"""Makes a cluster what its configuration says.

Whatever happens outside the ledger (a graph is made, migrated or removed) is noted before it
begins, and the note is removed after the ledger tells of it. A run that dies leaves its notes to
the next one, which first finds out what became of each.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field, replace

import msgspec

from omnigraph.catalog import shape_hash
from omnigraph.cluster.config import graph_uri
from omnigraph.cluster.desired import Desired, revision_digest
from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.ledger import (
    Applied,
    Approval,
    Ledger,
    Lock,
    State,
    Status,
    Work,
    now_us,
)
from omnigraph.cluster.planning import Change, Plan, make_plan, rests_on_blocked
from omnigraph.errors import NotFoundError, OmniGraphError, StorageError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.graph import init, open_graph
from omnigraph.limits import CLUSTER_RECORDS_KEPT
from omnigraph.manifest import MANIFEST
from omnigraph.store import locate


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What an apply did."""

    plan: Plan = field(default_factory=Plan)
    state: State = field(default_factory=State)
    state_written: bool = False


class Apply:
    """One run, under the lock."""

    def __init__(
        self, ledger: Ledger, desired: Desired, lock: Lock, findings: Findings, actor: str | None
    ) -> None:
        self._ledger = ledger
        self._desired = desired
        self._lock = lock
        self._findings = findings
        self._actor = actor
        self._root = desired.config.root
        self._works: list[Work] = []

    def run(self) -> Outcome:
        """Resolve what earlier runs left, then do what can be done."""
        known = self._ledger.read()
        state, cas = known if known is not None else (State(), None)
        state, cas = self._recover(state, cas)
        approvals = self._unused_approvals(state)
        plan = make_plan(self._desired, state.applied_revision.resources, approvals, self._findings)
        self._refuse_leftover_graphs(plan)
        self._forget_idle(approvals, plan)
        resources = dict(state.applied_revision.resources)
        statuses: dict[str, Status] = {
            address: Status(status="applied") for address in self._desired.resources
        }
        for number, change in enumerate(plan.changes):
            plan.changes[number] = self._make(change, plan, resources, statuses)
        used = [
            item.approval
            for item in plan.approvals
            if item.approval is not None and _was_applied(plan, item.change.resource)
        ]
        outcome = self._commit(state, cas, resources, statuses, used)
        outcome.plan = plan
        return outcome

    def _unused_approvals(self, state: State) -> list[Approval]:
        """Return the approvals that count; one the ledger tells of was used by a run that died."""
        found: list[Approval] = []
        for approval in self._ledger.approvals():
            if approval.id in state.approval_records:
                self._ledger.use_approval(approval)
            else:
                found.append(approval)
        return found

    def _forget_idle(self, approvals: list[Approval], plan: Plan) -> None:
        """Remove approvals of changes nobody wants any more: they are no advance consent."""
        wanted = {item.change.resource for item in plan.approvals}
        for approval in approvals:
            if approval.resource not in wanted:
                self._ledger.use_approval(approval)

    # ---- one change -----------------------------------------------------------------------

    def _make(
        self,
        change: Change,
        plan: Plan,
        resources: dict[str, Applied],
        statuses: dict[str, Status],
    ) -> Change:
        """Do one change; return it as it went."""
        if change.disposition == "blocked" or rests_on_blocked(change, plan, self._desired):
            change = replace(
                change, disposition="blocked", reason=change.reason or "apply_dependency_blocked"
            )
            statuses[change.resource] = Status(status="blocked", message=change.reason)
            return change
        try:
            self._effect(change)
        except OmniGraphError as error:
            if change.kind not in ("graph", "schema"):
                raise
            code = "graph_create_failed" if change.kind == "graph" else "schema_apply_failed"
            self._findings.error(code, change.resource, error.message)
            statuses[change.resource] = Status(status="error", message=error.message)
            return replace(change, disposition="blocked", reason=code)
        if change.operation == "delete":
            resources.pop(change.resource, None)
            return change
        resource = self._desired.resources[change.resource]
        applied = Applied(digest=resource.digest, bindings=list(resource.bindings))
        resources[change.resource] = applied
        return change

    def _effect(self, change: Change) -> None:
        """Do what a change means outside the ledger."""
        graph_id = change.graph_id or ""
        resource = self._desired.resources.get(change.resource)
        if change.kind == "graph" and change.operation == "create":
            self._create_graph(change, graph_id)
        elif change.kind == "graph" and change.operation == "delete":
            # The files go when the ledger does not name them any more.
            self._begin("graph_delete", change)
        elif change.kind == "schema" and change.operation == "update":
            self._apply_schema(change, graph_id)
        elif resource is not None and resource.payload is not None:
            self._ledger.keep_payload(resource.address, resource.digest, resource.payload)

    def _begin(self, operation: str, change: Change, after: str | None = None) -> Work:
        work = self._ledger.begin(
            operation, change.resource, before=change.before, after=after or change.after
        )
        self._works.append(work)
        return work

    def _create_graph(self, change: Change, graph_id: str) -> None:
        self._begin("graph_create", change, self._desired.resources[f"schema.{graph_id}"].digest)
        uri = graph_uri(self._root, graph_id)
        init(uri, self._desired.schemas[graph_id]).close()
        fire(Failpoint.CLUSTER_POST_EFFECT)

    def _apply_schema(self, change: Change, graph_id: str) -> None:
        work = self._begin("schema_apply", change)
        with open_graph(graph_uri(self._root, graph_id), actor=self._actor) as graph:
            graph.schema.apply(self._desired.schemas[graph_id], operation_id=work.id)
        fire(Failpoint.CLUSTER_POST_EFFECT)

    def _refuse_leftover_graphs(self, plan: Plan) -> None:
        """Name graphs that stand where one shall be made: they are nobody's to replace."""
        for number, change in enumerate(plan.changes):
            if change.kind != "graph" or change.operation != "create":
                continue
            message = _occupied(graph_uri(self._root, change.graph_id or ""))
            if message is not None:
                self._findings.error("graph_create_failed", change.resource, message)
                plan.changes[number] = replace(
                    change, disposition="blocked", reason="graph_create_failed"
                )

    # ---- the ledger -----------------------------------------------------------------------

    def _commit(
        self,
        state: State,
        cas: str | None,
        resources: dict[str, Applied],
        statuses: dict[str, Status],
        used: list[Approval],
    ) -> Outcome:
        """Write the ledger if anything changed; only then is anything outside it forgotten."""
        for address in resources:
            statuses.setdefault(address, Status(status="applied"))
        changed = (
            resources != state.applied_revision.resources
            or statuses != state.resource_statuses
            or cas is None
        )
        after = with_resources(state, resources)
        after.resource_statuses = statuses
        after.approval_records = _last(
            {**state.approval_records, **{item.id: _approval_json(item) for item in used}}
        )
        if changed:
            after.state_revision = state.state_revision + 1
            self._ledger.write(after, expected=cas, lock=self._lock)
        for work in self._works:
            self._finish(work, after)
        for approval in used:
            self._ledger.use_approval(approval)
        return Outcome(state=after, state_written=changed)

    def _finish(self, work: Work, state: State) -> None:
        if work.operation == "graph_delete" and work.resource not in _resources(state):
            try:
                remove_graph(self._root, work.resource.partition(".")[2])
            except (OSError, StorageError) as error:
                # The note stays, and with it the work for the next apply.
                message = f"its files are still there: {error}"
                self._findings.error("graph_delete_incomplete", work.resource, message)
                return
        self._ledger.end(work)

    # ---- what earlier runs left -----------------------------------------------------------

    def _recover(self, state: State, cas: str | None) -> tuple[State, str | None]:
        works = self._ledger.unfinished()
        if not works:
            return state, cas
        resources = dict(_resources(state))
        records = dict(state.recovery_records)
        resolved: list[Work] = []
        for work in works:
            try:
                outcome = self._resolve(work, resources)
            except OmniGraphError as error:
                self._findings.error("cluster_recovery_pending", work.resource, error.message)
                continue
            resolved.append(work)
            records[work.id] = {
                "operation": work.operation,
                "resource": work.resource,
                "outcome": outcome,
                "resolved_at": now_us(),
            }
            message = f"an interrupted {work.operation} was {outcome.replace('_', ' ')}"
            self._findings.warning("cluster_recovery_rolled_forward", work.resource, message)
        after = with_resources(state, resources)
        after.recovery_records = _last(records)
        after.state_revision = state.state_revision + 1
        cas = self._ledger.write(after, expected=cas, lock=self._lock)
        for work in resolved:
            self._finish(work, after)
        return after, cas

    def _resolve(self, work: Work, resources: dict[str, Applied]) -> str:
        """Find out what became of interrupted work; note in `resources` what was done."""
        graph_id = work.resource.split(".")[1]
        uri = graph_uri(self._root, graph_id)
        if work.operation == "graph_delete":
            return "not_begun" if work.resource in resources else "finished"
        live = live_schema(uri)
        if work.operation == "graph_create":
            if f"graph.{graph_id}" in resources:
                return "finished"
            if live is None or live != work.after_digest:
                return "not_finished"
            resources[f"graph.{graph_id}"] = Applied(digest="")
            resources[f"schema.{graph_id}"] = Applied(digest=live)
            return "finished"
        if live is not None and live == work.after_digest:
            resources[f"schema.{graph_id}"] = Applied(digest=live)
            return "finished"
        return "not_begun"


def remove_graph(root: str, graph_id: str) -> None:
    """Remove a graph's files: first its name, so that nobody opens half of it."""
    uri = graph_uri(root, graph_id)
    files = locate(uri).files
    if files.safe:
        # No folder has a name of its own there: without its manifest it is no graph.
        files.remove(f"{uri}/{MANIFEST}")
        fire(Failpoint.CLUSTER_POST_REMOVE)
        files.remove(uri)
        return
    doomed = os.path.join(os.path.dirname(uri), f".removed-{graph_id}")
    if os.path.isdir(uri):
        if os.path.isdir(doomed):
            shutil.rmtree(doomed)
        os.rename(uri, doomed)
        fire(Failpoint.CLUSTER_POST_REMOVE)
    if os.path.isdir(doomed):
        shutil.rmtree(doomed)


def live_schema(uri: str) -> str | None:
    """Return the digest of a graph's schema; None when there is no whole graph.

    Opening it to write finishes what was interrupted inside it.
    """
    try:
        with open_graph(uri) as graph:
            return shape_hash(graph.catalog)
    except NotFoundError:
        return None


def _occupied(uri: str) -> str | None:
    """Return what stands where a graph shall be made, None when nothing does."""
    try:
        if live_schema(uri) is None:
            return None
    except OmniGraphError as error:
        return error.message
    return "a graph that the ledger does not know is there; see `cluster import`"


def _resources(state: State) -> dict[str, Applied]:
    return state.applied_revision.resources


def with_resources(state: State, resources: dict[str, Applied]) -> State:
    """Return a ledger that tells of other resources."""
    after = msgspec.structs.replace(state)
    after.applied_revision = msgspec.structs.replace(
        state.applied_revision, resources=resources, config_digest=revision_digest(resources)
    )
    return after


def _was_applied(plan: Plan, resource: str) -> bool:
    return any(c.resource == resource and c.disposition != "blocked" for c in plan.changes)


def _approval_json(item: Approval) -> dict[str, object]:
    return {
        "resource": item.resource,
        "operation": item.operation,
        "approved_by": item.approved_by,
        "applied_at": now_us(),
    }


def _last(records: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """Return the newest records: they are for people, and people do not read thousands."""
    kept = sorted(records)[-CLUSTER_RECORDS_KEPT:]
    return {name: records[name] for name in kept}
