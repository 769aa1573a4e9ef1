"""Edges that are one edge under two ids, because `@unique` lets only one of them exist.

Ids of edges are made up where an edge is added. Two branches that add the same edge, or one that
replaces an edge by an equal one, then hold one edge under two ids. Both sides' changes are put
under the id the target has, so that they are judged as changes of one edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.catalog import EdgeType, Entity
from omnigraph.rows.images import RowChanges, equal_rows
from omnigraph.rows.virtual_base import Undefined

Pairs = dict[str, str]


class Unified(Struct, frozen=True, kw_only=True):
    """The changes of both sides, each edge under one id."""

    theirs: RowChanges
    ours: RowChanges
    undefined: Undefined


def key_columns(entity: Entity) -> list[list[str]]:
    """Return the columns in which two edges have to agree to be one, per rule; none for nodes.

    A node of another id is another entity: edges lead to it.
    """
    if not isinstance(entity, EdgeType):
        return []
    keys = [sorted({"src", "dst", *rule.columns}) for rule in entity.uniques]
    return [columns for number, columns in enumerate(keys) if columns not in keys[:number]]


def same_keys(rules: Iterable[list[str]], rows: pa.Table) -> Pairs:
    """Return for every id that shares a key with others the id that stands for all of them.

    `rows` are those of all states that are compared. An edge that moved links those it met.
    """
    stands: Pairs = {}

    def root(name: str) -> str:
        while (above := stands.get(name, name)) != name:
            stands[name] = stands.get(above, above)
            name = above
        return name

    for columns in rules:
        keys = _complete(columns, rows)
        groups = keys.group_by(columns).aggregate([("id", "min"), ("id", "max")])
        shared = groups.filter(pc.not_equal(groups["id_min"], groups["id_max"]))
        both = keys.join(shared.select([*columns, "id_min"]), keys=columns, join_type="inner")
        for name, first in zip(both["id"].to_pylist(), both["id_min"].to_pylist(), strict=True):
            one, other = sorted((root(name), root(first)))
            stands[other] = one
    return {name: root(name) for name in list(stands)}


def unified(entity: Entity, theirs: RowChanges, ours: RowChanges, undefined: Undefined) -> Unified:
    """Put changes of one edge under one id, that of the target if it has the edge."""
    columns = key_columns(entity)
    once = _crossed(columns, theirs, ours, undefined)
    theirs, ours, undefined = once.theirs, once.ours, once.undefined
    our_ids, their_ids = _ids(ours), _ids(theirs)
    # An id that a side has given to another edge is no name for this one.
    added = {
        other: mine
        for other, mine in _pairs(columns, theirs.inserted, ours.inserted).items()
        if mine == other or mine not in their_ids
    }
    taken_there = (their_ids - added.keys()) | set(added.values())
    replaced_here = _pairs(columns, ours.deleted, ours.inserted, undefined)
    replaced_there = _pairs(columns, theirs.deleted, theirs.inserted, undefined)
    here = {
        old: new
        for old, new in replaced_here.items()
        if old in their_ids and old not in replaced_there and new not in taken_there
    }
    there = {
        old: new
        for old, new in replaced_there.items()
        if old in our_ids and old not in replaced_here and new not in added.keys() | our_ids
    }
    if not (added or here or there):
        return Unified(theirs=theirs, ours=ours, undefined=undefined)
    gone_here = _ids_of(ours.deleted) & there.keys()
    gone_there = _ids_of(theirs.deleted) & here.keys()
    back = {old: there[old] for old in gone_here}
    kept = {old: new for old, new in there.items() if old not in back}
    names = {**here, **back}
    return Unified(
        theirs=_with(
            _without(_renamed(theirs, {**added, **here}), there),
            _replacements(theirs, kept, undefined, under_old=True),
            _replacements(theirs, back, dict.fromkeys(back)),
        ),
        ours=_with(
            _renamed(_without(ours, here), back),
            _replacements(ours, here, {**undefined, **dict.fromkeys(gone_there)}),
        ),
        undefined={names.get(name, name): value for name, value in undefined.items()},
    )


def _crossed(
    rules: Iterable[list[str]], theirs: RowChanges, ours: RowChanges, undefined: Undefined
) -> Unified:
    """Make one edge of two in the base, of which each side has kept another.

    Only a base merged from several states has both: each of these states had one.
    """
    their_gone, our_gone = _ids_of(theirs.deleted), _ids_of(ours.deleted)
    pairs = _pairs(
        rules,
        _picked(theirs.deleted, their_gone - our_gone),
        _picked(ours.deleted, our_gone - their_gone),
        undefined,
    )
    if not pairs:
        return Unified(theirs=theirs, ours=ours, undefined=undefined)
    names = {theirs_id: ours_id for ours_id, theirs_id in pairs.items()}
    base = _rows_of(pairs, theirs.deleted)
    other = _under(_rows_of(names, ours.deleted), names)
    mine = _rows_of(pairs, ours.new, theirs.deleted)
    yours = _under(_rows_of(names, theirs.new, ours.deleted), names)
    known = [not undefined.keys() & pair for pair in map(set, pairs.items())]
    agreed = pc.and_(equal_rows(base, other), pa.array(known))
    unclear = set(base["id"].filter(pc.invert(agreed)).to_pylist())
    return Unified(
        theirs=_updated(theirs, gone=pairs, was=names, old=base, new=yours, agreed=agreed),
        ours=_updated(ours, gone=names, was=pairs, old=base, new=mine, agreed=agreed),
        undefined={
            **{name: value for name, value in undefined.items() if name not in names},
            **dict.fromkeys(unclear),
        },
    )


def _rows_of(ids: Iterable[str], *rows: pa.Table) -> pa.Table:
    """Return the rows of some ids, in their order, each from the first table that has it."""
    table = pa.concat_tables(rows)
    wanted = pa.array(list(ids), pa.string())
    return table.take(pc.index_in(wanted, value_set=table["id"].combine_chunks()))


def _updated(
    changes: RowChanges, *, gone: Pairs, was: Pairs, old: pa.Table, new: pa.Table, agreed: pa.Array
) -> RowChanges:
    """Return changes with other updates, for rows in `was`, and without deletions of `gone`."""
    differs = pc.or_(pc.invert(agreed), pc.invert(equal_rows(old, new)))
    kept = pc.invert(_is_one_of(changes.new, was))
    return RowChanges(
        inserted=changes.inserted,
        deleted=_left_over(changes.deleted, gone),
        old=pa.concat_tables([changes.old.filter(kept), old.filter(differs)]),
        new=pa.concat_tables([changes.new.filter(kept), new.filter(differs)]),
    )


def _ids(changes: RowChanges) -> set[str]:
    return set(changes.ids().to_pylist())


def _ids_of(rows: pa.Table) -> set[str]:
    return set(rows["id"].to_pylist())


def _pairs(
    rules: Iterable[list[str]], left: pa.Table, right: pa.Table, undefined: Undefined | None = None
) -> Pairs:
    """Return which edges of one set are the same as which of another, each at most once.

    A key with a value that is `undefined` in the base is the key of no edge.
    """
    pairs: Pairs = {}
    taken: set[str] = set()
    if left.num_rows and right.num_rows:
        for columns in rules:
            unsure = [
                name
                for name, values in (undefined or {}).items()
                if values is None or not values.isdisjoint(columns)
            ]
            mine = _left_over(_complete(columns, left), unsure)
            other = _left_over(_complete(columns, right), unsure)
            other = other.rename_columns([*columns, "other"])
            both = mine.join(other, keys=columns, join_type="inner")
            for one, two in zip(both["id"].to_pylist(), both["other"].to_pylist(), strict=True):
                if one not in pairs and two not in taken:
                    pairs[one] = two
                    taken.add(two)
    return pairs


def _complete(columns: list[str], rows: pa.Table) -> pa.Table:
    """Return keys and ids of the rows whose key has no null: others are exempt from the rule."""
    keys = rows.select([*columns, "id"])
    for name in columns:
        keys = keys.filter(pc.is_valid(keys[name]))
    return keys


def _replacements(
    changes: RowChanges, pairs: Pairs, always: Iterable[str], *, under_old: bool = False
) -> RowChanges:
    """Return edges deleted and added again as updates, under their new or their old id.

    One that is the same but for its id is no update, unless its old id is to count `always`.
    """
    old = _under(_picked(changes.deleted, pairs), {} if under_old else pairs)
    back = {new: old for old, new in pairs.items()}
    new = _under(_picked(changes.inserted, pairs.values()), back if under_old else {})
    order = pc.index_in(old["id"].combine_chunks(), value_set=new["id"].combine_chunks())
    new = new.take(order)
    sure = [name if under_old else pairs[name] for name in always if name in pairs]
    differs = pc.or_(pc.invert(equal_rows(old, new)), _is_one_of(old, sure))
    old, new = old.filter(differs), new.filter(differs)
    none = changes.inserted.slice(0, 0)
    return RowChanges(inserted=none, deleted=none, old=old, new=new)


def _is_one_of(rows: pa.Table, ids: Iterable[str]) -> pa.Array:
    return pc.is_in(rows["id"].combine_chunks(), value_set=pa.array(list(ids), pa.string()))


def _picked(rows: pa.Table, ids: Iterable[str]) -> pa.Table:
    return rows.filter(_is_one_of(rows, ids))


def _left_over(rows: pa.Table, ids: Iterable[str]) -> pa.Table:
    return rows.filter(pc.invert(_is_one_of(rows, ids)))


def _under(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Return rows with other ids."""
    if not names or not rows.num_rows:
        return rows
    ids = pa.array([names.get(name, name) for name in rows["id"].to_pylist()], pa.string())
    return rows.set_column(rows.schema.get_field_index("id"), rows.schema.field("id"), ids)


def _renamed(changes: RowChanges, names: Mapping[str, str]) -> RowChanges:
    return RowChanges(
        inserted=_under(changes.inserted, names),
        deleted=_under(changes.deleted, names),
        old=_under(changes.old, names),
        new=_under(changes.new, names),
    )


def _without(changes: RowChanges, pairs: Pairs) -> RowChanges:
    """Return changes without edges that were deleted and added again."""
    return RowChanges(
        inserted=_left_over(changes.inserted, pairs.values()),
        deleted=_left_over(changes.deleted, pairs),
        old=changes.old,
        new=changes.new,
    )


def _with(changes: RowChanges, *more: RowChanges) -> RowChanges:
    return RowChanges(
        inserted=changes.inserted,
        deleted=changes.deleted,
        old=pa.concat_tables([changes.old, *(item.old for item in more)]),
        new=pa.concat_tables([changes.new, *(item.new for item in more)]),
    )
