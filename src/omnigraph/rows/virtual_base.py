"""The state that a merge starts from when the histories have several best common ancestors.

Merges that crossed leave several. They are merged themselves, cell by cell, from what they in turn
have in common. What cannot be merged there stays undefined, and an undefined value counts as
changed by both sides of the real merge unless these agree on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from omnigraph.rows.images import Mask, RowChanges, equal_values


class Join(Struct, frozen=True):
    """Two states merged; `base` is what they have in common, None if that is not known."""

    left: BaseTree
    right: BaseTree
    base: BaseTree | None


BaseTree = int | Join
"""A state by its number, or states merged into one."""

Undefined = Mapping[str, frozenset[str] | None]
"""Of which entities, by id, the base has no value in these columns; None means in no column."""


def leaves(tree: BaseTree | None) -> Iterator[int]:
    """Yield the numbers of the states a tree is made of; some may come twice."""
    if isinstance(tree, int):
        yield tree
    elif tree is not None:
        for part in (tree.left, tree.right, tree.base):
            yield from leaves(part)


def renumbered(tree: BaseTree, same: Mapping[int, int]) -> BaseTree:
    """Return a tree of other numbers; merges that equal numbers make needless are left out."""
    if isinstance(tree, int):
        return same[tree]
    left, right = renumbered(tree.left, same), renumbered(tree.right, same)
    base = None if tree.base is None else renumbered(tree.base, same)
    if left == right or right == base:
        return left
    return right if left == base else Join(left, right, base)


def _sides(tree: BaseTree) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
    else:
        yield from _sides(tree.left)
        yield from _sides(tree.right)


class Rebased(Struct, frozen=True, kw_only=True):
    """What both sides changed since a virtual base."""

    theirs: RowChanges
    ours: RowChanges
    undefined: Undefined = field(default_factory=dict)


def rebased(
    tree: BaseTree, theirs: RowChanges, ours: RowChanges, others: Mapping[int, RowChanges]
) -> Rebased:
    """Return the changes of two sides since the state a tree stands for.

    All changes given start from one state, the anchor: a number of the tree that is not among
    `others`.
    """
    parts = [others[number].ids() for number in dict.fromkeys(_sides(tree)) if number in others]
    ids = pc.unique(pa.concat_arrays([pa.array([], pa.string()), *parts]))
    if len(ids) == 0:
        return Rebased(theirs=theirs, ours=ours)
    anchor = _anchor(ids, [theirs, ours, *others.values()])
    states = {number: _state(anchor, changes) for number, changes in others.items()}
    base = _value(tree, states, anchor)
    left, right = _state(anchor, theirs), _state(anchor, ours)
    judged = _compared(left, right, base)
    forced = base.unknown & ~judged.equal
    known = base.there & ~base.unknown
    return Rebased(
        theirs=_joined(_without(theirs, ids), _changes(base, left, known, judged.left, forced)),
        ours=_joined(_without(ours, ids), _changes(base, right, known, judged.right, forced)),
        undefined=_undefined(ids, anchor.names, judged, known, forced),
    )


# ---- rows by id ---------------------------------------------------------------------------


class _State(Struct, frozen=True, kw_only=True):
    """Rows in the order of some ids; columns of an entity that is not there are null.

    Of what a merge of states left undefined `unknown` marks entities and `undefined` values, by
    column. `joined` values were changed on one side of a row that both sides changed.
    """

    rows: pa.Table
    there: Mask
    unknown: Mask
    undefined: Mask
    joined: Mask

    @property
    def names(self) -> list[str]:
        return [name for name in self.rows.column_names if name != "id"]


def _known_state(ids: pa.Array, rows: pa.Table, there: Mask) -> _State:
    place = rows.schema.get_field_index("id")
    none = np.zeros((len(rows.column_names) - 1, len(ids)), dtype=bool)
    return _State(
        rows=rows.set_column(place, rows.schema.field("id"), ids),
        there=there,
        unknown=np.zeros(len(ids), dtype=bool),
        undefined=none,
        joined=none,
    )


def _anchor(ids: pa.Array, changes: Sequence[RowChanges]) -> _State:
    """Return the rows that all the changes start from."""
    before = pa.concat_tables([part for item in changes for part in (item.old, item.deleted)])
    place = pc.index_in(ids, value_set=before["id"].combine_chunks())
    return _known_state(ids, before.take(place), pc.is_valid(place).to_numpy(zero_copy_only=False))


def _state(anchor: _State, changes: RowChanges) -> _State:
    """Return the rows that changes lead to."""
    ids = anchor.rows["id"].combine_chunks()
    after = pa.concat_tables([changes.inserted, changes.new])
    place = pc.index_in(ids, value_set=after["id"].combine_chunks())
    written = pc.is_valid(place).to_numpy(zero_copy_only=False)
    gone = pc.is_in(ids, value_set=changes.deleted["id"].combine_chunks())
    there = written | (anchor.there & ~gone.to_numpy(zero_copy_only=False))
    places = pc.fill_null(place, 0).to_numpy(zero_copy_only=False) + len(ids)
    chosen = pa.array(np.where(written, places, np.arange(len(ids))), mask=~there)
    return _known_state(ids, pa.concat_tables([anchor.rows, after]).take(chosen), there)


# ---- merging states -----------------------------------------------------------------------


class _Compared(Struct, frozen=True, kw_only=True):
    """Where two states equal each other and their base: values by column, and whole entities."""

    cells: Mask
    left_cells: Mask
    right_cells: Mask
    undefined: Mask
    equal: Mask
    left: Mask
    right: Mask


def _same_cells(left: _State, right: _State) -> Mask:
    masks = [equal_values(left.rows[name], right.rows[name]) for name in left.names]
    same = np.array(masks, dtype=bool).reshape(len(masks), len(left.there))
    return same & ~left.undefined & ~right.undefined & left.there & right.there


def _compared(left: _State, right: _State, base: _State) -> _Compared:
    """Compare; undefined values of the base are what both sides agree on, if they do."""
    cells = _same_cells(left, right)
    agreed = cells & (base.undefined | base.unknown)
    ours, theirs = _same_cells(left, base) | agreed, _same_cells(right, base) | agreed
    settled = base.there | base.unknown
    moved = ~(ours.all(axis=0) | theirs.all(axis=0)) & settled
    # Each side may have kept its own row whole, so one value from each is a guess.
    guessed = base.joined & moved & ~cells
    ours, theirs = ours & ~guessed, theirs & ~guessed
    absent = ~left.there & ~right.there
    return _Compared(
        cells=cells,
        left_cells=ours,
        right_cells=theirs,
        undefined=(base.undefined | guessed) & base.there,
        equal=cells.all(axis=0) & left.there & right.there | absent,
        left=ours.all(axis=0) & left.there & settled,
        right=theirs.all(axis=0) & right.there & settled,
    )


def _value(tree: BaseTree, states: Mapping[int, _State], anchor: _State) -> _State:
    """Return the state a tree stands for."""
    if isinstance(tree, int):
        return states.get(tree, anchor)
    left, right = _value(tree.left, states, anchor), _value(tree.right, states, anchor)
    if tree.base is None:
        return _merged(left, right, _nothing(anchor))
    return _merged(left, right, _value(tree.base, states, anchor))


def _nothing(anchor: _State) -> _State:
    """Return a base about which nothing is known."""
    return _State(
        rows=anchor.rows,
        there=np.zeros_like(anchor.there),
        unknown=np.ones_like(anchor.there),
        undefined=anchor.undefined,
        joined=anchor.joined,
    )


def _merged(left: _State, right: _State, base: _State) -> _State:
    """Merge two states cell by cell; conflicts become undefined."""
    compared = _compared(left, right, base)
    both = left.there & right.there
    only_left, only_right = left.there & ~right.there, right.there & ~left.there
    kept = np.where(only_left, compared.left, compared.right)
    one = only_left | only_right
    lost = one & (base.unknown | (base.there & ~kept))
    unknown = left.unknown | right.unknown | lost
    there = ~unknown & (both | (one & ~base.there))
    taken = np.where(both, ~compared.cells & compared.left_cells, only_right)
    clash = both & ~compared.cells & (compared.left_cells == compared.right_cells)
    changed = both & ~compared.left & ~compared.right
    once = compared.left_cells != compared.right_cells
    return _State(
        rows=_chosen(left, right, taken, there),
        there=there,
        unknown=unknown,
        undefined=(clash | left.undefined | right.undefined) & there,
        joined=((changed & ~compared.cells & once) | left.joined | right.joined) & there,
    )


def _chosen(left: _State, right: _State, from_right: Mask, there: Mask) -> pa.Table:
    rows = left.rows
    size = len(there)
    for number, name in enumerate(left.names):
        place = np.arange(size) + np.where(from_right[number], size, 0)
        both = pa.chunked_array([*left.rows[name].chunks, *right.rows[name].chunks])
        column = both.take(pa.array(place, mask=~there))
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
    return rows


# ---- changes since the base ---------------------------------------------------------------


def _changes(base: _State, side: _State, known: Mask, same: Mask, forced: Mask) -> RowChanges:
    """Return what a side changed; entities of which the base knows nothing count if `forced`."""
    before = known | forced
    changed = before & side.there & (forced | ~same)
    return RowChanges(
        inserted=side.rows.filter(pa.array(side.there & ~before & ~base.unknown)),
        deleted=base.rows.filter(pa.array(before & ~side.there)),
        old=base.rows.filter(pa.array(changed)),
        new=side.rows.filter(pa.array(changed)),
    )


def _undefined(
    ids: pa.Array, names: list[str], judged: _Compared, known: Mask, forced: Mask
) -> Undefined:
    undefined: dict[str, frozenset[str] | None] = {}
    for place in np.flatnonzero(forced):
        undefined[ids[place].as_py()] = None
    for place in np.flatnonzero(known & judged.undefined.any(axis=0)):
        columns = np.flatnonzero(judged.undefined[:, place])
        undefined[ids[place].as_py()] = frozenset(names[number] for number in columns)
    return undefined


def _without(changes: RowChanges, ids: pa.Array) -> RowChanges:
    def rest(rows: pa.Table, by: pa.Table) -> pa.Table:
        return rows.filter(pc.invert(pc.is_in(by["id"], value_set=ids)))

    return RowChanges(
        inserted=rest(changes.inserted, changes.inserted),
        deleted=rest(changes.deleted, changes.deleted),
        old=rest(changes.old, changes.new),
        new=rest(changes.new, changes.new),
    )


def _joined(first: RowChanges, second: RowChanges) -> RowChanges:
    return RowChanges(
        inserted=pa.concat_tables([first.inserted, second.inserted]),
        deleted=pa.concat_tables([first.deleted, second.deleted]),
        old=pa.concat_tables([first.old, second.old]),
        new=pa.concat_tables([first.new, second.new]),
    )
