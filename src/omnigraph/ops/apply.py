"""Changes the schema of a graph: one commit that carries the new schema and the changed tables.

The commit decides: before it the old schema is accepted, after it the new one. What it needs is
written before it, what follows from it is only a copy. Nobody else writes meanwhile, and no
branch can appear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from omnigraph.catalog import (
    AcceptedSchema,
    Catalog,
    EdgeType,
    IndexConstraint,
    NodeType,
    TypeKind,
)
from omnigraph.clock import now_us
from omnigraph.errors import BadRequestError, ConflictError, OmniGraphError, PreconditionFailedError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.ids import UlidSource
from omnigraph.lang.schema_plan import SchemaPlan, plan_schema
from omnigraph.lang.schema_steps import (
    AddConstraint,
    AddProperty,
    ChangeNullability,
    DropMode,
    DropProperty,
    DropType,
    Step,
    WidenProperty,
)
from omnigraph.limits import WRITE_ATTEMPTS_MAX
from omnigraph.manifest import (
    MAIN,
    SCHEMA_APPLY,
    BranchDirectory,
    Capture,
    Effect,
    GraphCommit,
    Identity,
    Lost,
    Pin,
    Publisher,
    Recovery,
    TableEntry,
    TableRecord,
    Tombstone,
)
from omnigraph.store import (
    OPERATION_PROPERTY,
    HeldSlot,
    Table,
    change_columns,
    commit_staged,
    stage_overwrite,
)
from omnigraph.store.reclaim import erase_history, erase_table
from omnigraph.write import (
    Problems,
    Request,
    has_blobs,
    rows_schema,
    stored_rows,
    table_folder,
    table_schema,
)
from omnigraph.write.contract import SchemaContract
from omnigraph.write.migrate import Rule, TypeChange, check_stored, missing_ids, type_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A plan, how many stored rows each step changes or removes, and what stands against it."""

    plan: SchemaPlan
    rows: tuple[int, ...]
    problems: Problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an apply did; no commit when the schemas were the same."""

    review: Review
    commit: GraphCommit | None


class SchemaApply:
    """Changes the schema of one graph."""

    def __init__(
        self,
        publisher: Publisher,
        recovery: Recovery,
        directory: BranchDirectory,
        contract: SchemaContract,
        ids: UlidSource,
    ) -> None:
        self._publisher = publisher
        self._recovery = recovery
        self._directory = directory
        self._contract = contract
        self._ids = ids

    # ---- looking --------------------------------------------------------------------------

    def review(
        self, capture: Capture, desired: Catalog, *, allow_data_loss: bool = False
    ) -> Review:
        """Plan a change on a captured state, and hold it against the stored rows."""
        accepted = self._contract.at(capture.head.schema_hash)
        plan = plan_schema(accepted, desired, allow_data_loss=allow_data_loss)
        problems = Problems(source="the stored data")
        if not plan.supported:
            return Review(plan=plan, rows=(0,) * len(plan.steps), problems=problems)
        changes = type_changes(accepted, plan.desired)
        added = _added_rules(plan)
        for change in changes:
            if change.old is not None and change.new is not None:
                rules = added.get((change.new.kind, change.new.name), [])
                check_stored(change, rules, self._table(capture, change), problems)
        rows = tuple(self._affected(capture, changes, step) for step in plan.steps)
        return Review(plan=plan, rows=rows, problems=problems)

    def _table(self, capture: Capture, change: TypeChange) -> Table:
        if change.old is None:
            raise BadRequestError("a new type has no stored rows")
        pin = capture.pins[change.old.table_key]
        return self._publisher.tables.open(pin.path, pin.version)

    def _affected(self, capture: Capture, changes: list[TypeChange], step: Step) -> int:
        """Return how many stored rows a step changes or removes."""
        if isinstance(step, DropType):
            return capture.pins[f"{step.type_kind}:{step.name}"].row_count
        if not isinstance(step, AddProperty | DropProperty | ChangeNullability | WidenProperty):
            return 0
        change = next(
            (
                item
                for item in changes
                if item.old is not None
                and item.new is not None
                and (item.new.kind, item.new.name) == (step.type_kind, step.type_name)
            ),
            None,
        )
        if change is None or change.old is None:
            # Interfaces store nothing.
            return 0
        table = self._table(capture, change)
        total = capture.pins[change.old.table_key].row_count
        if isinstance(step, AddProperty):
            return total if step.has_default and not step.property_type.nullable else 0
        if isinstance(step, DropProperty):
            stored = change.old.properties[step.property_name]
            return total - sum(1 for _ in missing_ids(table, stored, limit=total))
        stored = change.sources[step.property_name]
        missing = sum(1 for _ in missing_ids(table, stored, limit=total))
        if isinstance(step, WidenProperty):
            return total - missing
        return missing if step.required and step.has_default else 0

    # ---- applying -------------------------------------------------------------------------

    def run(
        self, source: str, desired: Catalog, request: Request, *, allow_data_loss: bool = False
    ) -> Outcome:
        """Make `desired` the schema. Raises, with nothing changed, when data stands against it."""
        coordinator = self._publisher.coordinator
        with self._directory.control():
            for _attempt in range(WRITE_ATTEMPTS_MAX):
                capture = coordinator.capture()
                done = coordinator.commit_of(request.operation_id)
                if done is not None:
                    review = self.review(capture, desired, allow_data_loss=allow_data_loss)
                    return Outcome(review=review, commit=done)
                self._refuse_branches()
                identity = self._identity(capture, request)
                slot = self._publisher.reserve(capture, identity, self._ids.next())
                if slot is None:
                    if self._publisher.slots.exists(capture.slot):
                        self._recovery.resolve(capture.slot)
                    continue
                with slot:
                    try:
                        review = self._decide(capture, desired, request, allow_data_loss)
                    except BaseException:
                        # Nothing has moved: a refused change leaves no slot behind.
                        slot.remove()
                        raise
                    if review.plan.is_empty:
                        slot.remove()
                        return Outcome(review=review, commit=None)
                    try:
                        commit = self._publish(capture, identity, review.plan, source, slot)
                    except Lost:
                        continue
                return Outcome(review=review, commit=commit)
        raise ConflictError("the graph is written to all the time", hint="try again")

    def _identity(self, capture: Capture, request: Request) -> Identity:
        return Identity(
            operation_id=request.operation_id,
            commit_id=self._ids.next(),
            kind=SCHEMA_APPLY,
            actor_id=request.actor_id,
            created_at_us=now_us(),
            schema_hash=capture.head.schema_hash,
        )

    def _refuse_branches(self) -> None:
        names = [info.name for info in self._directory.branches() if info.name != MAIN]
        if names:
            raise ConflictError(
                "schema apply requires a graph with only main; found non-main branches: "
                + ", ".join(names),
                hint="merge or delete them first, then apply and branch again",
            )

    def _decide(
        self, capture: Capture, desired: Catalog, request: Request, allow_data_loss: bool
    ) -> Review:
        """Plan on the state nobody can move any more; raise what stands against it."""
        fire(Failpoint.SCHEMA_POST_RESERVE)
        head = capture.head.graph_commit_id
        if request.expected_head is not None and request.expected_head != head:
            raise PreconditionFailedError(expected=request.expected_head, actual=head)
        review = self.review(capture, desired, allow_data_loss=allow_data_loss)
        if review.plan.refusal is not None:
            raise BadRequestError(review.plan.refusal.message)
        review.problems.raise_any()
        tags = [tag.name for tag in self._directory.tags()]
        if tags and any(_is_hard(step) for step in review.plan.steps):
            raise ConflictError(
                f"tags hold what would be lost: {', '.join(tags)}",
                hint="delete them first, or apply without allowing data loss",
            )
        fire(Failpoint.SCHEMA_POST_VALIDATE)
        return review

    def _publish(
        self,
        capture: Capture,
        identity: Identity,
        plan: SchemaPlan,
        source: str,
        slot: HeldSlot,
    ) -> GraphCommit:
        accepted = self._contract.at(capture.head.schema_hash)
        changes = type_changes(accepted, plan.desired)
        # Before anything names it: a commit whose schema is nowhere could never be read.
        self._contract.keep(source, plan.desired)
        fire(Failpoint.SCHEMA_POST_HISTORY)
        hard = any(_is_hard(step) for step in plan.steps)
        operation_id = identity.operation_id
        effects = [
            Effect(pin=pin, apply=partial(self._change_table, pin, change, hard, operation_id))
            for change in changes
            if change.old is not None and change.columns().any
            for pin in [capture.pins[change.old.table_key]]
        ]

        def entries(moved: list[Pin]) -> list[TableEntry]:
            pins = {**capture.pins, **{pin.table_key: pin for pin in moved}}
            return self._entries(identity, plan.desired, changes, pins, moved)

        return self._recovery.publish_effects(
            capture,
            replace(identity, schema_hash=plan.desired.ir_hash()),
            self._ids.next(),
            effects,
            entries=entries,
            reserved=slot,
            record=lambda _intent, _commit: self._follow_up(capture, changes, hard=hard),
        )

    def _change_table(self, pin: Pin, change: TypeChange, hard: bool, operation_id: str) -> Table:
        tables, columns = self._publisher.tables, change.columns()
        table = change_columns(
            tables,
            pin.path,
            pin.version,
            columns,
            after=lambda: fire(Failpoint.SCHEMA_POST_TABLE_STEP),
        )
        entity = change.new
        if entity is None or not (hard and columns.dropped) or has_blobs(entity):
            return table
        # A dropped column stays in the files of the others: only new files are without it.
        properties = {OPERATION_PROPERTY: operation_id}
        staged = stage_overwrite(table, _stored_again(entity, table), properties)
        return commit_staged(tables, staged)

    def _entries(
        self,
        identity: Identity,
        desired: AcceptedSchema,
        changes: list[TypeChange],
        pins: Mapping[str, Pin],
        moved: list[Pin],
    ) -> list[TableEntry]:
        """Return what the commit says about tables; new ones are made on the way."""
        found: list[TableEntry] = []
        moved_keys = {pin.table_key for pin in moved}
        for change in changes:
            old, new = change.old, change.new
            if old is None and new is not None:
                found += self._create(identity, desired, change, found)
                continue
            if old is None:
                continue
            pin = pins[old.table_key]
            if new is None or new.table_key != old.table_key:
                found.append(
                    Tombstone(
                        table_key=old.table_key,
                        incarnation=pin.incarnation,
                        path=pin.path,
                        version=pin.version,
                        seq=0,
                    )
                )
            if new is not None and new.table_key != old.table_key:
                found += _registered(replace(pin, table_key=new.table_key))
            elif new is not None and old.table_key in moved_keys:
                found.append(pin)
        return found

    def _create(
        self,
        identity: Identity,
        desired: AcceptedSchema,
        change: TypeChange,
        planned: list[TableEntry],
    ) -> list[TableEntry]:
        entity = change.new
        if entity is None:
            return []
        taken = self._publisher.coordinator.ledger.paths() | {item.path for item in planned}
        path = base = table_folder(entity.kind, entity.name)
        number = 1
        while path in taken:
            # A name that comes back is another table: history still needs the first one.
            number += 1
            path = f"{base}-{number}"
        tables = self._publisher.tables
        tables.discard_unpublished(path)
        properties = {OPERATION_PROPERTY: identity.operation_id}
        table = tables.create(path, table_schema(entity), properties)
        fire(Failpoint.SCHEMA_POST_TABLE_CREATE)
        self._publisher.syncer.sync_tree(tables.folder(path))
        _type_id, incarnation = desired.table_identity(entity.kind, entity.name)
        return _registered(
            Pin(
                table_key=entity.table_key,
                incarnation=incarnation,
                path=path,
                version=table.version,
                row_count=0,
                transaction_uuid=table.transaction_uuid(),
                seq=0,
            )
        )

    def _follow_up(self, before: Capture, changes: list[TypeChange], *, hard: bool) -> None:
        """After the commit: refresh the copy at the root, and forget what was dropped for good.

        The commit stands even if this fails.
        """
        try:
            fire(Failpoint.SCHEMA_POST_MANIFEST_COMMIT)
            self._contract.bring_up_to_date()
            fire(Failpoint.SCHEMA_POST_FILES)
            if hard:
                self._erase(before, changes)
        except OmniGraphError:
            # Whoever opens or writes next sees that the copy lags, and brings it up to date.
            return

    def _erase(self, before: Capture, changes: list[TypeChange]) -> None:
        tables = self._publisher.tables
        pins = self._publisher.coordinator.capture(fresh=False).pins
        # With main alone no merge can start from a deleted branch; they hold the data, too.
        for info in self._directory.retired():
            self._directory.purge(info.id)
        for change in changes:
            if change.old is None:
                continue
            path = before.pins[change.old.table_key].path
            if change.new is None:
                erase_table(tables, path)
            elif change.columns().dropped:
                erase_history(tables, path, below=pins[change.new.table_key].version)


def _stored_again(entity: NodeType | EdgeType, table: Table) -> Any:
    """Return a table's rows, batch by batch, to be written anew."""
    names = rows_schema(entity).names
    batches = (
        made
        for batch in table.batches(columns=names)
        for made in stored_rows(entity, pa.Table.from_batches([batch])).to_batches()
    )
    return pa.RecordBatchReader.from_batches(table_schema(entity), batches)


def _registered(pin: Pin) -> list[TableEntry]:
    record = TableRecord(table_key=pin.table_key, incarnation=pin.incarnation, path=pin.path, seq=0)
    return [record, pin]


def _added_rules(plan: SchemaPlan) -> dict[tuple[TypeKind, str], list[Rule]]:
    found: dict[tuple[TypeKind, str], list[Rule]] = {}
    for step in plan.steps:
        if isinstance(step, AddConstraint) and not isinstance(step.constraint, IndexConstraint):
            found.setdefault((step.type_kind, step.type_name), []).append(step.constraint)
    return found


def _is_hard(step: Step) -> bool:
    return isinstance(step, DropType | DropProperty) and step.mode is DropMode.HARD
