"""The one write protocol: capture, prepare, stage, publish, and again when somebody was first."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from omnigraph.catalog import AcceptedSchema, Entity
from omnigraph.clock import now_us
from omnigraph.errors import (
    ConflictError,
    OmniGraphError,
    OutcomeUnknownError,
    PreconditionFailedError,
    StorageError,
    VersionConflictError,
    VersionReclaimedError,
)
from omnigraph.failpoints import Failpoint, fire
from omnigraph.ids import UlidSource
from omnigraph.limits import (
    RESERVE_AFTER_LOSSES,
    TAIL_FRAGMENT_ROWS_MAX,
    WRITE_ATTEMPTS_MAX,
)
from omnigraph.manifest import (
    MAINTENANCE_KINDS,
    BranchId,
    Capture,
    GraphCommit,
    Identity,
    Lost,
    Place,
    PlannedTable,
    Publisher,
    PublishPlan,
    Recovery,
)
from omnigraph.store import (
    HeldSlot,
    KeyProbe,
    StagedTable,
    Table,
    addresses_of,
    side_by_side,
    stage_delete,
    stage_insert,
    stage_overwrite,
    stage_upsert,
)
from omnigraph.write.base import Base
from omnigraph.write.changes import ChangeSet, TableChange
from omnigraph.write.forks import Forks, make_fork, owned_table
from omnigraph.write.table_schema import stored_batches, stored_rows
from omnigraph.write.trial import tried
from omnigraph.write.turn import Turn


class SchemaMovedError(ConflictError):
    """The branch has another schema than the one a write was made for; nothing was written."""

    def __init__(self) -> None:
        super().__init__("the schema changed while this write was prepared", hint="try again")


class Operation(Protocol):
    """A write: turns a base into changes. May be asked again on a newer base."""

    kind: str

    def prepare(self, base: Base) -> ChangeSet:
        """Evaluate and validate on a base. Raises when the write is refused."""

    def strict_tables(self, changes: ChangeSet) -> tuple[str, ...]:
        """Return the tables whose rows the changes were computed from."""

    def sure_tables(self) -> tuple[str, ...]:
        """Return tables that are written to unless the write is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the caller says about a write."""

    actor_id: str | None
    operation_id: str
    expected_head: str | None = None
    observed: Mapping[str, Place] | None = None
    merged_parent: str | None = None
    """The commit a merge takes in: it is published even if no row changes."""
    merged_branch: str | None = None
    """The life of the branch that commit was made on."""
    merged_state: tuple[BranchId, int] | None = None
    """Where the state of that commit is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A prepared and staged attempt, reusable while the versions it read are still published."""

    changes: ChangeSet
    plan: PublishPlan
    read_pins: Mapping[str, int]


class Writer:
    """Runs operations against one graph. In-process writers take turns; that is only politeness."""

    def __init__(
        self, publisher: Publisher, recovery: Recovery, probe: KeyProbe, ids: UlidSource
    ) -> None:
        self.publisher = publisher
        self.recovery = recovery
        self.probe = probe
        self._ids = ids
        self.turn = Turn()

    def run(
        self,
        operation: Operation,
        request: Request,
        schema: Callable[[], AcceptedSchema],
    ) -> tuple[GraphCommit | None, ChangeSet | None]:
        """Run a write to its end; None for the commit when it had no effect.

        A repeated operation id returns the commit it made the first time, and no change set.
        """
        with self.turn:
            return _Attempts(self, operation, request, schema()).run()

    def rehearse(self, operation: Operation, request: Request, schema: AcceptedSchema) -> ChangeSet:
        """Prepare and validate a write on the newest state and stop there."""
        return _Attempts(self, operation, request, schema).rehearse()

    @contextlib.contextmanager
    def trial(self, operation: Operation, schema: AcceptedSchema) -> Iterator[Capture]:
        """Hold the state an operation would make of the newest one, for reading; see `tried`."""
        capture = self.publisher.coordinator.capture()
        fire(Failpoint.WRITE_POST_CAPTURE)
        if capture.head.schema_hash != schema.ir_hash():
            raise SchemaMovedError
        base = self.base_at(capture, schema)
        with tried(base, operation.prepare(base), self.stage, self.new_id) as made:
            yield made

    def base(self, schema: AcceptedSchema) -> Base:
        """Return the newest state as something to compute on."""
        return self.base_at(self.publisher.coordinator.capture(), schema)

    def base_at(self, capture: Capture, schema: AcceptedSchema) -> Base:
        """Return a captured state as something to compute on."""
        return Base(schema=schema, capture=capture, tables=self.publisher.tables, probe=self.probe)

    def stage(
        self, base: Base, changes: ChangeSet, operation_id: str, forks: Forks | None = None
    ) -> tuple[PlannedTable, ...]:
        """Write the files of a change set; nothing moves."""
        properties = {"omnigraph.operation_id": operation_id}

        def staged(change: TableChange) -> PlannedTable:
            pin = base.pin(change.entity)
            return PlannedTable(
                table_key=pin.table_key,
                incarnation=pin.incarnation,
                staged=_stage_table(
                    self._own_table(base, change.entity, forks), change, properties
                ),
            )

        # A disk is busy with one table; in an object store each mostly waits for answers.
        at_once = self.publisher.tables.files.calls_at_once
        return tuple(side_by_side(staged, changes.effective(), at_once=at_once))

    def _own_table(self, base: Base, entity: Entity, forks: Forks | None) -> Table:
        """Return the table to write to; the first write on a branch starts a line of its own."""
        own = owned_table(base, entity) or (None if forks is None else forks.take(entity))
        return own or make_fork(self.publisher, base, base.table(entity), self.new_id())

    def fork_ahead(self, base: Base, table_keys: Sequence[str]) -> Forks:
        """Begin to make the lines of versions that a write to these tables needs."""
        if base.capture.branch.is_main:
            table_keys = ()
        known = {item.table_key: item for item in base.schema.catalog.entities()}
        entities = [known[key] for key in table_keys]
        return Forks(self.publisher, base, entities, [self.new_id() for _key in entities])

    def new_id(self) -> str:
        """Return a new ULID."""
        return self._ids.next()


def _stage_table(parent: Table, change: TableChange, properties: dict[str, str]) -> StagedTable:
    if change.staging is not None:
        return change.staging(parent, properties)
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
            else stored_batches(change.entity, rows, change.release)
        )
        return stage_overwrite(parent, content, properties)
    content = stored_batches(change.entity, rows, change.release)
    if change.changed is None or change.changed.num_rows == 0:
        return stage_insert(parent, content, properties)
    return stage_upsert(parent, content, properties)


class _Attempts:
    """The attempts of one operation."""

    def __init__(
        self, writer: Writer, operation: Operation, request: Request, schema: AcceptedSchema
    ) -> None:
        self._writer = writer
        self._publisher = writer.publisher
        self._operation = operation
        self._request = request
        self._schema = schema
        self._first: Capture | None = None
        self._may_land = False
        self._identity = Identity(
            operation_id=request.operation_id,
            commit_id=writer.new_id(),
            kind=operation.kind,
            actor_id=request.actor_id,
            created_at_us=now_us(),
            schema_hash=schema.ir_hash(),
            merged_parent_commit_id=request.merged_parent,
            merged_branch=request.merged_branch,
        )

    def run(self) -> tuple[GraphCommit | None, ChangeSet | None]:
        prepared: Prepared | None = None
        for losses in range(WRITE_ATTEMPTS_MAX):
            with contextlib.ExitStack() as stack:
                capture = self._publisher.coordinator.capture()
                fire(Failpoint.WRITE_POST_CAPTURE)
                done = self._publisher.coordinator.commit_of(self._request.operation_id)
                if done is not None:
                    return done, self._own_changes(done, prepared)
                self._check_schema(capture)
                slot: HeldSlot | None = None
                if losses >= RESERVE_AFTER_LOSSES:
                    slot = self._reserve(capture)
                    if slot is None:
                        continue
                    stack.enter_context(slot)
                try:
                    self._check_head(capture)
                    if prepared is None or not self._still_valid(prepared, capture):
                        prepared = self._prepare(capture)
                except BaseException as error:
                    # Nothing has moved: a refused write leaves no slot behind.
                    if slot is not None:
                        slot.remove()
                    if isinstance(error, VersionReclaimedError) and self._is_behind(capture):
                        continue
                    if isinstance(error, VersionReclaimedError | StorageError):
                        raise self._publisher.failure(error) from error
                    raise
                if not prepared.plan.tables and self._request.merged_parent is None:
                    if slot is not None:
                        slot.remove()
                    return None, prepared.changes
                try:
                    commit = self._publisher.publish(capture, prepared.plan, reserved=slot)
                except Lost as lost:
                    self._may_land |= lost.may_land
                    self._clear_dead_owner(capture)
                    prepared = self._reusable(prepared)
                    continue
                self._learn(prepared)
                return commit, prepared.changes
        raise self._given_up()

    def _is_behind(self, capture: Capture) -> bool:
        """Whether the state a write was prepared on is gone because there is a newer one."""
        return self._publisher.coordinator.capture().version != capture.version

    def _given_up(self) -> OmniGraphError:
        text = f"the branch moved {WRITE_ATTEMPTS_MAX} times while this write was prepared"
        if self._may_land:
            # Recovery may still finish an attempt of it.
            return OutcomeUnknownError(text, operation_id=self._identity.operation_id)
        return ConflictError(text, hint="try again")

    def rehearse(self) -> ChangeSet:
        capture = self._publisher.coordinator.capture()
        self._check_schema(capture)
        self._check_head(capture)
        changes = self._operation.prepare(self._writer.base_at(capture, self._schema))
        self._check_strict(changes, capture)
        return changes

    def _own_changes(self, done: GraphCommit, prepared: Prepared | None) -> ChangeSet | None:
        """Return what a commit found in the lineage changed, if an attempt of this call made it."""
        ours = done.graph_commit_id == self._identity.commit_id
        return prepared.changes if ours and prepared is not None else None

    def _reserve(self, capture: Capture) -> HeldSlot | None:
        """Take the slot before preparing: after lost races nobody may move the head any more."""
        slot = self._publisher.reserve(capture, self._identity, self._writer.new_id())
        if slot is None:
            self._clear_dead_owner(capture)
        return slot

    def _clear_dead_owner(self, capture: Capture) -> None:
        if self._publisher.slots.exists(capture.slot):
            self._writer.recovery.resolve(capture.slot)

    def _check_schema(self, capture: Capture) -> None:
        """Refuse a state of another schema: the publish succeeds from this very state only."""
        if capture.head.schema_hash != self._identity.schema_hash:
            raise SchemaMovedError

    def _check_head(self, capture: Capture) -> None:
        expected = self._request.expected_head
        if expected is None:
            return
        head: GraphCommit | None = capture.head
        commits = self._publisher.coordinator.ledger.commits
        # Maintenance changes nothing anybody could have relied on, so it does not count.
        while (
            head is not None and head.kind in MAINTENANCE_KINDS and head.graph_commit_id != expected
        ):
            head = commits.get(head.parent_commit_id or "")
        if head is None or head.graph_commit_id != expected:
            raise PreconditionFailedError(expected=expected, actual=capture.head.graph_commit_id)

    def _still_valid(self, prepared: Prepared, capture: Capture) -> bool:
        """Whether every table the attempt rests on is still at the version it read."""
        if self._request.merged_parent is not None:
            # A merge rests on the whole history of its target, not on tables alone.
            return False
        return all(
            capture.pins[key].version == version for key, version in prepared.read_pins.items()
        )

    def _prepare(self, capture: Capture) -> Prepared:
        base = self._writer.base_at(capture, self._schema)
        forks = self._writer.fork_ahead(base, self._operation.sure_tables())
        try:
            changes = self._operation.prepare(base)
            self._check_strict(changes, capture)
            fire(Failpoint.WRITE_POST_VALIDATE_PRE_STAGE)
            tables = self._writer.stage(base, changes, self._identity.operation_id, forks)
        finally:
            forks.discard()
        fire(Failpoint.WRITE_POST_STAGE)
        plan = PublishPlan(
            identity=self._identity,
            rollback_id=self._writer.new_id(),
            tables=tables,
            merged_state=self._request.merged_state,
        )
        if self._first is None:
            self._first = capture
        return Prepared(changes=changes, plan=plan, read_pins=dict(base.read_pins))

    def _check_strict(self, changes: ChangeSet, capture: Capture) -> None:
        """Refuse a strict write whose rows changed since the caller, or this write, saw them."""
        seen = dict(self._request.observed or {})
        if self._first is not None:
            seen = {key: pin.place for key, pin in self._first.pins.items()}
        for key in self._operation.strict_tables(changes):
            pin, known = capture.pins[key], seen.get(key)
            if known is None or known == pin.place:
                continue
            ledger = self._publisher.coordinator.ledger
            if not ledger.only_maintenance(pin, since=known):
                raise VersionConflictError(table_key=key, expected=known[1], actual=pin.version)

    def _learn(self, prepared: Prepared) -> None:
        """Remember the ids just added, so that the next write need not read them back."""
        for change, planned in zip(prepared.changes.effective(), prepared.plan.tables, strict=True):
            if change.added is None or change.changed is not None or change.replaced:
                continue
            if change.row_count > TAIL_FRAGMENT_ROWS_MAX:
                continue
            parent = planned.staged.parent
            table = self._publisher.tables.open(planned.staged.path, parent.version + 1)
            self._writer.probe.learn(table, parent, change.ids())

    def _reusable(self, prepared: Prepared) -> Prepared | None:
        """Keep staged files only if none of them was committed by the lost attempt."""
        for planned in prepared.plan.tables:
            staged = planned.staged
            if staged.transaction.read_version != staged.parent.version:
                return None
            latest = self._publisher.tables.open_latest(staged.path)
            if latest.version > staged.parent.version:
                return None
        plan = PublishPlan(
            identity=self._identity,
            rollback_id=self._writer.new_id(),
            tables=prepared.plan.tables,
        )
        return Prepared(changes=prepared.changes, plan=plan, read_pins=prepared.read_pins)
