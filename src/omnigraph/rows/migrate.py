"""What a change of schema asks of stored data: which columns change, and whether rows allow it.

Types and properties are matched by their stable identities, never by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from omnigraph.catalog import (
    AcceptedSchema,
    CheckConstraint,
    EdgeType,
    Entity,
    InterfaceType,
    Property,
    RangeConstraint,
    Scalar,
    UniqueConstraint,
)
from omnigraph.catalog.identity import Differences
from omnigraph.compute.types import arrow_type
from omnigraph.rows.problems import Problem, Problems
from omnigraph.rows.references import cardinality_problem
from omnigraph.rows.table_schema import table_schema
from omnigraph.rows.validate import check_unique, check_values
from omnigraph.store import ColumnChanges, Table
from omnigraph.store.tables.columns import converted

Rule = UniqueConstraint | RangeConstraint | CheckConstraint
IDS_NAMED_MAX = 1000


class TypeChange(Struct, frozen=True, kw_only=True):
    """A node or edge type before and after; one side is None for a new or a dropped type.

    `sources` maps every property of the type after the change to the stored one it continues.
    """

    old: Entity | None
    new: Entity | None
    sources: Mapping[str, Property] = field(default_factory=dict)

    def columns(self) -> ColumnChanges:
        """Return what becomes of the table's columns."""
        if self.old is None or self.new is None:
            return ColumnChanges()
        fields = {item.name: item for item in table_schema(self.new)}
        nullable: list[str] = []
        required: list[str] = []
        recomputed: dict[str, tuple[pa.Field, object]] = {}
        added: list[pa.Field] = []
        filled: dict[str, tuple[pa.Field, object]] = {}
        for name, wanted in self.new.properties.items():
            stored = self.sources.get(name)
            if stored is None:
                if self._fills(wanted):
                    filled[name] = (fields[name], _column_value(wanted.default))
                else:
                    added.append(fields[name])
            elif stored.type.scalar is not wanted.type.scalar or self._fills(wanted):
                recomputed[name] = (fields[name], self._default(wanted))
            elif stored.type.nullable != wanted.type.nullable:
                (nullable if wanted.type.nullable else required).append(name)
        kept = {stored.name for stored in self.sources.values()}
        return ColumnChanges(
            dropped=tuple(name for name in self.old.properties if name not in kept),
            renamed={old.name: new for new, old in self.sources.items() if old.name != new},
            nullable=tuple(nullable),
            recomputed=recomputed,
            required=tuple(required),
            added=tuple(added),
            filled=filled,
        )

    def _fills(self, wanted: Property) -> bool:
        """Whether rows without a value get the property's default."""
        stored = self.sources.get(wanted.name)
        missing = stored is None or stored.type.nullable
        return missing and wanted.required and wanted.has_default

    def _default(self, wanted: Property) -> object:
        """Return what takes the place of nulls, None if nothing does."""
        return _column_value(wanted.default) if self._fills(wanted) else None

    def must_fill_itself(self) -> tuple[str, ...]:
        """Return the properties that become required while nothing fills their nulls."""
        if self.new is None:
            return ()
        return tuple(
            name
            for name, stored in self.sources.items()
            if stored.type.nullable
            and self.new.properties[name].required
            and not self.new.properties[name].has_default
        )

    def revised(self, added: Iterable[Rule]) -> Entity | None:
        """Return the type with only those rules that stored rows were never checked against.

        A rule that held so far must be checked again where a default takes the place of a null.
        """
        if self.old is None or self.new is None:
            return None
        new, wanted = self.new, set(added)
        touched = {name for name, item in new.properties.items() if self._fills(item)}
        uniques = tuple(r for r in new.uniques if r in wanted or touched & set(r.columns))
        ranges = tuple(r for r in new.ranges if r in wanted or r.property in touched)
        checks = tuple(r for r in new.checks if r in wanted or r.property in touched)
        if not (uniques or ranges or checks):
            return None
        return replace(new, properties={}, uniques=uniques, ranges=ranges, checks=checks)

    def rows_after(self, new: Entity, table: Table, columns: Iterable[str]) -> pa.Table:
        """Return ids and some columns of a stored table as they will be."""
        names = [name for name in dict.fromkeys(columns) if name != "id"]
        stored = {n: self.sources[n].name if n in self.sources else n for n in names}
        held = [n for n in names if n in self.sources or n in new.implicit_columns]
        rows = table.scan(columns=["id", *(stored[n] for n in held)])
        arrays = {"id": rows["id"]}
        for name in names:
            wanted = new.properties.get(name)
            if wanted is None:
                arrays[name] = rows[name]
            elif name in held:
                column = rows[stored[name]].combine_chunks()
                kind, default = arrow_type(wanted.type), self._default(wanted)
                arrays[name] = converted(column, kind=kind, default=default)
            else:
                value = pa.scalar(self._default(wanted), arrow_type(wanted.type))
                arrays[name] = pa.repeat(value, len(rows))
        return pa.table(arrays)


