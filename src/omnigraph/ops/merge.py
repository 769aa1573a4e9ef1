"""Merges one branch into another as a single commit with two parents."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.catalog import AcceptedSchema, EdgeType, NodeType
from omnigraph.errors import BadRequestError, MergeConflictError
from omnigraph.manifest import Capture, Ledger, Pin
from omnigraph.store import Tables
from omnigraph.write import Base, ChangeSet, Problems, key_ids, rows_schema, validate
from omnigraph.write.compare import table_changes
from omnigraph.write.envelopes import EnvelopeReader
from omnigraph.write.three_way import Conflict, ConflictKind, Decide, merge_table, no_changes

Entity = NodeType | EdgeType


@dataclass(slots=True, kw_only=True)
class MergeOutcome:
    """What a merge would do: the changes to the target, and the conflicts in its way."""

    changes: ChangeSet
    conflicts: list[Conflict] = field(default_factory=list)


class Merge:
    """The operation. The source stays at its captured state whatever happens to it meanwhile.

    With another base than the common one it also takes single commits over, or back.
    """

    def __init__(
        self,
        schema: AcceptedSchema,
        tables: Tables,
        *,
        source: Capture,
        ledgers: tuple[Ledger, Ledger],
        base_of: Callable[[Capture], Mapping[str, Pin]],
        decide: Decide,
        kind: str = "merge",
    ) -> None:
        self.kind = kind
        self._schema = schema
        self._tables = tables
        self._source = source
        self._their_ledger, self._our_ledger = ledgers
        self._base_of = base_of
        self._decide = decide

    def strict_tables(self, changes: ChangeSet) -> tuple[str, ...]:
        """A merge is computed anew on every state of its target: nothing is strict."""
        return ()

    def sure_tables(self) -> tuple[str, ...]:
        """Which tables change is what a merge finds out."""
        return ()

    def prepare(self, base: Base) -> ChangeSet:
        """Compute the merge on a state of the target. Raises `MergeConflictError`."""
        outcome = self.compute(base)
        if outcome.conflicts:
            raise MergeConflictError([item.to_json() for item in outcome.conflicts])
        return outcome.changes

    def compute(self, base: Base) -> MergeOutcome:
        """Compute the merge, conflicts included; nothing is written."""
        origin = self._base_of(base.capture)
        outcome = MergeOutcome(changes=ChangeSet())
        for entity in self._schema.catalog.entities():
            self._merge_type(base, entity, origin.get(entity.table_key), outcome)
        if not outcome.conflicts:
            outcome.conflicts += _violations(base, outcome.changes)
        return outcome

    def _merge_type(
        self, base: Base, entity: Entity, origin: Pin | None, outcome: MergeOutcome
    ) -> None:
        key = entity.table_key
        theirs_pin, ours_pin = self._source.pins.get(key), base.capture.pins.get(key)
        theirs = table_changes(
            self._tables,
            entity,
            origin,
            theirs_pin,
            descends=self._their_ledger.grew_from(theirs_pin, origin),
        )
        if theirs is None or ours_pin is None:
            return
        base.pin(entity)
        ours = table_changes(
            self._tables,
            entity,
            origin,
            ours_pin,
            descends=self._our_ledger.grew_from(ours_pin, origin),
        )
        merged = merge_table(
            entity,
            theirs,
            ours or no_changes(rows_schema(entity)),
            self._decide,
            self._rows_of,
        )
        outcome.changes.tables[key] = merged.change
        outcome.conflicts += merged.conflicts

    def _rows_of(self, entity: Entity, image: Mapping[str, object]) -> Any:
        """Return values somebody decided on as a row of a type."""
        problems = Problems(source="the resolution")
        reader = EnvelopeReader(self._schema.catalog, problems)
        name = "edge" if isinstance(entity, EdgeType) else "type"
        reader.read([json.dumps({**image, name: entity.name}).encode()])
        problems.raise_any()
        rows = next(iter(reader.types.values())).table()
        if isinstance(entity, NodeType) and entity.key:
            order = self._schema.key_order(entity)
            types = [entity.properties[name].type for name in order]
            ids = key_ids([rows[name].combine_chunks() for name in order], types)
            if rows["id"].to_pylist() not in ([None], ids.to_pylist()):
                raise BadRequestError(f"a resolution of {entity.name} must keep its key")
            rows = rows.set_column(rows.schema.get_field_index("id"), rows.schema.field("id"), ids)
        if rows["id"].null_count:
            raise BadRequestError(f"a resolution of {entity.name} must carry its id")
        return rows


def _violations(base: Base, changes: ChangeSet) -> list[Conflict]:
    """Return what the merged state would break."""
    problems = Problems()
    validate(base, changes, problems)
    found: list[Conflict] = []
    for item in problems.items:
        conflict = Conflict(
            table_key=item.table_key or "",
            entity_id=item.entity_id,
            kind=ConflictKind(item.kind),
            message=item.message,
        )
        if conflict not in found:
            found.append(conflict)
    return sorted(found, key=lambda item: (item.table_key, item.entity_id or "", item.kind))
