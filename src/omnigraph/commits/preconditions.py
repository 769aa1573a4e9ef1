"""What must hold of the state a write is made on, beside what its rows say."""

from __future__ import annotations

from omnigraph.commits.changes import ChangeSet
from omnigraph.commits.history import History
from omnigraph.commits.manifest_reader import BranchState
from omnigraph.commits.members import Member
from omnigraph.commits.operation import SchemaMovedError
from omnigraph.commits.records import MAINTENANCE_KINDS, GraphCommit
from omnigraph.errors import PreconditionFailedError, VersionConflictError


def check_schema(member: Member, state: BranchState) -> None:
    """Refuse a state of another schema: the publish succeeds from this very state only."""
    if member.schema is not None and state.head.schema_hash != member.schema.ir_hash():
        raise SchemaMovedError


def check_head(member: Member, state: BranchState, history: History) -> None:
    """Refuse a state whose head is not the one the caller named."""
    expected = member.request.expected_head
    if expected is None:
        return
    head: GraphCommit | None = state.head
    # Maintenance changes nothing a caller could have relied on, so it does not count.
    while head is not None and head.kind in MAINTENANCE_KINDS and head.graph_commit_id != expected:
        head = history.commits.get(head.parent_commit_id or "")
    if head is None or head.graph_commit_id != expected:
        raise PreconditionFailedError(expected=expected, actual=state.head.graph_commit_id)


def check_strict(member: Member, changes: ChangeSet, state: BranchState, history: History) -> None:
    """Refuse a strict write whose rows changed since the caller, or this write, saw them."""
    seen = dict(member.request.observed or {})
    if member.first is not None:
        seen = {key: pin.place for key, pin in member.first.pins.items()}
    for key in member.operation.tables_read_strictly(changes):
        pin, known = state.pins[key], seen.get(key)
        if known is None or known == pin.place:
            continue
        if not history.only_maintenance(pin, since=known):
            raise VersionConflictError(table_key=key, expected=known[1], actual=pin.version)
