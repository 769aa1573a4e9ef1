"""The one write loop: capture, prepare, stage, publish, and again when another was first.

Every change of a graph goes through it: mutations, loads, merges, schema changes, maintenance,
repairs, the end of a branch. They differ in what they prepare and in how they persist.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.catalog import AcceptedSchema, Entity
from omnigraph.commits.base import Base
from omnigraph.commits.changes import BuildIndexes, ChangeSet
from omnigraph.commits.fair_lock import FairLock
from omnigraph.commits.forks import Forks, make_fork, owned_table
from omnigraph.commits.identity import CommitIdentity, mint
from omnigraph.commits.intents import Intent
from omnigraph.commits.leftovers import ClearLeftovers
from omnigraph.commits.manifest_reader import BranchState
from omnigraph.commits.operation import (
    LeftoversFound,
    Operation,
    Request,
    Reserve,
    SchemaMovedError,
)
from omnigraph.commits.plans import PlannedTable, PublishPlan
from omnigraph.commits.publisher import HeadMoved, Publisher
from omnigraph.commits.records import MAINTENANCE_KINDS, RECOVERY_ACTOR, GraphCommit
from omnigraph.commits.recovery import Recovery
from omnigraph.commits.trial import tried
from omnigraph.errors import (
    ConflictError,
    DriftError,
    NotFoundError,
    OmniGraphError,
    OutcomeUnknownError,
    PreconditionFailedError,
    StorageError,
    VersionConflictError,
    VersionReclaimedError,
)
from omnigraph.failpoints import Failpoint, fire
from omnigraph.ids import UlidSource
from omnigraph.limits import RESERVE_AFTER_LOSSES, SLOT_WAIT_S, TAIL_FRAGMENT_ROWS_MAX
from omnigraph.rows.changes import TableChange
from omnigraph.rows.table_schema import stored_batches, stored_rows
from omnigraph.store import (
    OPERATION_PROPERTY,
    HeldSlot,
    IdLookup,
    StagedTable,
    Table,
    addresses_of,
    rebased,
    side_by_side,
    stage_delete,
    stage_indexes,
    stage_insert,
    stage_overwrite,
    stage_upsert,
)
from omnigraph.store.tables.workers import Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A prepared and staged attempt, reusable while the versions it read are still published."""

    changes: ChangeSet
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
    """Runs operations against one graph. In-process writers take turns; that is only politeness."""

    def __init__(
        self, publisher: Publisher, recovery: Recovery, probe: IdLookup, ids: UlidSource
    ) -> None:
        self.publisher = publisher
        self.recovery = recovery
        self.probe = probe
        self._ids = ids
        self.turn = FairLock()

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
        turn = self.turn if operation.persistence.takes_turn else contextlib.nullcontext()
        with turn:
            return _Attempts(self, operation, request, schema).run()

    def maintain(
        self,
        operation: Operation,
        schema: AcceptedSchema | None = None,
        *,
        actor_id: str | None = None,
    ) -> tuple[GraphCommit | None, ChangeSet | None]:
        """Run a change that no caller will ask for again."""
        request = Request(actor_id=actor_id, operation_id=self.new_id())
        return self.run(operation, request, schema)

    def clear_leftovers(self) -> bool:
        """Undo what interrupted writes left above tables, unless a living writer is at work."""
        if not self.recovery.leftovers(self.publisher.coordinator.capture()):
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
        return _Attempts(self, operation, request, schema).prepare_only()

    @contextlib.contextmanager
    def trial(self, operation: Operation, schema: AcceptedSchema) -> Iterator[BranchState]:
        """Hold the state an operation would make of the newest one, for reading; see `tried`."""
        capture = self.publisher.coordinator.capture()
        fire(Failpoint.WRITE_POST_CAPTURE)
        if capture.head.schema_hash != schema.ir_hash():
            raise SchemaMovedError
        base = self.base_at(capture, schema)
        changes = operation.prepare(base)

        def stage(apart: Base) -> tuple[PlannedTable, ...]:
            return self.stage(apart, changes, operation, self.new_id())

        with tried(base, changes, stage, self.new_id) as made:
            yield made

    def base(self, schema: AcceptedSchema) -> Base:
        """Return the newest state as something to compute on."""
        return self.base_at(self.publisher.coordinator.capture(), schema)

    def base_at(self, capture: BranchState, schema: AcceptedSchema | None) -> Base:
        """Return a captured state as something to compute on."""
        return Base(
            accepted=schema, capture=capture, tables=self.publisher.tables, probe=self.probe
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
                step = _stage_table(parent, change, properties)
            return PlannedTable(pin=pin, step=step)

        # A disk is busy with one table; in an object store each mostly waits for answers.
        at_once = self.publisher.tables.files.calls_at_once
        return tuple(side_by_side(staged, changes.effective(), at_once=at_once))

    def _own_table(self, base: Base, entity: Entity, forks: Forks | None) -> Table:
        """Return the table to write to; the first write on a branch starts a line of its own."""
        own = owned_table(base, base.table(entity))
        own = own or (None if forks is None else forks.take(entity))
        return own or make_fork(self.publisher, base, base.table(entity), self.new_id())

    def fork_ahead(self, base: Base, table_keys: Sequence[str]) -> Forks:
        """Begin to make the lines of versions that a write to these tables needs."""
        entities: list[Entity] = []
        if table_keys and not base.capture.branch.is_main:
            known = {item.table_key: item for item in base.schema.catalog.entities()}
            entities = [known[key] for key in table_keys]
        return Forks(self.publisher, base, entities, [self.new_id() for _key in entities])

    def new_id(self) -> str:
        """Return a new ULID."""
        return self._ids.next()


def _stage_table(parent: Table, change: TableChange, properties: dict[str, str]) -> StagedTable:
    rows = change.rows()
    if change.deleted and rows is not None:
        content = stored_rows(change.entity, rows)
        return stage_upsert(parent, content, properties, deleted=change.deleted)
    if change.deleted:
        found = addresses_of(parent, "id", change.deleted)
        return stage_delete(parent, found["_rowaddr"].to_numpy(), properties)
    if change.replaced:
        content = (
            parent.schema.empty_table()
            if rows is None
            else stored_batches(change.entity, rows, mapped=change.mapped)
        )
        return stage_overwrite(parent, content, properties)
    content = stored_batches(change.entity, rows, mapped=change.mapped)
    if change.changed is None or change.changed.num_rows == 0:
        return stage_insert(parent, content, properties)
    return stage_upsert(parent, content, properties)


class _Attempts:
    """The attempts of one operation. It attends its own publishes."""

    def __init__(
        self,
        writer: Writer,
        operation: Operation,
        request: Request,
        schema: AcceptedSchema | None,
    ) -> None:
        self._writer = writer
        self._publisher = writer.publisher
        self._operation = operation
        self._persistence = operation.persistence
        self._request = request
        self._schema = schema
        self._first: BranchState | None = None
        self._may_land = False
        self._indexes = _StagedIndexes(writer, operation.workers)
        self._seconds = 0.0
        self._identity = mint(
            writer.new_id,
            operation.kind,
            actor_id=request.actor_id,
            operation_id=request.operation_id,
            merged_parent=request.merged_parent,
            merged_branch=request.merged_branch,
        )

    # ---- the loop -------------------------------------------------------------------------

    def run(self) -> tuple[GraphCommit | None, ChangeSet | None]:
        prepared: Prepared | None = None
        coordinator = self._publisher.coordinator
        for losses in range(self._persistence.attempts):
            with contextlib.ExitStack() as stack:
                capture = coordinator.capture(fresh=self._persistence.looks or losses > 0)
                fire(Failpoint.WRITE_POST_CAPTURE)
                done = coordinator.commit_of(self._request.operation_id)
                if done is not None:
                    return done, self._own_changes(done, prepared)
                self._check_schema(capture)
                slot: HeldSlot | None = None
                if self._reserves(losses):
                    slot = self._reserve(capture)
                    if slot is None:
                        continue
                    stack.enter_context(slot)
                try:
                    self._check_head(capture)
                    if prepared is None or not self._still_valid(prepared, capture):
                        prepared = self._prepare(capture)
                    if not self._publishes(prepared):
                        self._operation.finish(None, None)
                        if slot is not None:
                            slot.remove()
                        return None, prepared.changes
                except BaseException as error:
                    # Nothing has moved: a refused change leaves no slot behind.
                    if slot is not None:
                        slot.remove()
                    self._refused(error, capture)
                    continue
                try:
                    commit = self._publish(capture, prepared, slot)
                except HeadMoved as lost:
                    self._may_land |= lost.may_land and prepared.can_be_finished
                    self._clear_dead_owner(capture)
                    prepared = self._reusable(prepared)
                    continue
                except (ConflictError, DriftError):
                    if not self._persistence.clears_leftovers:
                        raise
                    self._writer.clear_leftovers()
                    continue
                self._learn(prepared)
                return commit, prepared.changes
        raise self._given_up()

    def prepare_only(self) -> ChangeSet:
        capture = self._publisher.coordinator.capture()
        self._check_schema(capture)
        self._check_head(capture)
        changes = self._operation.prepare(self._writer.base_at(capture, self._schema))
        self._check_strict(changes, capture)
        return changes

    def _refused(self, error: BaseException, capture: BranchState) -> None:
        """Raise what a failed preparation comes to; return when it is worth trying again."""
        if isinstance(error, LeftoversFound):
            self._writer.clear_leftovers()
            return
        if isinstance(error, VersionReclaimedError) and self._is_behind(capture):
            return
        if isinstance(error, VersionReclaimedError | StorageError):
            raise self._publisher.failure(error) from error
        raise error

    def _is_behind(self, capture: BranchState) -> bool:
        """Whether the state a write was prepared on is gone because there is a newer one."""
        return self._publisher.coordinator.capture().version != capture.version

    def _given_up(self) -> OmniGraphError:
        text = self._persistence.given_up.format(attempts=self._persistence.attempts)
        if self._may_land:
            # Recovery may still finish an attempt of it.
            return OutcomeUnknownError(text, operation_id=self._identity.operation_id)
        return ConflictError(text, hint=self._persistence.hint)

    def _own_changes(self, done: GraphCommit, prepared: Prepared | None) -> ChangeSet | None:
        """Return what a commit found in the lineage changed, if an attempt of this call made it."""
        ours = done.graph_commit_id == self._identity.commit_id
        return prepared.changes if ours and prepared is not None else None

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

    def _reserve(self, capture: BranchState) -> HeldSlot | None:
        """Take the slot before preparing: from then on no other writer can move the head."""
        identity = self._identity_on(capture)
        slot = self._publisher.reserve(capture, identity, self._writer.new_id())
        if slot is None:
            self._clear_dead_owner(capture)
        return slot

    def _clear_dead_owner(self, capture: BranchState) -> None:
        if self._persistence.waits and self._publisher.slots.exists(capture.slot):
            self._writer.recovery.resolve(capture.slot)

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
        self, capture: BranchState, prepared: Prepared, slot: HeldSlot | None
    ) -> GraphCommit:
        identity, changes = self._identity_on(capture), prepared.changes
        if changes.schema_hash is not None:
            identity = replace(identity, schema_hash=changes.schema_hash)
        plan = PublishPlan(
            identity=identity,
            rollback_id=self._writer.new_id(),
            tables=prepared.tables,
            entries=changes.entries,
            merged_state=self._request.merged_state,
        )
        waits = self._persistence.waits
        return self._publisher.publish(capture, plan, self, reserved=slot, wait=waits)

    def _identity_on(self, capture: BranchState) -> CommitIdentity:
        return replace(self._identity, schema_hash=capture.head.schema_hash)

    # ---- preconditions --------------------------------------------------------------------

    def _check_schema(self, capture: BranchState) -> None:
        """Refuse a state of another schema: the publish succeeds from this very state only."""
        if self._schema is not None and capture.head.schema_hash != self._schema.ir_hash():
            raise SchemaMovedError

    def _check_head(self, capture: BranchState) -> None:
        expected = self._request.expected_head
        if expected is None:
            return
        head: GraphCommit | None = capture.head
        commits = self._publisher.coordinator.ledger.commits
        # Maintenance changes nothing a caller could have relied on, so it does not count.
        while (
            head is not None and head.kind in MAINTENANCE_KINDS and head.graph_commit_id != expected
        ):
            head = commits.get(head.parent_commit_id or "")
        if head is None or head.graph_commit_id != expected:
            raise PreconditionFailedError(expected=expected, actual=capture.head.graph_commit_id)

    def _check_strict(self, changes: ChangeSet, capture: BranchState) -> None:
        """Refuse a strict write whose rows changed since the caller, or this write, saw them."""
        seen = dict(self._request.observed or {})
        if self._first is not None:
            seen = {key: pin.place for key, pin in self._first.pins.items()}
        for key in self._operation.tables_read_strictly(changes):
            pin, known = capture.pins[key], seen.get(key)
            if known is None or known == pin.place:
                continue
            ledger = self._publisher.coordinator.ledger
            if not ledger.only_maintenance(pin, since=known):
                raise VersionConflictError(table_key=key, expected=known[1], actual=pin.version)

    def _still_valid(self, prepared: Prepared, capture: BranchState) -> bool:
        """Whether every table the attempt rests on is still at the version it read."""
        if self._request.merged_parent is not None:
            # A merge rests on the whole history of its target, not on tables alone.
            return False
        return all(
            capture.pins[key].version == version for key, version in prepared.read_pins.items()
        )

    # ---- preparing ------------------------------------------------------------------------

    def _prepare(self, capture: BranchState) -> Prepared:
        started = time.monotonic()
        base = self._writer.base_at(capture, self._schema)
        forks = self._writer.fork_ahead(base, self._operation.tables_surely_written())
        try:
            changes = self._operation.prepare(base)
            self._check_strict(changes, capture)
            fire(Failpoint.WRITE_POST_VALIDATE_PRE_STAGE)
            tables = self._stage(base, changes, forks)
        finally:
            forks.discard()
        fire(Failpoint.WRITE_POST_STAGE)
        if self._first is None:
            self._first = capture
        self._seconds = time.monotonic() - started
        return Prepared(changes=changes, tables=tables, read_pins=dict(base.read_pins))

    def _stage(self, base: Base, changes: ChangeSet, forks: Forks) -> tuple[PlannedTable, ...]:
        operation_id = self._identity.operation_id
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
        steps = {item.pin.table_key: item.step for item in prepared.tables}
        for change in prepared.changes.effective():
            staged = steps[change.entity.table_key]
            if change.added is None or change.changed is not None or change.replaced:
                continue
            if change.row_count > TAIL_FRAGMENT_ROWS_MAX or not isinstance(staged, StagedTable):
                continue
            parent = staged.parent
            table = self._publisher.tables.open(staged.path, parent.version + 1)
            self._writer.probe.remember_new_ids(table, parent, change.ids())


