"""The one write loop: capture, prepare, stage, publish, and again when another was first.

Every change of a graph goes through it: mutations, loads, merges, schema changes, maintenance,
repairs, the end of a branch. They differ in what they prepare and in how they persist.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.catalog import AcceptedSchema, Entity
from omnigraph.commits.base import Base
from omnigraph.commits.changes import ChangeSet
from omnigraph.commits.companions import Companions
from omnigraph.commits.forks import Forks, make_fork, owned_table
from omnigraph.commits.identity import CommitChain, CommitIdentity, alone, chained, mint
from omnigraph.commits.intents import Intent
from omnigraph.commits.leftovers import ClearLeftovers
from omnigraph.commits.manifest_reader import BranchState
from omnigraph.commits.members import Member
from omnigraph.commits.operation import (
    LeftoversFound,
    Operation,
    Request,
    Reserve,
    SchemaMovedError,
)
from omnigraph.commits.overlay import together
from omnigraph.commits.plans import PlannedTable, PublishPlan
from omnigraph.commits.preconditions import check_head, check_schema, check_strict
from omnigraph.commits.publisher import HeadMoved, Publisher
from omnigraph.commits.records import RECOVERY_ACTOR, GraphCommit
from omnigraph.commits.recovery import Recovery
from omnigraph.commits.table_staging import StagedIndexes, stage_table
from omnigraph.commits.trial import tried
from omnigraph.commits.write_queue import Ticket, WriteQueue
from omnigraph.errors import (
    ConflictError,
    DriftError,
    NotFoundError,
    OmniGraphError,
    OutcomeUnknownError,
    StorageError,
    VersionReclaimedError,
)
from omnigraph.failpoints import Failpoint, fire
from omnigraph.ids import UlidSource
from omnigraph.limits import RESERVE_AFTER_LOSSES, SLOT_WAIT_S, TAIL_FRAGMENT_ROWS_MAX
from omnigraph.rows.changes import TableChange
from omnigraph.store import (
    OPERATION_PROPERTY,
    HeldSlot,
    IdLookup,
    StagedTable,
    Table,
    side_by_side,
)
from omnigraph.store.tables.workers import Workers


class Prepared(Struct, frozen=True, kw_only=True):
    """A prepared and staged attempt, reusable while the versions it read are still published."""

    members: tuple[Member, ...]
    changes: ChangeSet
    """Those of all members together."""
    tables: tuple[PlannedTable, ...]
    read_pins: Mapping[str, int]

    @property
    def has_effect(self) -> bool:
        """Whether there is anything to publish."""
        return bool(self.tables or self.changes.entries or self.changes.alone)

    @property
    def can_be_finished(self) -> bool:
        """Whether recovery might publish it for its owner: what is not staged it only undoes."""
        staged = [isinstance(item.step, StagedTable) for item in self.tables]
        return bool(staged) and all(staged)


class Writer:
    """Runs operations against one branch.

    Writers of one process take turns, and small writes that wait are published together with the
    one whose turn it is. That gives order and speed; safety rests on the publish alone.
    """

    def __init__(
        self,
        publisher: Publisher,
        recovery: Recovery,
        id_lookup: IdLookup,
        ids: UlidSource,
        shares: Callable[[str | None], bool],
        check_stored_schema: Callable[[], object],
    ) -> None:
        self.publisher = publisher
        self.recovery = recovery
        self.id_lookup = id_lookup
        self._ids = ids
        self.queue = WriteQueue()
        self._shares = shares
        self.check_stored_schema = check_stored_schema
        """Raises when the schema that is stored cannot be the one of the graph."""

    def run(
        self,
        operation: Operation,
        request: Request,
        schema: AcceptedSchema | None = None,
    ) -> tuple[GraphCommit | None, ChangeSet | None]:
        """Run a change to its end; None for the commit when it had no effect.

        A repeated operation id returns the commit it made the first time, and no change set.
        Without a schema it is made on the newest state under whichever schema that has.
        """
        member = self._member(operation, request, schema)
        if not operation.persistence.takes_turn:
            return _Attempts(self, member).run()
        with self.queue.turn(Ticket(member)) as leads:
            if leads:
                companions = Companions(self.queue, self.publisher.manifest)
                return _Attempts(self, member, companions).run()
        return member.result()

    def _member(
        self, operation: Operation, request: Request, schema: AcceptedSchema | None
    ) -> Member:
        identity = mint(
            self.new_id,
            operation.kind,
            actor_id=request.actor_id,
            operation_id=request.operation_id,
            merged_parent=request.merged_parent,
            merged_branch=request.merged_branch,
            message=request.message,
        )
        shared = operation.shares_publish and self._shares(request.actor_id)
        return Member(operation, request, schema, identity, shared=shared)

    def maintain(
        self,
        operation: Operation,
        schema: AcceptedSchema | None = None,
        *,
        actor_id: str | None = None,
    ) -> tuple[GraphCommit | None, ChangeSet | None]:
        """Run a change that no caller will ask for again."""
        request = Request(actor_id=actor_id, operation_id=self.new_id(), new_id=True)
        return self.run(operation, request, schema)

    def clear_leftovers(self) -> bool:
        """Undo what interrupted writes left above tables, unless a living writer is at work."""
        if not self.recovery.leftovers(self.publisher.manifest.capture()):
            return False
        try:
            commit, _changes = self.maintain(ClearLeftovers(self.recovery), actor_id=RECOVERY_ACTOR)
        except OutcomeUnknownError as error:
            # No caller has an operation id by which to repeat it.
            raise StorageError(
                f"recovery was interrupted: {error.message}", hint="open the graph again"
            ) from error
        except ConflictError:
            return False
        return commit is not None

    def prepare_only(
        self, operation: Operation, request: Request, schema: AcceptedSchema
    ) -> ChangeSet:
        """Prepare and validate a write on the newest state and stop there."""
        return _Attempts(self, self._member(operation, request, schema)).prepare_only()

    @contextlib.contextmanager
    def trial(self, operation: Operation, schema: AcceptedSchema) -> Iterator[BranchState]:
        """Hold the state an operation would make of the newest one, for reading; see `tried`."""
        state = self.publisher.manifest.capture()
        fire(Failpoint.WRITE_POST_CAPTURE)
        if state.head.schema_hash != schema.ir_hash():
            raise SchemaMovedError
        base = self.base_at(state, schema)
        changes = operation.prepare(base)

        def stage(apart: Base) -> tuple[PlannedTable, ...]:
            return self.stage(apart, changes, operation, self.new_id())

        with tried(base, changes, stage, self.new_id) as made:
            yield made

    def base(self, schema: AcceptedSchema) -> Base:
        """Return the newest state as something to compute on."""
        return self.base_at(self.publisher.manifest.capture(), schema)

    def base_at(self, state: BranchState, schema: AcceptedSchema | None) -> Base:
        """Return a captured state as something to compute on."""
        return Base(
            accepted=schema,
            capture=state,
            pins=state.pins,
            tables=self.publisher.tables,
            id_lookup=self.id_lookup,
        )

    def stage(
        self,
        base: Base,
        changes: ChangeSet,
        operation: Operation,
        operation_id: str,
        forks: Forks | None = None,
    ) -> tuple[PlannedTable, ...]:
        """Write the files of changed rows; nothing moves."""
        properties = {OPERATION_PROPERTY: operation_id}

        def staged(change: TableChange) -> PlannedTable:
            pin, parent = base.pin(change.entity), self._own_table(base, change.entity, forks)
            if change.elsewhere is not None:
                step = operation.stage_elsewhere(change, parent, properties)
            else:
                step = stage_table(parent, change, properties)
            return PlannedTable(pin=pin, step=step)

        # A disk is busy with one table; in an object store each mostly waits for answers.
        at_once = self.publisher.tables.files.calls_at_once
        return tuple(side_by_side(staged, changes.effective(), at_once=at_once))

    def _own_table(self, base: Base, entity: Entity, forks: Forks | None) -> Table:
        """Return the table to write to; a branch's first write starts its own table branch."""
        own = owned_table(base, base.table(entity))
        own = own or (None if forks is None else forks.take(entity))
        return own or make_fork(self.publisher, base, base.table(entity), self.new_id())

    def fork_ahead(self, base: Base, table_keys: Sequence[str]) -> Forks:
        """Begin to make the table branches that a write to these tables needs."""
        entities: list[Entity] = []
        if table_keys and not base.capture.branch.is_main:
            known = {item.table_key: item for item in base.schema.catalog.entities()}
            entities = [known[key] for key in table_keys]
        return Forks(self.publisher, base, entities, [self.new_id() for _key in entities])

    def new_id(self) -> str:
        """Return a new ULID."""
        return self._ids.next()