def _column_value(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def type_changes(
    before: AcceptedSchema, after: AcceptedSchema, differ: Differences
) -> list[TypeChange]:
    """Return the node and edge types that change or are new, then the dropped ones.

    They are matched by identity; where the schemas do not differ nothing is looked at.
    """
    changes: list[TypeChange] = []
    known = {
        identity.type_id: before.catalog.types(kind)[name]
        for kind, name in (*differ.changed, *differ.gone)
        if (identity := before.identities.types.get((kind, name))) is not None
    }
    for kind, name in differ.changed:
        identity, new = after.identities.of(kind, name), after.catalog.types(kind)[name]
        old = known.pop(identity.type_id, None)
        if isinstance(new, InterfaceType) or isinstance(old, InterfaceType) or new == old:
            continue
        sources: dict[str, Property] = {}
        if old is not None:
            numbers = before.identities.of(kind, old.name).properties
            by_number = {numbers[prop]: item for prop, item in old.properties.items()}
            for prop, number in identity.properties.items():
                if (stored := by_number.get(number)) is not None:
                    sources[prop] = stored
        changes.append(TypeChange(old=old, new=new, sources=sources))
    dropped = [old for old in known.values() if not isinstance(old, InterfaceType)]
    return changes + [TypeChange(old=old, new=None) for old in dropped]


# ---- checking stored rows -------------------------------------------------------------------


def check_stored(
    change: TypeChange, added: Iterable[Rule], table: Table, problems: Problems
) -> None:
    """Check a table's rows against what its type will ask for; name those that do not fit."""
    old, new = change.old, change.new
    if old is None or new is None:
        return
    for name in change.must_fill_itself():
        for entity_id in missing_ids(table, change.sources[name]):
            problems.add(
                Problem(
                    message=f"{new.name} '{entity_id}' has no value for {name}, "
                    "which the new schema requires",
                    type_name=new.name,
                    entity_id=entity_id,
                    field=name,
                    table_key=old.table_key,
                )
            )
    revised = change.revised(added)
    if revised is not None:
        columns = [c for rule in revised.uniques for c in rule.columns]
        columns += [rule.property for rule in revised.ranges]
        columns += [rule.property for rule in revised.checks]
        misfits = Problems()
        rows = change.rows_after(new, table, columns)
        check_values(revised, rows, misfits)
        check_unique(revised, rows, misfits)
        for item in misfits.items:
            problems.add(replace(item, message=_message_with_id(item)))
    if isinstance(old, EdgeType) and isinstance(new, EdgeType):
        _check_cardinality(old, new, table, problems)


def _message_with_id(item: Problem) -> str:
    if item.kind == "unique_violation":
        return item.message
    return f"{item.type_name} '{item.entity_id}': {item.message}"


def missing_ids(table: Table, stored: Property, limit: int = IDS_NAMED_MAX) -> Iterator[str]:
    """Yield the ids of rows without a value."""
    if stored.type.scalar is Scalar.BLOB:
        for batch in table.batches(columns=["id", stored.name], blob_bytes=True):
            yield from batch["id"].filter(pc.is_null(batch[stored.name])).to_pylist()
        return
    rows = table.scan(columns=["id"], where=f"`{stored.name}` IS NULL", limit=limit)
    yield from rows["id"].to_pylist()


def _check_cardinality(old: EdgeType, new: EdgeType, table: Table, problems: Problems) -> None:
    before, limits = old.cardinality, new.cardinality
    if before == limits:
        return
    rows = table.scan(columns=["id", "src"])
    counts = rows.group_by("src").aggregate([("id", "count")]).sort_by("src")
    wrong = pc.less(counts["id_count"], limits.minimum)
    if limits.maximum is not None:
        wrong = pc.or_(wrong, pc.greater(counts["id_count"], limits.maximum))
    for row in counts.filter(wrong).slice(0, IDS_NAMED_MAX).to_pylist():
        problem = cardinality_problem(new, row["src"], row["id_count"])
        if problem is not None:
            problems.add(replace(problem, table_key=old.table_key))
