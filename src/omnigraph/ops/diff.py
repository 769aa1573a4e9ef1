"""What changed between two states, entity by entity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from omnigraph.catalog import AcceptedSchema, Entity, TypeKind
from omnigraph.commits import History
from omnigraph.commits.compare import table_changes
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.rows.entities import envelopes
from omnigraph.rows.images import RowChanges
from omnigraph.store import Pin, Tables
from omnigraph.values.changes import EntityChange as EntityChange
from omnigraph.values.changes import TypeRef
from omnigraph.values.value import Value

OPS = ("insert", "update", "delete")


class ChangeFilter(Value, frozen=True, kw_only=True):
    """Which changes somebody wants to see; empty means all."""

    kinds: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, kinds: Iterable[str] = (), types: Iterable[str] = (), ops: Iterable[str] = ()
    ) -> ChangeFilter:
        """Return a filter. Raises `BadRequestError` for words that mean nothing."""
        found = cls(
            kinds=tuple(sorted(set(kinds))),
            types=tuple(sorted(set(types))),
            ops=tuple(sorted(set(ops))),
        )
        for value in found.kinds:
            if value not in ("node", "edge"):
                raise BadRequestError(f"unknown kind {value!r}; expected node or edge")
        for value in found.ops:
            if value not in OPS:
                raise BadRequestError(f"unknown op {value!r}; expected one of {', '.join(OPS)}")
        return found

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
    ledger: History,
    wanted: ChangeFilter,
) -> Iterator[EntityChange]:
    """Yield what differs: nodes before edges, then by type id, id and operation.

    `ledger` is the history of the later state's branch.
    """
    for entity, type_id in wanted_types(schema, wanted):
        key = entity.table_key
        old, new = before.get(key), after.get(key)
        found = table_changes(tables, entity, old, new, descends=ledger.grew_from(new, old))
        if found is not None:
            yield from changes_of(entity, type_id, found, wanted)


def wanted_types(schema: AcceptedSchema, wanted: ChangeFilter) -> list[tuple[Entity, int]]:
    """Return the types whose changes are wanted with their ids, in the order of `entity_changes`.

    Raises `NotFoundError`.
    """
    known = {entity.name for entity in schema.catalog.entities()}
    for name in wanted.types:
        if name not in known:
            raise NotFoundError(f"unknown type '{name}'")
    found = [
        (entity, schema.table_identity(entity.kind, entity.name)[0])
        for entity in schema.catalog.entities()
        if wanted.admits(entity)
    ]
    return sorted(found, key=lambda item: (item[0].kind is not TypeKind.NODE, item[1]))


def changes_of(
    entity: Entity, type_id: int, found: RowChanges, wanted: ChangeFilter
) -> Iterator[EntityChange]:
    """Yield the changes of one type, by id and operation."""
    parts: list[tuple[str, int, str, Any, Any]] = []
    if not wanted.ops or "insert" in wanted.ops:
        parts += [(i["id"], 0, "insert", None, i) for i in _images(entity, found.inserted)]
    if not wanted.ops or "update" in wanted.ops:
        pairs = zip(_images(entity, found.old), _images(entity, found.new), strict=True)
        parts += [(new["id"], 1, "update", old, new) for old, new in pairs]
    if not wanted.ops or "delete" in wanted.ops:
        parts += [(i["id"], 2, "delete", i, None) for i in _images(entity, found.deleted)]
    for entity_id, _rank, op, old, new in sorted(parts, key=lambda item: item[:2]):
        yield EntityChange(
            kind=str(entity.kind),
            type=TypeRef(id=str(type_id), name=entity.name),
            id=entity_id,
            op=op,
            before=None if old is None else old["image"],
            after=None if new is None else new["image"],
        )


def _images(entity: Entity, rows: Any) -> Iterator[dict[str, Any]]:
    for envelope in envelopes(entity, rows):
        data: Any = envelope["data"]
        entity_id = str(data.pop("id"))
        image: dict[str, object] = {"properties": data}
        if "from" in envelope:
            image["endpoints"] = {"from": envelope["from"], "to": envelope["to"]}
        yield {"id": entity_id, "image": image}