class _Attempts:
    """The attempts of one operation, and of those published with it. It attends its publishes."""

    def __init__(
        self, writer: Writer, member: Member, companions: Companions | None = None
    ) -> None:
        self._writer = writer
        self._publisher = writer.publisher
        self._member = member
        self._companions = companions
        self._operation = member.operation
        self._persistence = member.operation.persistence
        self._request = member.request
        self._may_land = False
        self._publishing = False
        self._indexes = StagedIndexes(writer.publisher, writer.new_id, member.operation.workers)
        self._started = time.monotonic()
        self._seconds = 0.0

    # ---- the loop -------------------------------------------------------------------------

    def run(self) -> tuple[GraphCommit | None, ChangeSet | None]:
        try:
            return self._run()
        except BaseException as error:
            if self._publishing and self._companions is not None:
                self._companions.failed(self._shared_error(error))
            if isinstance(error, OutcomeUnknownError):
                # A publish of several names the last one; this caller repeats its own.
                operation_id = self._request.operation_id
                raise OutcomeUnknownError(error.message, operation_id=operation_id) from error
            raise
        finally:
            if self._companions is not None:
                self._companions.give_back()

    def _shared_error(self, error: BaseException) -> BaseException:
        """Return what the others are told whose publish ended in an error."""
        if isinstance(error, OmniGraphError):
            return error
        return OutcomeUnknownError(
            "the commit was interrupted", operation_id=self._request.operation_id
        )

    def _run(self) -> tuple[GraphCommit | None, ChangeSet | None]:
        prepared: Prepared | None = None
        manifest = self._publisher.manifest
        if self._request.warm_schema:
            self._writer.check_stored_schema()
        for losses in range(self._persistence.attempts):
            with contextlib.ExitStack() as stack:
                state = manifest.capture(fresh=self._persistence.looks or losses > 0)
                fire(Failpoint.WRITE_POST_CAPTURE)
                done = manifest.commit_of(
                    self._request.operation_id, past=self._member.may_be_repeated
                )
                if done is not None:
                    return done, self._own_changes(done, prepared)
                check_schema(self._member, state)
                slot: HeldSlot | None = None
                if self._reserves(losses):
                    slot = self._reserve(state)
                    if slot is None:
                        continue
                    stack.enter_context(slot)
                try:
                    check_head(self._member, state, manifest.history)
                    if prepared is None or not self._still_valid(prepared, state):
                        prepared = self._prepare(state)
                    if not self._publishes(prepared):
                        self._operation.finish(None, None)
                        if slot is not None:
                            slot.remove()
                        return None, self._member.changes
                except BaseException as error:
                    # Nothing has moved: a refused change leaves no slot behind.
                    if slot is not None:
                        slot.remove()
                    self._refused(error, state)
                    continue
                try:
                    self._publishing = True
                    commit = self._publish(state, prepared, slot)
                except HeadMoved as lost:
                    self._publishing = False
                    self._may_land |= lost.may_land and prepared.can_be_finished
                    self._clear_dead_owner(state)
                    prepared = self._reusable(prepared)
                    continue
                except (ConflictError, DriftError):
                    if not self._persistence.clears_leftovers:
                        raise
                    self._publishing = False
                    self._writer.clear_leftovers()
                    prepared = None
                    continue
                self._publishing = False
                return self._published(commit, prepared)
        raise self._given_up()

    def _published(
        self, commit: GraphCommit, prepared: Prepared
    ) -> tuple[GraphCommit | None, ChangeSet | None]:
        """Answer every caller whose write is in the commit, or was judged together with it."""
        if self._companions is None:
            self._learn(prepared)
            return commit, self._member.changes
        try:
            self._learn(prepared)
        finally:
            seconds = time.monotonic() - self._started
            self._companions.published(prepared.members, seconds)
        return self._member.commit, self._member.changes

    def prepare_only(self) -> ChangeSet:
        state = self._publisher.manifest.capture()
        history = self._publisher.manifest.history
        check_schema(self._member, state)
        check_head(self._member, state, history)
        base = self._writer.base_at(state, self._member.schema)
        changes = self._operation.prepare(base)
        check_strict(self._member, changes, state, history)
        return changes

    def _refused(self, error: BaseException, state: BranchState) -> None:
        """Raise what a failed preparation comes to; return when it is worth trying again."""
        if isinstance(error, LeftoversFound):
            self._writer.clear_leftovers()
            return
        if isinstance(error, VersionReclaimedError) and self._is_behind(state):
            return
        if isinstance(error, VersionReclaimedError | StorageError):
            raise self._publisher.failure(error) from error
        raise error

    def _is_behind(self, state: BranchState) -> bool:
        """Whether the state a write was prepared on is gone because there is a newer one."""
        return self._publisher.manifest.capture().version != state.version

    def _given_up(self) -> OmniGraphError:
        text = self._persistence.given_up.format(attempts=self._persistence.attempts)
        if self._may_land:
            # Recovery may still finish an attempt of it.
            return OutcomeUnknownError(text, operation_id=self._request.operation_id)
        return ConflictError(text, hint=self._persistence.hint)

    def _own_changes(self, done: GraphCommit, prepared: Prepared | None) -> ChangeSet | None:
        """Return what a commit found in the lineage changed, if an attempt of this call made it."""
        ours = done.graph_commit_id == self._member.identity.commit_id
        return self._member.changes if ours and prepared is not None else None

    # ---- the slot -------------------------------------------------------------------------

    def _reserves(self, losses: int) -> bool:
        match self._persistence.reserve:
            case Reserve.AT_ONCE:
                return True
            case Reserve.NEVER:
                return False
            case Reserve.IF_QUICK if self._seconds > SLOT_WAIT_S / 3:
                return False
        return losses >= RESERVE_AFTER_LOSSES

    def _reserve(self, state: BranchState) -> HeldSlot | None:
        """Take the slot before preparing: from then on no other writer can move the head."""
        identity = self._identity_on(state, self._member)
        slot = self._publisher.reserve(state, identity, self._writer.new_id())
        if slot is None:
            self._clear_dead_owner(state)
        return slot

    def _clear_dead_owner(self, state: BranchState) -> None:
        if self._persistence.waits and self._publisher.slots.exists(state.slot):
            self._writer.recovery.resolve(state.slot)

    # ---- attending a publish --------------------------------------------------------------

    @property
    def workers(self) -> Workers:
        return self._operation.workers

    def undo(self, slot: HeldSlot) -> None:
        self._writer.recovery.undo(slot)

    def finish(self, intent: Intent, commit: GraphCommit) -> None:
        self._operation.finish(intent, commit)

    def _publishes(self, prepared: Prepared) -> bool:
        return prepared.has_effect or self._request.merged_parent is not None

    def _publish(
        self, state: BranchState, prepared: Prepared, slot: HeldSlot | None
    ) -> GraphCommit:
        changes = prepared.changes
        for member in prepared.members:
            member.tried = True
        plan = PublishPlan(
            chain=self._chain(state, prepared),
            rollback_id=self._writer.new_id(),
            tables=prepared.tables,
            entries=changes.entries,
            merged_state=self._request.merged_state,
        )
        waits = self._persistence.waits
        return self._publisher.publish(state, plan, self, reserved=slot, wait=waits)

    def _chain(self, state: BranchState, prepared: Prepared) -> CommitChain:
        if prepared.changes.chain is not None:
            return prepared.changes.chain
        if len(prepared.members) > 1:
            members = prepared.members
            return chained((self._identity_on(state, item), item.touched) for item in members)
        identity = self._identity_on(state, self._member)
        if prepared.changes.schema_hash is not None:
            identity = replace(identity, schema_hash=prepared.changes.schema_hash)
        return alone(identity)

    @staticmethod
    def _identity_on(state: BranchState, member: Member) -> CommitIdentity:
        return replace(member.identity, schema_hash=state.head.schema_hash)

    def _still_valid(self, prepared: Prepared, state: BranchState) -> bool:
        """Whether every table the attempt rests on is still at the version it read."""
        if self._request.merged_parent is not None:
            # A merge rests on the whole history of its target, not on tables alone.
            return False
        if not all(item.is_published_in(state) for item in prepared.tables):
            return False
        return all(
            state.pins[key].version == version for key, version in prepared.read_pins.items()
        )

    # ---- preparing ------------------------------------------------------------------------

    def _prepare(self, state: BranchState) -> Prepared:
        started = time.monotonic()
        member = self._member
        base = self._writer.base_at(state, member.schema)
        forks = self._writer.fork_ahead(base, self._operation.tables_surely_written())
        try:
            member.changes = changes = self._operation.prepare(base)
            check_strict(member, changes, state, self._publisher.manifest.history)
            members = self._with_companions(base)
            fire(Failpoint.WRITE_POST_VALIDATE_PRE_STAGE)
            changes = together([item.changes for item in members if item.changes is not None])
            tables = self._stage(base, changes, forks)
        finally:
            forks.discard()
        fire(Failpoint.WRITE_POST_STAGE)
        member.first = member.first or state
        self._seconds = time.monotonic() - started
        return Prepared(
            members=members, changes=changes, tables=tables, read_pins=dict(base.read_pins)
        )

    def _with_companions(self, base: Base) -> tuple[Member, ...]:
        """Return the write and those that are published with it, in the order they came."""
        if self._companions is None:
            return (self._member,)
        return tuple(self._companions.join(self._member, base))

    def _stage(self, base: Base, changes: ChangeSet, forks: Forks) -> tuple[PlannedTable, ...]:
        operation_id = self._request.operation_id
        pins = base.capture.pins
        return (
            *self._writer.stage(base, changes, self._operation, operation_id, forks),
            *self._indexes.stage(base, changes.indexes, operation_id),
            *(
                PlannedTable(pin=pins[item.table_key], step=item.step, becomes=item.becomes)
                for item in changes.steps
            ),
        )

    def _reusable(self, prepared: Prepared) -> Prepared | None:
        """Keep staged files only if none of them was committed by the lost attempt."""
        if len(prepared.members) > 1:
            # Those who were refused rest on the same state as those who were not.
            return None
        if prepared.changes.indexes or prepared.changes.steps or prepared.changes.entries:
            # These rest on the very state they were made for.
            return None
        for planned in prepared.tables:
            staged = planned.step
            if not isinstance(staged, StagedTable):
                return None
            if staged.transaction.read_version != staged.parent.version:
                return None
            try:
                latest = self._publisher.tables.open_latest(staged.path)
            except NotFoundError:
                # Made for the first write of a branch that is gone, or taken for left behind.
                return None
            if latest.version > staged.parent.version:
                return None
        return prepared

    def _learn(self, prepared: Prepared) -> None:
        """Remember the ids just added, so that the next write need not read them back."""
        # The commit stands: what cannot be remembered is read back.
        with contextlib.suppress(OmniGraphError):
            self._remember(prepared)

    def _remember(self, prepared: Prepared) -> None:
        steps = {item.pin.table_key: item.step for item in prepared.tables}
        for change in prepared.changes.effective():
            staged = steps[change.entity.table_key]
            if change.added is None or change.changed is not None or change.replaced:
                continue
            if change.row_count > TAIL_FRAGMENT_ROWS_MAX or not isinstance(staged, StagedTable):
                continue
            parent = staged.parent
            table = self._publisher.tables.open(staged.path, parent.version + 1)
            self._writer.id_lookup.remember_new_ids(table, parent, change.ids())
