"""Builds the indexes a schema declares, as a commit that changes no row.

Staging happens beside other writers. When one of them was first, what was staged is carried over
to the new state if it still fits, else staged again.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.catalog import AcceptedSchema, EdgeType, NodeType, Scalar
from omnigraph.catalog.model import index_kind
from omnigraph.clock import elapsed_s, now_us
from omnigraph.errors import ConflictError
from omnigraph.ids import UlidSource
from omnigraph.limits import RESERVE_AFTER_LOSSES, SLOT_WAIT_S, WRITE_ATTEMPTS_MAX
from omnigraph.manifest import (
    BranchId,
    Capture,
    GraphCommit,
    Identity,
    Lost,
    PlannedTable,
    Publisher,
    PublishPlan,
    Recovery,
)
from omnigraph.store import (
    OPERATION_PROPERTY,
    HeldSlot,
    IndexSpec,
    StagedTable,
    Table,
    fork_table,
    lacking_indexes,
    missing_indexes,
    rebased,
    side_by_side,
    split_branch,
    stage_indexes,
)
from omnigraph.store.workers import InProcess, Workers
from omnigraph.write import SchemaMovedError

Entity = NodeType | EdgeType
_KINDS = {"vector": "IVF_FLAT", "label_list": "LABEL_LIST", "inverted": "INVERTED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingIndex:
    """A declared index that could not be built yet, and why."""

    table_key: str
    column: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """What building the indexes came to; no commit when there was nothing to build."""

    commit: GraphCommit | None
    pending: list[PendingIndex]


def declared_indexes(entity: Entity) -> list[IndexSpec]:
    """Return every index a type should have, by column and kind."""
    found = {(name, "BTREE") for name in entity.implicit_columns}
    keys = entity.key if isinstance(entity, NodeType) else ()
    found |= {(name, "BTREE") for name in keys}
    found |= {(name, "BTREE") for item in entity.uniques for name in item.columns}
    declared = {name for item in entity.indexes for name in item.columns}
    declared |= {p.name for p in entity.properties.values() if p.embedding is not None}
    for name in declared & set(entity.properties):
        kind = _kind(entity, name)
        if kind is not None:
            found.add((name, kind))
    return [IndexSpec(column=column, kind=kind) for column, kind in sorted(found)]


def _kind(entity: Entity, name: str) -> str | None:
    declared = entity.properties[name].type
    kind = index_kind(declared)
    if kind is None:
        return None
    few_values = declared.scalar is Scalar.BOOL or bool(declared.enum_values)
    return "BITMAP" if few_values and kind == "btree" else _KINDS.get(kind, "BTREE")


class Indexing:
    """Builds the indexes of one graph."""

    def __init__(
        self,
        publisher: Publisher,
        recovery: Recovery,
        ids: UlidSource,
        workers: Workers | None = None,
    ) -> None:
        self._publisher = publisher
        self._recovery = recovery
        self._ids = ids
        self._workers = workers or InProcess()

    def run(self, schema: AcceptedSchema, *, actor_id: str | None = None) -> IndexReport:
        """Make every declared index cover every row, where there is anything to index."""
        identity = Identity(
            operation_id=self._ids.next(),
            commit_id=self._ids.next(),
            kind="ensure_indices",
            actor_id=actor_id,
            created_at_us=now_us(),
            schema_hash=schema.ir_hash(),
        )
        attempt = _Attempt(self._publisher, schema, identity, self._ids, self._workers)
        for losses in range(WRITE_ATTEMPTS_MAX):
            capture = self._publisher.coordinator.capture()
            done = self._publisher.coordinator.commit_of(identity.operation_id)
            if done is not None:
                return self._report(schema, done)
            if capture.head.schema_hash != identity.schema_hash:
                raise SchemaMovedError
            slot: HeldSlot | None = None
            if losses >= RESERVE_AFTER_LOSSES and attempt.seconds < SLOT_WAIT_S / 3:
                # Others wait for the slot: it is taken first only when staging is quick.
                slot = self._publisher.reserve(capture, identity, self._ids.next())
            try:
                commit = self._once(attempt, capture, slot)
            except Lost:
                self._clear_dead_owner(capture)
                continue
            return self._report(schema, commit)
        raise ConflictError(
            f"the branch moved {WRITE_ATTEMPTS_MAX} times while its indexes were built",
            hint="try again when there are fewer writes",
        )

    def _once(
        self, attempt: _Attempt, capture: Capture, slot: HeldSlot | None
    ) -> GraphCommit | None:
        try:
            tables = attempt.stage(capture)
        except BaseException:
            if slot is not None:
                slot.remove()
            raise
        if not tables:
            if slot is not None:
                slot.remove()
            return None
        plan = PublishPlan(identity=attempt.identity, rollback_id=self._ids.next(), tables=tables)
        return self._publisher.publish(capture, plan, reserved=slot)

    def _clear_dead_owner(self, capture: Capture) -> None:
        if self._publisher.slots.exists(capture.slot):
            self._recovery.resolve(capture.slot)

    def _report(self, schema: AcceptedSchema, commit: GraphCommit | None) -> IndexReport:
        pins = self._publisher.coordinator.capture(fresh=False).pins
        pending: list[PendingIndex] = []
        for entity in schema.catalog.entities():
            pin = pins[entity.table_key]
            table = self._publisher.tables.open(pin.path, pin.version)
            reason = "no row has a vector" if pin.row_count else "there are no rows"
            pending += [
                PendingIndex(
                    table_key=entity.table_key, column=spec.column, kind=spec.kind, reason=reason
                )
                for spec in missing_indexes(table, declared_indexes(entity))
            ]
        return IndexReport(commit=commit, pending=pending)


class _Attempt:
    """What has been staged so far, by table."""

    def __init__(
        self,
        publisher: Publisher,
        schema: AcceptedSchema,
        identity: Identity,
        ids: UlidSource,
        workers: Workers,
    ) -> None:
        self._publisher = publisher
        self._ids = ids
        self._workers = workers
        self._schema = schema
        self._staged: dict[str, StagedTable] = {}
        self.identity = identity
        self.seconds = 0.0

    def stage(self, capture: Capture) -> tuple[PlannedTable, ...]:
        """Return what to publish on a captured state."""
        started = elapsed_s()
        wanted = [e for e in self._schema.catalog.entities() if capture.pins[e.table_key].row_count]

        def stage(entity: Entity) -> StagedTable | None:
            pin = capture.pins[entity.table_key]
            table = self._publisher.tables.open(pin.path, pin.version)
            return self._of_table(entity, table, capture.branch)

        planned: list[PlannedTable] = []
        found = side_by_side(stage, wanted, at_once=self._workers.tables_at_once)
        for entity, staged in zip(wanted, found, strict=True):
            if staged is not None:
                pin = capture.pins[entity.table_key]
                self._staged[entity.table_key] = staged
                planned.append(
                    PlannedTable(
                        table_key=pin.table_key, incarnation=pin.incarnation, staged=staged
                    )
                )
        self.seconds = elapsed_s() - started
        return tuple(planned)

    def _of_table(self, entity: Entity, table: Table, branch: BranchId) -> StagedTable | None:
        known = self._staged.pop(entity.table_key, None)
        # What a lost attempt committed will be undone; it must not be committed a second time.
        untouched = (
            known is not None
            and known.path == table.path
            and (self._publisher.tables.open_latest(table.path).version == table.version)
        )
        if known is not None and untouched:
            if known.parent.version == table.version:
                return known
            carried = rebased(known, table)
            if carried is not None:
                return carried
        specs = lacking_indexes(table, declared_indexes(entity))
        if not specs:
            return None
        _root, line = split_branch(table.path)
        if not branch.owns(line):
            # The first change of a table on a branch starts a line of versions of its own.
            table, files = fork_table(
                self._publisher.tables, table, branch.fork_name(self._ids.next())
            )
            self._publisher.syncer.sync(files)
        properties = {OPERATION_PROPERTY: self.identity.operation_id}
        return stage_indexes(table, specs, properties, self._workers)