class _StagedIndexes:
    """Indexes built for one operation: carried over to a newer state while they still fit."""

    def __init__(self, writer: Writer, workers: Workers) -> None:
        self._writer = writer
        self._workers = workers
        self._staged: dict[str, StagedTable] = {}

    def stage(
        self, base: Base, wanted: Sequence[BuildIndexes], operation_id: str
    ) -> list[PlannedTable]:
        properties = {OPERATION_PROPERTY: operation_id}

        def staged(item: BuildIndexes) -> StagedTable | None:
            return self._of_table(base, item, properties)

        found = side_by_side(staged, wanted, at_once=self._workers.tables_at_once)
        planned: list[PlannedTable] = []
        for item, step in zip(wanted, found, strict=True):
            if step is not None:
                self._staged[item.table_key] = step
                planned.append(PlannedTable(pin=base.capture.pins[item.table_key], step=step))
        return planned

    def _of_table(
        self, base: Base, item: BuildIndexes, properties: dict[str, str]
    ) -> StagedTable | None:
        pin, publisher = base.capture.pins[item.table_key], self._writer.publisher
        table = base.tables.open(pin.path, pin.version)
        known = self._staged.pop(item.table_key, None)
        # What a lost attempt committed will be undone; it must not be committed a second time.
        if (
            known is not None
            and known.path == table.path
            and base.tables.open_latest(table.path).version == table.version
        ):
            if known.parent.version == table.version:
                return known
            carried = rebased(known, table)
            if carried is not None:
                return carried
        own = owned_table(base, table) or make_fork(publisher, base, table, self._writer.new_id())
        return stage_indexes(own, item.specs, properties, self._workers)
