"""What changed between two states, entity by entity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import AcceptedSchema, Entity, TypeKind
from omnigraph.commits import History
from omnigraph.commits.compare import table_changes
from omnigraph.commits.groups import Touched
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.rows.entities import envelopes
from omnigraph.rows.images import RowChanges
from omnigraph.store import Pin, Tables
from omnigraph.values.changes import EntityChange as EntityChange
from omnigraph.values.changes import TypeRef
from omnigraph.values.value import Value

OPS = ("insert", "update", "delete")


class ChangeFilter(Value, frozen=True, kw_only=True):
    """Which changes are wanted; empty means all."""

    kinds: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, kinds: Iterable[str] = (), types: Iterable[str] = (), ops: Iterable[str] = ()
    ) -> ChangeFilter:
        """Return a filter. Raises `BadRequestError` for words that mean nothing."""
        wanted = cls(
            kinds=tuple(sorted(set(kinds))),
            types=tuple(sorted(set(types))),
            ops=tuple(sorted(set(ops))),
        )
        for value in wanted.kinds:
            if value not in ("node", "edge"):
                raise BadRequestError(f"unknown kind {value!r}; expected node or edge")
        for value in wanted.ops:
            if value not in OPS:
                raise BadRequestError(f"unknown op {value!r}; expected one of {', '.join(OPS)}")
        return wanted

    def admits(self, entity: Entity) -> bool:
        """Whether changes of a type are wanted."""
        return (not self.kinds or str(entity.kind) in self.kinds) and (
            not self.types or entity.name in self.types
        )


def entity_changes(
    schema: AcceptedSchema,
    tables: Tables,
    before: Mapping[str, Pin],
    after: Mapping[str, Pin],
    history: History,
    wanted: ChangeFilter,
) -> Iterator[EntityChange]:
    """Yield what differs: nodes before edges, then by type id, id and operation.

    `history` is the history of the later state's branch.
    """
    for item in type_changes(schema, tables, before, after, history, wanted):
        yield from item.part(0, len(item))


def type_changes(
    schema: AcceptedSchema,
    tables: Tables,
    before: Mapping[str, Pin],
    after: Mapping[str, Pin],
    history: History,
    wanted: ChangeFilter,
) -> Iterator[TypeChanges]:
    """Yield what differs type by type, in the order of `entity_changes`, without images yet."""
    for entity, type_id in wanted_types(schema, wanted):
        key = entity.table_key
        old, new = before.get(key), after.get(key)
        changes = table_changes(tables, entity, old, new, descends=history.grew_from(new, old))
        if changes is not None:
            yield TypeChanges(entity, type_id, changes, wanted)


class GroupChanges:
    """The changes of commits that were published together: each table is compared once for all.

    A row was touched by one of them at most, so its change is that commit's.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._of: tuple[str, int] | None = None
        self._found: dict[str, RowChanges | None] = {}

    def of_commit(
        self,
        schema: AcceptedSchema,
        line: tuple[str, int],
        touched: Touched,
        history: History,
        wanted: ChangeFilter,
    ) -> Iterator[TypeChanges]:
        """Yield the changes of one commit; `line` is the life of its branch and its version."""
        if self._of != line:
            self._of, self._found = line, {}
        before, after = history.pins_at(line[1] - 1), history.pins_at(line[1])
        for entity, type_id in wanted_types(schema, wanted):
            key = entity.table_key
            if key not in touched:
                continue
            if key not in self._found:
                old, new = before.get(key), after.get(key)
                descends = history.grew_from(new, old)
                changes = table_changes(self._tables, entity, old, new, descends=descends)
                self._found[key] = changes
            if (rows := self._found[key]) is not None:
                yield TypeChanges(entity, type_id, rows.only(touched[key].all), wanted)


def wanted_types(schema: AcceptedSchema, wanted: ChangeFilter) -> list[tuple[Entity, int]]:
    """Return the types whose changes are wanted with their ids, in the order of `entity_changes`.

    Raises `NotFoundError`.
    """
    known = {entity.name for entity in schema.catalog.entities()}
    for name in wanted.types:
        if name not in known:
            raise NotFoundError(f"unknown type '{name}'")
    types = [
        (entity, schema.table_identity(entity.kind, entity.name)[0])
        for entity in schema.catalog.entities()
        if wanted.admits(entity)
    ]
    return sorted(types, key=lambda item: (item[0].kind is not TypeKind.NODE, item[1]))


def changes_of(
    entity: Entity, type_id: int, changes: RowChanges, wanted: ChangeFilter
) -> Iterator[EntityChange]:
    """Yield the changes of one type, by id and operation."""
    rows = TypeChanges(entity, type_id, changes, wanted)
    return rows.part(0, len(rows))


class TypeChanges:
    """The changes of one type, by id and operation; images are made for those asked for."""

    def __init__(
        self, entity: Entity, type_id: int, changes: RowChanges, wanted: ChangeFilter
    ) -> None:
        self._entity = entity
        self._type = TypeRef(id=str(type_id), name=entity.name)
        sides = {
            "insert": (None, changes.inserted),
            "update": (changes.old, changes.new),
            "delete": (changes.deleted, None),
        }
        self._sides = [(op, *sides[op]) for op in OPS if not wanted.ops or op in wanted.ops]
        ids = [(new if old is None else old)["id"] for _op, old, new in self._sides]
        self._starts = np.cumsum([0, *(len(column) for column in ids)], dtype=np.int64)
        # Arrow compares bytes, which orders texts as Python does.
        self._order = pc.sort_indices(
            pa.chunked_array([c for i in ids for c in i.chunks], pa.string())
        )
        self.nbytes = sum(
            table.nbytes for _op, *both in self._sides for table in both if table is not None
        )

    def __len__(self) -> int:
        return len(self._order)

    def part(self, start: int, stop: int) -> Iterator[EntityChange]:
        """Yield some of the changes, by their number."""
        chosen = self._order.slice(start, max(stop - start, 0)).to_numpy().astype(np.int64)
        sides = np.searchsorted(self._starts, chosen, side="right") - 1
        made = [
            self._changes(number, pa.array(chosen[sides == number] - self._starts[number]))
            for number in range(len(self._sides))
        ]
        for side in sides.tolist():
            yield next(made[side])

    def _changes(self, number: int, rows: pa.Array) -> Iterator[EntityChange]:
        op, before, after = self._sides[number]
        old, new = (
            repeat(None) if side is None else _images(self._entity, side.take(rows))
            for side in (before, after)
        )
        for left, right in zip(old, new, strict=False):
            yield EntityChange(
                kind=str(self._entity.kind),
                type=self._type,
                id=(left or right or {})["id"],
                op=op,
                before=None if left is None else left["image"],
                after=None if right is None else right["image"],
            )


def _images(entity: Entity, rows: pa.Table) -> Iterator[dict[str, Any]]:
    for envelope in envelopes(entity, rows):
        data: Any = envelope["data"]
        entity_id = str(data.pop("id"))
        image: dict[str, object] = {"properties": data}
        if "from" in envelope:
            image["endpoints"] = {"from": envelope["from"], "to": envelope["to"]}
        yield {"id": entity_id, "image": image}
