"""The writes that are published together with the one whose turn it is.

Each is judged on the state the writes before it lead to, has its own commit, and is refused alone.
None is answered before the publish: even a refusal may rest on a write that is not published yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto

from omnigraph.commits.base import Base
from omnigraph.commits.changes import ChangeSet
from omnigraph.commits.manifest_reader import BranchState, ManifestReader
from omnigraph.commits.members import Member
from omnigraph.commits.operation import LeftoversFound
from omnigraph.commits.overlay import Overlay, touched_by
from omnigraph.commits.preconditions import check_schema, check_strict
from omnigraph.commits.write_queue import Ticket, WriteQueue
from omnigraph.errors import StorageError, VersionReclaimedError
from omnigraph.limits import (
    GROUP_BYTES_MAX,
    GROUP_MEMBERS_MAX,
    GROUP_ROWS_MAX,
    MEMBER_ROWS_MAX,
)
from omnigraph.rows.changes import TableChange


class Verdict(Enum):
    """What becomes of a write that was looked at."""

    IN = auto()
    ANSWERED = auto()
    """Refused, a repeat, or without effect: its answer waits for the publish."""
    LATER = auto()
    """It waits for its own turn, and so do those behind it."""


class Companions:
    """Takes writes out of the queue, and answers them or puts them back."""

    def __init__(self, queue: WriteQueue, manifest: ManifestReader) -> None:
        self._queue = queue
        self._manifest = manifest
        self._taken: list[Ticket] = []
        self._in: list[Member] = []

    def join(self, leader: Member, base: Base) -> list[Member]:
        """Return the writes to publish, the leader first, in the order they came.

        Those taken for an attempt that was lost are judged again before others are looked at.
        """
        waiting, self._taken, self._in = self._taken, [], []
        if not _may_lead(leader):
            self._queue.put_back(waiting)
            return [leader]
        group: _Group | None = None
        gathered = False
        while True:
            size = 1 + len(self._taken)
            waiting = waiting or self._queue.take(GROUP_MEMBERS_MAX - size)
            if not waiting:
                if gathered:
                    break
                gathered = True
                self._queue.gather(size)
                continue
            group = group or _Group(leader, base, self._manifest)
            group.look_up(waiting)
            if not self._admit(group, waiting):
                break
            waiting = []
        return [leader, *self._in]

    def _admit(self, group: _Group, waiting: Sequence[Ticket]) -> bool:
        """Judge writes in their order; whether there is room for more."""
        for number, ticket in enumerate(waiting):
            member = ticket.member
            verdict = Verdict.LATER if member is None else group.judge(member)
            if member is None or verdict is Verdict.LATER:
                self._queue.put_back(waiting[number:])
                return False
            self._taken.append(ticket)
            if verdict is Verdict.IN:
                self._in.append(member)
        return True

    def published(self, members: Sequence[Member], seconds: float) -> None:
        """Answer every write that was taken: all of it is published."""
        commits = self._manifest.history.commits
        for member in members:
            member.commit = commits[member.identity.commit_id]
        if len(members) > 1:
            _mark_unseen(members)
        self._queue.published(1 + len(self._taken), seconds)
        self._wake(self._taken)

    def failed(self, error: BaseException) -> None:
        """Answer the writes whose publish failed; the others are judged again by the next."""
        inside = {id(member) for member in self._in}
        failed = [item for item in self._taken if id(item.member) in inside]
        self._taken = [item for item in self._taken if id(item.member) not in inside]
        for ticket in failed:
            if ticket.member is not None:
                ticket.member.fail(error)
        self._wake(failed)

    def give_back(self) -> None:
        """Put writes that were not answered back into the queue, before all others."""
        for ticket in self._taken:
            if ticket.member is not None:
                ticket.member.forget()
                ticket.member.first = None
        self._queue.put_back(self._taken)
        self._taken = []

    def _wake(self, tickets: Iterable[Ticket]) -> None:
        answered = list(tickets)
        self._taken = [item for item in self._taken if item not in answered]
        for ticket in answered:
            ticket.wake()


class _Group:
    """Writes that were admitted so far, and the state they lead to."""

    def __init__(self, leader: Member, base: Base, manifest: ManifestReader) -> None:
        self._manifest = manifest
        self._capture: BranchState = base.capture
        self._overlay = Overlay.on(base)
        self._known = {leader.identity.operation_id: leader}
        self._sessions: dict[str, set[int]] = {}
        self._rows = self._bytes = 0
        if leader.changes is not None:
            effective = tuple(leader.changes.effective())
            leader.touched = touched_by(effective)
            self._add_member(leader, effective, *_weight(effective))

    def _add_member(
        self, member: Member, changes: Sequence[TableChange], rows: int, size: int
    ) -> None:
        self._overlay.take(changes, member.touched)
        for key in member.touched:
            self._sessions.setdefault(key, set()).add(_session(member))
        self._rows, self._bytes = self._rows + rows, self._bytes + size

    def look_up(self, waiting: Sequence[Ticket]) -> None:
        """Find out which of the ids that writes name are stored, for all of them at once."""
        wanted: dict[str, list[str]] = {}
        for ticket in waiting:
            member = ticket.member
            if member is None or member.schema is not self._overlay.accepted:
                continue
            for key, ids in member.operation.ids_to_look_up(self._overlay.schema).items():
                wanted.setdefault(key, []).extend(ids)
        for key, ids in wanted.items():
            self._overlay.look_up(self._overlay.schema.catalog.entity_of_table(key), ids)

    def judge(self, member: Member) -> Verdict:
        """Prepare one more write on the state the others lead to."""
        before = member.changes
        member.forget()
        operation_id = member.identity.operation_id
        done = self._manifest.commit_of(operation_id, past=member.may_be_repeated)
        if done is not None:
            ours = done.graph_commit_id == member.identity.commit_id
            member.commit, member.changes = done, before if ours else None
            return Verdict.ANSWERED
        if (twin := self._known.get(operation_id)) is not None:
            member.twin = twin
            return Verdict.ANSWERED
        if member.request.expected_head is not None:
            # Judged on a published head: no caller can know the commit of one that is not.
            return Verdict.LATER
        try:
            check_schema(member, self._capture)
            changes = member.context.run(member.operation.prepare, self._overlay)
            if self._rests_on_others(member, changes):
                return Verdict.LATER
            check_strict(member, changes, self._capture, self._manifest.history)
        except (LeftoversFound, StorageError, VersionReclaimedError):
            # Not a verdict on the write: alone it goes through what corrects these.
            member.shared = False
            return Verdict.LATER
        except Exception as error:
            member.error = error
            return Verdict.ANSWERED
        return self._taken_in(member, changes)

    def _rests_on_others(self, member: Member, changes: ChangeSet) -> bool:
        """Whether a caller that remembers what it saw reads what another changed in this group.

        It is then judged on what is published. Its own writes it has seen.
        """
        if member.request.observed is None:
            return False
        read = member.operation.tables_read_strictly(changes)
        return any(self._sessions.get(key, set()) - {_session(member)} for key in read)

    def _taken_in(self, member: Member, changes: ChangeSet) -> Verdict:
        member.changes = changes
        effective = tuple(changes.effective())
        rows, size = _weight(effective)
        if rows == 0:
            return Verdict.ANSWERED
        if rows > MEMBER_ROWS_MAX:
            member.shared = False
            return Verdict.LATER
        if self._rows + rows > GROUP_ROWS_MAX or self._bytes + size > GROUP_BYTES_MAX:
            return Verdict.LATER
        member.touched = touched_by(effective)
        if self._overlay.overlaps(member.touched):
            return Verdict.LATER
        self._known[member.identity.operation_id] = member
        member.first = member.first or self._capture
        self._add_member(member, effective, rows, size)
        return Verdict.IN


def _session(member: Member) -> int:
    """Return what tells the sessions of callers apart; those that remember nothing are one."""
    return id(member.request.observed)


def _may_lead(leader: Member) -> bool:
    """Whether a write is small enough to share its publish."""
    if not leader.shared or leader.changes is None:
        return False
    rows, size = _weight(tuple(leader.changes.effective()))
    return 0 < rows <= MEMBER_ROWS_MAX and size <= GROUP_BYTES_MAX


def _weight(changes: Sequence[TableChange]) -> tuple[int, int]:
    """Return the rows that are written or deleted, and the bytes of those written."""
    rows = size = 0
    for change in changes:
        rows += change.row_count + len(change.deleted)
        parts = (change.added, change.changed)
        size += sum(int(part.nbytes) for part in parts if part is not None)
    return rows, size


def _mark_unseen(members: Sequence[Member]) -> None:
    """Tell each write which tables others changed after it: its caller has not seen those."""
    later: dict[str, set[int]] = {}
    for member in reversed(members):
        session = {_session(member)}
        if member.changes is not None and member.request.observed is not None:
            member.changes.unseen = frozenset(key for key in later if later[key] - session)
        for key in member.touched:
            later.setdefault(key, set()).update(session)
