"""The one function that makes anything visible, and the protocol around it.

Safety rests on three rules. The publish is an exact compare-and-swap from the captured manifest
version. A published version moves only to a table version this plan proved exact. An outcome is
decided by the commit id in the lineage, never by a number, an exception or giving up. The slot
only gives order: losing it costs a retry, never data.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.clock import elapsed_s
from omnigraph.commits.branch_ids import MANIFEST, BranchId
from omnigraph.commits.groups import Group, GroupMember
from omnigraph.commits.identity import CommitChain, CommitIdentity, alone
from omnigraph.commits.intents import Intent, encode_intent
from omnigraph.commits.manifest_reader import BranchState, ManifestReader
from omnigraph.commits.plans import PlannedTable, PublishPlan
from omnigraph.commits.records import (
    GraphCommit,
    Record,
    TableEntry,
    encode,
    published_after,
)
from omnigraph.errors import (
    ConflictError,
    DriftError,
    InternalError,
    NotFoundError,
    OmniGraphError,
    OutcomeUnknownError,
    StorageError,
)
from omnigraph.failpoints import Failpoint, fire
from omnigraph.limits import (
    LEASE_S,
    PUBLISH_ATTEMPTS_MAX,
    SLOT_WAIT_S,
)
from omnigraph.store import (
    OPERATION_PROPERTY,
    HeldSlot,
    Slots,
    StagedAppend,
    StagedTable,
    StaleJournal,
    Syncer,
    Table,
    Tables,
    branch_exists,
    commit_staged,
    is_stored,
    version_file,
)
from omnigraph.store.tables.steps import UnstagedStep, perform
from omnigraph.store.tables.workers import Workers


class Attendant(Protocol):
    """Who asked for a publish: helps with it, and hears of it while the slot is still held."""

    @property
    def workers(self) -> Workers:
        """Who does the long work."""

    def undo(self, slot: HeldSlot) -> None:
        """Resolve the slot of a publish that failed half-way, as recovery would."""

    def finish(self, intent: Intent, commit: GraphCommit) -> None:
        """Do what follows from a commit before another owner can come."""


class HeadMoved(Exception):
    """Another writer's commit came first.

    Nothing of this attempt is visible. Unless `may_land`, nothing of it ever will be: recovery may
    finish an attempt whose tables had all moved when its owner's lease lapsed.
    """

    def __init__(self, *, may_land: bool = False) -> None:
        super().__init__()
        self.may_land = may_land


class StagedRows(Struct, frozen=True, kw_only=True):
    """The manifest rows of a commit, written but not part of the manifest yet."""

    entries: list[TableEntry]
    records: list[Record]
    append: StagedAppend


class _Tenure:
    """How long an owner may rely on what it saw when it had just taken the slot.

    While the slot is held no other writer moves the head, and no version above the captured one can
    have been removed. An owner that was out for longer than a lease knows neither, even if its own
    lease looks good: its slot may have been removed by a request that was late.
    """

    def __init__(self, slot: HeldSlot) -> None:
        self._slot = slot
        self._since = elapsed_s()

    @property
    def holds(self) -> bool:
        """Whether what was seen still holds."""
        return not self._slot.lapsed and elapsed_s() - self._since <= LEASE_S

    def check(self) -> None:
        """Raise `Lost` when another owner may be at work by now: the next attempt looks again."""
        if self._slot.lapsed:
            raise HeadMoved(may_land=True)


class Publisher:
    """Executes plans on one graph."""

    def __init__(
        self,
        manifest: ManifestReader,
        tables: Tables,
        slots: Slots,
        syncer: Syncer,
        threads: ThreadPoolExecutor,
    ) -> None:
        self.manifest = manifest
        self.tables = tables
        self.slots = slots
        self.syncer = syncer
        self.threads = threads
        self.check_kept: Callable[[BranchId, int], None] = lambda _branch, _version: None
        """Raises when a state of a branch was given up by a cleanup."""
        self.out_of_sight = False
        """Whether the branch is still being made, so that only its maker may write to it."""

    def reserve(
        self, state: BranchState, identity: CommitIdentity, rollback_id: str
    ) -> HeldSlot | None:
        """Take the branch's slot with an empty table list, so that no writer moves its head.

        Waits for a living owner; None when there was one, or the head has moved meanwhile.
        """
        plan = PublishPlan(chain=alone(identity), rollback_id=rollback_id)
        slot = self._take_slot(state, encode_intent(plan.intent(state)))
        if slot is None:
            return None
        try:
            moved = self._moved(state)
        except OmniGraphError:
            slot.remove()
            raise
        if moved:
            slot.remove()
            return None
        return slot

    def _take_slot(self, state: BranchState, body: bytes, *, wait: bool = True) -> HeldSlot | None:
        name = state.slot
        slot = self.slots.take(name, body)
        if slot is None and wait and not self.slots.wait(name, timeout_s=SLOT_WAIT_S):
            raise ConflictError(
                f"another writer has held the branch for more than {SLOT_WAIT_S:g} seconds",
                hint="try again",
            )
        return slot

    def exists(self) -> bool:
        """Whether the branch exists. Its deleter owns its slot, so ask under the slot."""
        branch = self.manifest.branch
        if branch.is_main:
            return True
        seen = is_stored if self.out_of_sight else branch_exists
        return seen(self.tables.files, self.tables.folder(MANIFEST), branch.uid)

    def failure(self, error: OmniGraphError) -> OmniGraphError:
        """Return what to raise for files that are missing: the branch, if that is what is gone."""
        if self.exists():
            return error
        return NotFoundError(f"branch '{self.manifest.branch.name}' was deleted")

    def _moved(self, state: BranchState) -> bool:
        """Whether the manifest moved since the capture."""
        return self.manifest.journal.latest_version(state.view) != state.version

    def publish(
        self,
        state: BranchState,
        plan: PublishPlan,
        attendant: Attendant,
        *,
        reserved: HeldSlot | None = None,
        wait: bool = True,
    ) -> GraphCommit:
        """Move a plan's tables and make that visible as one graph commit.

        With `wait`, a living owner of the slot is waited for. Raises `Lost` when the head moved
        first, `ConflictError` when another writer does not finish, and `OutcomeUnknownError` when
        it cannot be told whether the commit landed.
        """
        _check_base(plan, state)
        intent = plan.intent(state)
        body = encode_intent(intent)
        ahead = self._stage_ahead(state, plan)
        self._sync_staged(plan)
        slot = reserved or self._take_slot(state, body, wait=wait)
        if slot is None:
            raise HeadMoved
        with slot:
            if reserved is not None:
                slot.rewrite(body)
            if not self.exists():
                slot.remove()
                raise NotFoundError(f"branch '{state.branch.name}' was deleted")
            tenure = _Tenure(slot)
            if self._moved(state) or slot.lapsed:
                slot.remove()
                raise HeadMoved
            self._check_merged(plan.merged_state, slot)
            try:
                fire(Failpoint.PUBLISH_POST_SLOT_PRE_EFFECT)
                entries, staged = self._move(plan, ahead, tenure, attendant.workers)
                fire(Failpoint.PUBLISH_POST_EFFECTS)
            except (HeadMoved, OmniGraphError) as error:
                self._give_up(plan, slot, error, attendant)
                raise
            chain = plan.chain
            try:
                commit = self.append(state, chain, entries, slot, staged=staged, tenure=tenure)
                attendant.finish(intent, commit)
            except OutcomeUnknownError:
                raise
            except OmniGraphError as error:
                # Every table has moved: a recovery that finds the slot finishes the commit.
                raise _interrupted(chain.last, error) from error
            self.release(slot)
            return commit

    def _stage_ahead(self, state: BranchState, plan: PublishPlan) -> Future[StagedRows] | None:
        """Write the manifest's rows while the tables commit, if it is known what they will be.

        It is if every table moves by exactly one version.
        """
        if not plan.is_staged:
            return None
        versions = [item.parent.version + 1 for item in plan.staged]
        entries = plan.staged_entries(versions)
        run = contextvars.copy_context().run
        return self.threads.submit(run, self._stage_rows, state, plan.chain, entries)

    def _sync_staged(self, plan: PublishPlan) -> None:
        """Data before the version that names it: a power loss must not leave a version without."""
        try:
            self.syncer.sync(
                f"{self.tables.folder(item.path)}/{name}"
                for item in plan.staged
                for name in item.files
            )
        except StorageError as error:
            raise self.failure(error) from error

    def _check_merged(self, state: tuple[BranchId, int] | None, slot: HeldSlot) -> None:
        """Refuse a merge whose source state was given up: later merges would start from it."""
        if state is None:
            return
        try:
            self.check_kept(*state)
        except OmniGraphError:
            slot.remove()
            raise

    def _give_up(
        self, plan: PublishPlan, slot: HeldSlot, error: Exception, attendant: Attendant
    ) -> None:
        """After a failed effect: leave nothing behind that recovery could not tell.

        Raises `OutcomeUnknownError` unless it is sure that nothing will be published.
        """
        if not plan.is_staged and not slot.lapsed:
            try:
                attendant.undo(slot)
            except OmniGraphError as second:
                raise _interrupted(plan.identity, second) from error
            return
        if not plan.is_staged and not isinstance(error, HeadMoved):
            # Its lease lapsed on the way: the one that takes the slot over undoes the rest.
            raise HeadMoved from error
        if isinstance(error, (HeadMoved, ConflictError, DriftError)):
            # No right to undo anything here: what lies above a pin goes with the next owner.
            slot.remove()
        elif isinstance(error, OmniGraphError):
            raise _interrupted(plan.identity, error) from error

    def release(self, slot: HeldSlot) -> None:
        """Give up the slot of a commit that landed. It stands even if the slot cannot go."""
        try:
            fire(Failpoint.PUBLISH_PRE_SLOT_DELETE)
            slot.remove()
        except OmniGraphError:
            # A recovery that finds it sees the commit in the lineage and removes it.
            slot.close()

    def _stage_rows(
        self, state: BranchState, chain: CommitChain, entries: Sequence[TableEntry]
    ) -> StagedRows:
        """Write the manifest rows of commits from a captured head; nothing is visible yet."""
        seq, journal = state.view.version + 1, self.manifest.journal
        tables = [replace(item, seq=seq) for item in entries]
        records: list[Record] = [*tables, *_commits(chain, seq, state)]
        if journal.is_next_long(state.view, len(records)):
            records += self._checkpoint(state, seq, tables, records)
        rows = encode(records, state.view.dataset.schema)
        append = journal.stage(state.view, rows)
        return StagedRows(entries=list(entries), records=records, append=append)

    def _checkpoint(
        self,
        state: BranchState,
        seq: int,
        tables: Iterable[TableEntry],
        records: Iterable[Record],
    ) -> list[Record]:
        """Return what the manifest adds up to after an append that writes a long file."""
        pins = published_after(state.pins, tables)
        commits = [item for item in records if isinstance(item, GraphCommit)]
        checkpoint = self.manifest.history.checkpoint(seq, pins, commits)
        return [] if checkpoint is None else [checkpoint]

    def _move(
        self,
        plan: PublishPlan,
        ahead: Future[StagedRows] | None,
        tenure: _Tenure,
        workers: Workers,
    ) -> tuple[list[TableEntry], StagedRows | None]:
        """Move every table; return what to publish, and the manifest's rows if they are written."""
        moved = self._commit_tables(plan.staged, tenure)
        files = [f"{self.tables.folder(table.path)}/{version_file(table)}" for table in moved]
        entries = plan.staged_entries([table.version for table in moved])
        ready = None
        if ahead is not None:
            ready = ahead.result()
            if ready.entries != entries:
                ready = None
            else:
                files += self.manifest.journal.data_files(ready.append)
        # A manifest must never name unsynced files.
        self.syncer.sync(files)
        for item in plan.tables:
            if not isinstance(item.step, StagedTable):
                tenure.check()
                entries += self._perform(plan.identity, item, item.step, workers)
        return entries, ready

    def _perform(
        self, identity: CommitIdentity, planned: PlannedTable, step: UnstagedStep, workers: Workers
    ) -> list[TableEntry]:
        pin, mark = planned.pin, identity.operation_id
        table = perform(self.tables, pin.path, pin.version, step, workers, mark)
        self.syncer.sync_tree(self.tables.folder(pin.path))
        return planned.entries(table.version, table.count_rows(), table.transaction_uuid())

    def _commit_tables(self, staged: Sequence[StagedTable], tenure: _Tenure) -> list[Table]:
        if len(staged) == 1:
            return [self._commit_table(staged[0], tenure)]
        futures = [
            self.threads.submit(contextvars.copy_context().run, self._commit_table, item, tenure)
            for item in staged
        ]
        # Every commit is awaited before any failure is raised: none may land later unseen.
        errors = [future.exception() for future in futures]
        for error in errors:
            if error is not None:
                raise error
        return [future.result() for future in futures]

    def _commit_table(self, staged: StagedTable, tenure: _Tenure) -> Table:
        fire(Failpoint.PUBLISH_PRE_TABLE_COMMIT)
        tenure.check()
        table = commit_staged(self.tables, staged)
        fire(Failpoint.PUBLISH_POST_TABLE_COMMIT)
        return table

    def append(
        self,
        state: BranchState,
        chain: CommitChain,
        entries: Sequence[TableEntry],
        slot: HeldSlot,
        *,
        staged: StagedRows | None = None,
        tenure: _Tenure | None = None,
    ) -> GraphCommit:
        """Publish entries under commits, from the captured head; return the last commit.

        The slot stays, unless lost. This is the only place where anything becomes visible.
        """
        identity, journal = chain.last, self.manifest.journal
        properties = {OPERATION_PROPERTY: identity.operation_id}
        tenure = tenure or _Tenure(slot)
        for _attempt in range(PUBLISH_ATTEMPTS_MAX):
            if staged is None:
                staged = self._stage_rows(state, chain, entries)
                self.syncer.sync(journal.data_files(staged.append))
            fire(Failpoint.PUBLISH_PRE_CAS)
            tenure.check()
            try:
                view, version = journal.append(staged.append, properties)
            except StaleJournal:
                staged = None
                state = self._look_again(state, identity, slot)
                commit = self.manifest.history.commits.get(identity.commit_id)
                if commit is not None:
                    # The answer was lost, not the commit: it must be as durable as any other.
                    self._acknowledge(identity, journal.version_path(commit.manifest_version))
                    return commit
                continue
            fire(Failpoint.PUBLISH_POST_MANIFEST_COMMIT)
            self._acknowledge(identity, version)
            if not tenure.holds:
                return self._found_in_latest(identity)
            self.manifest.adopt(view, staged.records)
            return self.manifest.history.commits[identity.commit_id]
        raise OutcomeUnknownError(
            "the manifest could not be written", operation_id=identity.operation_id
        )

    def _found_in_latest(self, identity: CommitIdentity) -> GraphCommit:
        """Return our commit as the newest manifest holds it; raise `Lost` when it does not.

        An owner that was out for too long may have made anew a version that a cleanup removed:
        such a version lies below the newest one and no reader opens it. So what was made proves
        nothing; only the lineage of the newest manifest does.
        """
        if not self.exists():
            raise NotFoundError(f"branch '{self.manifest.branch.name}' was deleted")
        try:
            self.manifest.capture()
        except OmniGraphError as error:
            raise _interrupted(identity, error) from error
        commit = self.manifest.history.commits.get(identity.commit_id)
        if commit is None:
            raise HeadMoved
        return commit

    def _look_again(
        self, state: BranchState, identity: CommitIdentity, slot: HeldSlot
    ) -> BranchState:
        """After a failed append: go on from the newest manifest if the head is still ours."""
        now = self.manifest.capture()
        landed = identity.commit_id in self.manifest.history.commits
        if not landed and now.head.graph_commit_id != state.head.graph_commit_id:
            slot.remove()
            raise HeadMoved
        return now

    def _acknowledge(self, identity: CommitIdentity, version: str) -> None:
        try:
            self.syncer.sync([version])
        except OmniGraphError as error:
            raise OutcomeUnknownError(
                f"the commit is visible but may not survive a power loss: {error.message}",
                operation_id=identity.operation_id,
            ) from error


