"""Merges the changes two branches made to one table since they parted.

Rows are judged by id. What only one side changed is taken from it; what both changed alike is
taken once; the rest is a conflict, unless the caller decides it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from omnigraph.catalog import Entity
from omnigraph.errors import BadRequestError
from omnigraph.rows.changes import TableChange
from omnigraph.rows.entities import envelopes
from omnigraph.rows.images import RowChanges, equal_rows
from omnigraph.rows.problems import Problem
from omnigraph.rows.same_edges import key_columns, unified
from omnigraph.rows.virtual_base import Undefined
from omnigraph.values.merges import Conflict as Conflict
from omnigraph.values.merges import ConflictKind as ConflictKind

Image = Mapping[str, object]
_ENDS = {"src": "from", "dst": "to"}


class Side(StrEnum):
    """Whose row to keep: `ours` is the branch merged into, `theirs` the one merged."""

    OURS = "ours"
    THEIRS = "theirs"


Decision = Side | Image | None
"""A side, the values to write, or None to leave the conflict standing."""
Decide = Callable[[Conflict], Decision]
RowsOf = Callable[[Entity, Image], pa.Table]
"""Turns values that were decided on into a row."""


class Merged(Struct):
    """The outcome for one table: what to do to the target, and what stayed undecided.

    `problems` are those of single values, if the merger has looked at them already.
    """

    change: TableChange
    conflicts: list[Conflict]
    problems: list[Problem] = field(default_factory=list)


def no_changes(schema: pa.Schema) -> RowChanges:
    """Return the changes of a side that made none."""
    empty = schema.empty_table()
    return RowChanges(inserted=empty, deleted=empty, old=empty, new=empty)


def merge_table(
    entity: Entity,
    theirs: RowChanges,
    ours: RowChanges,
    decide: Decide,
    rows_of: RowsOf,
    undefined: Undefined | None = None,
) -> Merged:
    """Merge two sides' changes of one table. `rows_of` turns decided values into a row.

    `undefined` says which values of the base are not known: both sides count as changing them.
    Edges that `@unique` makes one are judged as one, under the id the target has.
    """
    if key_columns(entity):
        one = unified(entity, theirs, ours, undefined or {})
        theirs, ours, undefined = one.theirs, one.ours, one.undefined
    touched = ours.ids()
    added = _not_in(theirs.inserted, touched)
    changed = _not_in(theirs.new, touched)
    deleted = _not_in(theirs.deleted, touched)["id"].to_pylist()
    merged = Merged(TableChange(entity, added=added, changed=changed, deleted=deleted), [])
    if len(touched) == 0:
        return merged
    for clash in _clashes(entity, theirs, ours, undefined or {}):
        decision = decide(clash.conflict)
        if decision is None:
            merged.conflicts.append(clash.conflict)
        elif decision is Side.THEIRS:
            _apply(merged.change, clash, clash.their_row)
        elif not isinstance(decision, Side):
            row = rows_of(entity, decision)
            if row["id"].to_pylist() != [clash.conflict.entity_id]:
                name = f"{entity.name} '{clash.conflict.entity_id}'"
                raise BadRequestError(f"a resolution of {name} must keep its id")
            _apply(merged.change, clash, row)
    return merged


class _Clash(Struct, frozen=True, kw_only=True):
    conflict: Conflict
    their_row: pa.Table | None
    in_target: bool


def _apply(change: TableChange, clash: _Clash, row: pa.Table | None) -> None:
    entity_id = str(clash.conflict.entity_id)
    if row is None:
        change.deleted.append(entity_id)
    elif clash.in_target:
        change.changed = pa.concat_tables([change.changed, row])
    else:
        change.added = pa.concat_tables([change.added, row])


def _not_in(rows: pa.Table, ids: pa.Array) -> pa.Table:
    return rows if len(ids) == 0 else rows.filter(pc.invert(pc.is_in(rows["id"], value_set=ids)))


def _after(changes: RowChanges) -> pa.Table:
    return pa.concat_tables([changes.inserted, changes.new])


def _clashes(
    entity: Entity, theirs: RowChanges, ours: RowChanges, undefined: Undefined
) -> Iterator[_Clash]:
    """Yield the entities both sides changed, differently, by id."""
    shared = theirs.ids().filter(pc.is_in(theirs.ids(), value_set=ours.ids()))
    if len(shared) == 0:
        return
    their_rows, our_rows = _after(theirs), _after(ours)
    mine = _position(our_rows, shared)
    yours = _position(their_rows, shared)
    before = pa.concat_tables([theirs.old, theirs.deleted])
    base = _position(before, shared)
    both = pc.and_(pc.is_valid(mine), pc.is_valid(yours))
    agree = pc.and_(pc.is_null(mine), pc.is_null(yours)).to_pylist()
    same = equal_rows(
        our_rows.take(mine.filter(both)), their_rows.take(yours.filter(both))
    ).to_pylist()
    verdicts = iter(same)
    ids = shared.to_pylist()
    order = sorted(range(len(ids)), key=lambda number: ids[number])
    equal = [next(verdicts) if flag else agree[n] for n, flag in enumerate(both.to_pylist())]
    for number in order:
        if not equal[number]:
            row = _row(their_rows, yours[number])
            yield _Clash(
                conflict=_conflict(
                    entity,
                    ids[number],
                    base=_row(before, base[number]),
                    ours=_row(our_rows, mine[number]),
                    theirs=row,
                    unknown=undefined.get(ids[number], frozenset()),
                ),
                their_row=row,
                in_target=mine[number].is_valid,
            )


def _position(rows: pa.Table, ids: pa.Array) -> pa.Array:
    column = rows["id"].combine_chunks()
    return pc.index_in(ids, value_set=column)


def _row(rows: pa.Table, position: pa.Scalar) -> pa.Table | None:
    return rows.slice(position.as_py(), 1) if position.is_valid else None


def _conflict(
    entity: Entity,
    entity_id: str,
    *,
    base: pa.Table | None,
    ours: pa.Table | None,
    theirs: pa.Table | None,
    unknown: frozenset[str] | None,
) -> Conflict:
    name = f"{entity.name} '{entity_id}'"
    if base is None:
        kind, text = ConflictKind.DIVERGENT_INSERT, f"{name} was added on both sides, differently"
    elif ours is not None and theirs is not None:
        kind, text = ConflictKind.DIVERGENT_UPDATE, f"{name} was changed on both sides, differently"
    else:
        kind = ConflictKind.DELETE_VS_UPDATE
        text = f"{name} was deleted on one side and changed on the other"
    return Conflict(
        table_key=entity.table_key,
        entity_id=entity_id,
        kind=kind,
        message=text,
        base=None if unknown is None else _known(_image(entity, base), unknown),
        ours=_image(entity, ours),
        theirs=_image(entity, theirs),
    )


def _image(entity: Entity, row: pa.Table | None) -> Image | None:
    return None if row is None else next(envelopes(entity, row))


def _known(image: Image | None, unknown: frozenset[str]) -> Image | None:
    """Return an image without the values that are not known."""
    if image is None or not unknown:
        return image
    left_out = unknown | {_ENDS[name] for name in unknown & _ENDS.keys()}
    rest = {name: value for name, value in image.items() if name not in left_out}
    values = {name: value for name, value in _values(rest).items() if name not in left_out}
    return _with_values(rest, values)


# ---- deciding -----------------------------------------------------------------------------


def by_property(conflict: Conflict) -> Decision:
    """Join two updates that changed different properties; None when they overlap."""
    if conflict.kind is not ConflictKind.DIVERGENT_UPDATE:
        return None
    base, ours, theirs = (_values(i) for i in (conflict.base, conflict.ours, conflict.theirs))
    joined = dict(ours)
    for name, value in theirs.items():
        if _same(value, ours.get(name)) or (name in base and _same(value, base[name])):
            continue
        if name not in base or not _same(ours.get(name), base[name]):
            return None
        joined[name] = value
    return _with_values(conflict.ours or {}, joined)


def _same(left: object, right: object) -> bool:
    # As text: Python takes 0.0 for -0.0.
    return json.dumps(left) == json.dumps(right)


def _values(image: Image | None) -> dict[str, object]:
    """Return an image's properties and endpoints as one flat mapping."""
    if image is None:
        return {}
    data = image["data"]
    values = dict(data) if isinstance(data, Mapping) else {}
    for name in ("from", "to"):
        if name in image:
            values[f"\0{name}"] = image[name]
    return values


def _with_values(image: Image, values: Mapping[str, object]) -> Image:
    data = {name: value for name, value in values.items() if not name.startswith("\0")}
    ends = {name[1:]: value for name, value in values.items() if name.startswith("\0")}
    return {**image, **ends, "data": data}
