"""Makes a cluster what its configuration says, and tells of it in one replacement of the state.

Graphs are made and changed before the state tells of them, and removed after it does not any more.
A run that dies leaves work the state does not tell of; the next one sees it by looking.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from omnigraph.clock import now_us
from omnigraph.cluster import graphs
from omnigraph.cluster.planning import Change, Desired, make_plan, rests_on_blocked
from omnigraph.cluster.reports import Findings
from omnigraph.cluster.state import Applied, State, StateFile, Status, Stored, revision_of
from omnigraph.errors import OmniGraphError, StorageError
from omnigraph.limits import CLUSTER_RECORDS_KEPT

_FAILED = {"graph": "graph_create_failed", "schema": "schema_apply_failed"}


@dataclass(slots=True, kw_only=True)
class Run:
    """What a command works on; `stored` is the newest state it knows of."""

    file: StateFile
    desired: Desired
    findings: Findings
    stored: Stored
    actor: str | None = None

    def apply(self) -> list[Change]:
        """Finish what an earlier run left, then do what can be done. Return what became of it.

        Needs the lock.
        """
        for graph_id in self._remove_graphs():
            self._tell_finished(f"graph.{graph_id}", "graph_delete")
        state = self.stored.state
        actual = graphs.look(self.desired, state)
        for resource, operation in actual.finished.items():
            self._tell_finished(resource, operation)
        plan = make_plan(self.desired, actual, state.approvals, self.findings)
        resources = dict(actual.applied)
        statuses: dict[str, Status] = {}
        for number, change in enumerate(plan):
            plan[number] = self._make(change, plan, resources, statuses)
        for address in {**self.desired.resources, **resources}:
            statuses.setdefault(address, Status("applied"))
        after = _after(state, plan, resources, statuses)
        if after != state or self.stored.body is None or self.stored.older:
            after = msgspec.structs.replace(after, state_revision=state.state_revision + 1)
            self.stored = self.file.write(self.stored, after)
            self._remove_graphs()
        return plan

    def _tell_finished(self, resource: str, operation: str) -> None:
        message = f"an interrupted {operation} was finished"
        self.findings.warning("cluster_recovery_rolled_forward", resource, message)

    def _make(
        self,
        change: Change,
        plan: list[Change],
        resources: dict[str, Applied],
        statuses: dict[str, Status],
    ) -> Change:
        """Do one change; return it as it went."""
        if change.is_blocked or rests_on_blocked(change, plan, self.desired):
            change = change.blocked("apply_dependency_blocked")
            statuses[change.resource] = Status("blocked", change.reason or "")
            return change
        try:
            self._effect(change)
        except OmniGraphError as error:
            code = _FAILED.get(change.what[0])
            if code is None:
                raise
            self.findings.error(code, change.resource, error.message)
            statuses[change.resource] = Status("error", error.message)
            return change.blocked(code)
        if change.after is None:
            del resources[change.resource]
        else:
            resources[change.resource] = change.after
        return change

    def _effect(self, change: Change) -> None:
        """Do what a change means outside the state, unless another process took the lock."""
        match change.what:
            case "graph", "create":
                self.file.check_lock()
                graphs.make_graph(self.desired, change)
            case "schema", "update":
                self.file.check_lock()
                revision = self.stored.state.state_revision
                graphs.change_schema(self.desired, change, revision, self.actor)
            case (("query" | "policy" | "provider"), ("create" | "update")):
                self.file.keep_payload(change.resource, self.desired.texts[change.resource])

    def _remove_graphs(self) -> list[str]:
        """Remove the files of graphs that are gone; the next apply tries what is left again."""
        state, done = self.stored.state, []
        for graph_id in state.removing:
            try:
                graphs.remove_graph(self.file.root, graph_id)
                done.append(graph_id)
            except (OSError, StorageError) as error:
                message = f"its files are still there: {error}"
                self.findings.error("graph_delete_incomplete", f"graph.{graph_id}", message)
        if done:
            left = tuple(graph_id for graph_id in state.removing if graph_id not in done)
            state = msgspec.structs.replace(state, removing=left)
            self.stored = self.file.write(self.stored, state)
        return done


def _after(
    state: State,
    plan: list[Change],
    resources: dict[str, Applied],
    statuses: dict[str, Status],
) -> State:
    """Return the state that tells of a run; only its number is still the old one."""
    done = [change for change in plan if not change.is_blocked]
    used = {
        change.approval.id: {
            "resource": change.resource,
            "operation": change.operation,
            "approved_by": change.approval.approved_by,
            "applied_at": now_us(),
        }
        for change in done
        if change.approval is not None
    }
    records = {**state.approval_records, **used}
    # An approval of a change that is not wanted any more is no consent for another day.
    waiting = {change.resource for change in plan if change.danger is not None}
    removed = [c.graph_id for c in done if c.what == ("graph", "delete")]
    return msgspec.structs.replace(
        state,
        applied_revision=revision_of(resources),
        resource_statuses=statuses,
        approvals={
            address: item
            for address, item in state.approvals.items()
            if address in waiting and item.id not in used
        },
        removing=(*state.removing, *removed),
        # They are for people, and people do not read thousands.
        approval_records={name: records[name] for name in sorted(records)[-CLUSTER_RECORDS_KEPT:]},
    )