def _check_base(plan: PublishPlan, state: BranchState) -> None:
    """Refuse a plan that was made for other versions than those its intent would speak of.

    Undoing it would undo what was published since.
    """
    for item in plan.tables:
        if not item.is_published_in(state):
            raise InternalError(f"the plan for {item.pin.table_key} rests on an older state")


def _interrupted(identity: CommitIdentity, error: OmniGraphError) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"the commit was interrupted: {error.message}", operation_id=identity.operation_id
    )


def _commits(chain: CommitChain, seq: int, state: BranchState) -> list[Record]:
    """Return the commits of a chain, each the parent of the next, and what each touched."""
    records: list[Record] = []
    parent = state.head.graph_commit_id
    for place, identity in enumerate(chain.members):
        records.append(
            identity.again
            or GraphCommit(
                graph_commit_id=identity.commit_id,
                manifest_version=seq,
                parent_commit_id=parent,
                merged_parent_commit_id=identity.merged_parent_commit_id,
                merged_branch=identity.merged_branch,
                branch=None if state.branch.is_main else state.branch.name,
                actor_id=identity.actor_id,
                created_at_us=identity.created_at_us,
                operation_id=identity.operation_id,
                kind=identity.kind,
                schema_hash=identity.schema_hash,
                recovery_for_actor=identity.recovery_for_actor,
                place=place,
                message=identity.message,
            )
        )
        parent = identity.commit_id
    if chain.touched:
        pairs = zip(chain.members, chain.touched, strict=True)
        members = (GroupMember(commit_id=item.commit_id, touched=ids) for item, ids in pairs)
        records.append(Group(seq=seq, members=tuple(members)))
    return records
