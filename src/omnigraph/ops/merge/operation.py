"""Merges one branch into another as a single commit with two parents."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import pyarrow as pa
from msgspec import Struct, field

from omnigraph.catalog import AcceptedSchema, EdgeType, Entity, NodeType
from omnigraph.commits import Base, BranchState, ChangeSet, History, PlainOperation
from omnigraph.commits.compare import may_differ, table_changes
from omnigraph.errors import BadRequestError, MergeConflictError
from omnigraph.intake.envelopes import EnvelopeReader
from omnigraph.rows import Problem, Problems, TableChange, key_ids, rows_schema, validate
from omnigraph.rows.images import RowChanges
from omnigraph.rows.three_way import (
    Conflict,
    ConflictKind,
    Decide,
    Merged,
    RowsOf,
    merge_table,
    no_changes,
)
from omnigraph.rows.virtual_base import BaseTree, leaves, rebased, renumbered
from omnigraph.store import Pin, StagedTable, Table, Tables


class MergeOutcome(Struct, kw_only=True):
    """What a merge would do: the changes to the target, and the conflicts in its way."""

    changes: ChangeSet
    conflicts: list[Conflict] = field(default_factory=list)


class Origin(Struct, frozen=True, kw_only=True):
    """What a merge starts from: one state, or several that `tree` says how to merge into one.

    States are the published versions of all tables.
    """

    states: Sequence[Mapping[str, Pin]]
    tree: BaseTree = 0

    def of(self, table_key: str) -> tuple[BaseTree, dict[int, Pin | None]]:
        """Return the same for one table: its versions, each once, and how to merge them.

        The others are compared with the first. A number alone needs no merging.
        """
        pins = [state.get(table_key) for state in self.states]
        places = [None if pin is None else (pin.path, pin.version) for pin in pins]
        tree = renumbered(self.tree, {n: places.index(place) for n, place in enumerate(places)})
        return tree, {number: pins[number] for number in leaves(tree)}


class Sides(Struct, frozen=True, kw_only=True):
    """The states of a type's table; None where a side does not know the type.

    With several best common ancestors `tree` says how they are merged: `origin` is its first state
    and `others` are the other ones by their numbers.
    """

    origin: Table | None
    theirs: Table | None
    ours: Table | None
    tree: BaseTree = 0
    others: Mapping[int, Table | None] = field(default_factory=dict)


class MergeWorkers(Protocol):
    """Merges tables too large for this process."""

    def merge(self, entity: Entity, sides: Sides, decide: Decide, rows_of: RowsOf) -> Merged | None:
        """Return what `merge_table` would of all changes; None for a table not worth it."""

    def stage(self, change: TableChange, parent: Table, properties: dict[str, str]) -> StagedTable:
        """Stage merged rows that did not come back."""


class Merge(PlainOperation):
    """The operation. The source stays at its captured state whatever happens to it meanwhile.

    With another base than the common one it also takes single commits over, or back.
    """

    def __init__(
        self,
        schema: AcceptedSchema,
        tables: Tables,
        *,
        source: BranchState,
        histories: tuple[History, History],
        origin_of: Callable[[BranchState], Origin],
        decide: Decide,
        kind: str = "merge",
        workers: MergeWorkers | None = None,
    ) -> None:
        self.kind = kind
        self._schema = schema
        self._tables = tables
        self._source = source
        self._their_ledger, self._our_ledger = histories
        self._origin_of = origin_of
        self._decide = decide
        self._rows_of = partial(decided_row, schema)
        self._merge_workers = workers

    def stage_elsewhere(
        self, change: TableChange, parent: Table, properties: dict[str, str]
    ) -> StagedTable:
        """Let the workers that merged rows write them."""
        if self._merge_workers is None:
            return super().stage_elsewhere(change, parent, properties)
        return self._merge_workers.stage(change, parent, properties)

    def prepare(self, base: Base) -> ChangeSet:
        """Compute the merge on a state of the target. Raises `MergeConflictError`."""
        outcome = self.compute(base)
        if outcome.conflicts:
            raise MergeConflictError([item.to_json() for item in outcome.conflicts])
        return outcome.changes

    def compute(self, base: Base) -> MergeOutcome:
        """Compute the merge, conflicts included; nothing is written."""
        origin = self._origin_of(base.capture)
        outcome = MergeOutcome(changes=ChangeSet())
        values: list[Problem] = []
        for entity in self._schema.catalog.entities():
            merged = self._merge_type(base, entity, *origin.of(entity.table_key))
            if merged is not None:
                outcome.changes.tables[entity.table_key] = merged.change
                outcome.conflicts += merged.conflicts
                values += merged.problems
        if not outcome.conflicts:
            outcome.conflicts += _violations(base, outcome.changes, values)
        return outcome

    def _merge_type(
        self, base: Base, entity: Entity, tree: BaseTree, states: Mapping[int, Pin | None]
    ) -> Merged | None:
        key = entity.table_key
        theirs_pin, ours_pin = self._source.pins.get(key), base.capture.pins.get(key)
        (_, origin), *others = states.items()
        # Of several states none says what theirs left alone, but what is ours already is known.
        compared = ours_pin if others else origin
        if ours_pin is None or not may_differ(compared, theirs_pin):
            return None
        if self._merge_workers is not None:
            sides = Sides(
                origin=self._opened(origin),
                theirs=self._opened(theirs_pin),
                ours=self._opened(ours_pin),
                tree=tree,
                others={number: self._opened(pin) for number, pin in others},
            )
            merged = self._merge_workers.merge(entity, sides, self._decide, self._rows_of)
            if merged is not None:
                base.pin(entity)
                return merged
        theirs = self._changes(entity, origin, theirs_pin, self._their_ledger)
        if theirs is None and not others:
            return None
        base.pin(entity)
        ours = self._changes(entity, origin, ours_pin, self._our_ledger)
        none = no_changes(rows_schema(entity))
        changes = rebased(
            tree,
            theirs or none,
            ours or none,
            {number: self._changes(entity, origin, pin) or none for number, pin in others},
        )
        return merge_table(
            entity, changes.theirs, changes.ours, self._decide, self._rows_of, changes.undefined
        )

    def _changes(
        self, entity: Entity, origin: Pin | None, pin: Pin | None, history: History | None = None
    ) -> RowChanges | None:
        """Return what leads from a state of a table to another, None when they are equal."""
        descends = history is not None and history.grew_from(pin, origin)
        return table_changes(self._tables, entity, origin, pin, descends=descends)

    def _opened(self, pin: Pin | None) -> Table | None:
        return None if pin is None else self._tables.open(pin.path, pin.version)


def decided_row(schema: AcceptedSchema, entity: Entity, image: Mapping[str, object]) -> pa.Table:
    """Return values that were decided on as a row of a type."""
    problems = Problems(source="the resolution")
    reader = EnvelopeReader(schema.catalog, problems)
    name = "edge" if isinstance(entity, EdgeType) else "type"
    reader.read([json.dumps({**image, name: entity.name}).encode()])
    problems.raise_any()
    rows = next(iter(reader.types.values())).table()
    if isinstance(entity, NodeType) and entity.key:
        order = schema.key_order(entity)
        types = [entity.properties[name].type for name in order]
        ids = key_ids([rows[name].combine_chunks() for name in order], types)
        if rows["id"].to_pylist() not in ([None], ids.to_pylist()):
            raise BadRequestError(f"a resolution of {entity.name} must keep its key")
        rows = rows.set_column(rows.schema.get_field_index("id"), rows.schema.field("id"), ids)
    if rows["id"].null_count:
        raise BadRequestError(f"a resolution of {entity.name} must carry its id")
    return rows


def _violations(base: Base, changes: ChangeSet, values: list[Problem]) -> list[Conflict]:
    """Return what the merged state would break."""
    problems = Problems()
    for item in values:
        problems.add(item)
    validate(base, changes, problems)
    conflicts: list[Conflict] = []
    for item in problems.items:
        conflict = Conflict(
            table_key=item.table_key or "",
            entity_id=item.entity_id,
            kind=ConflictKind(item.kind),
            message=item.message,
        )
        if conflict not in conflicts:
            conflicts.append(conflict)
    return sorted(conflicts, key=lambda item: (item.table_key, item.entity_id or "", item.kind))
