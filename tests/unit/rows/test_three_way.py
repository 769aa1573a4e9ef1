"""Conflicts, their images, and what may decide them."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.errors import BadRequestError
from omnigraph.rows.three_way import (
    Conflict,
    ConflictKind,
    Decision,
    Merged,
    Side,
    by_property,
    merge_table,
    no_changes,
)
from tests.unit.rows.arrow_rows import Rows, applied, catalog_of, changes, rows_in, table

CATALOG = catalog_of("""
node Item { a: F64? b: String? }
edge Link: Item -> Item { v: I32? }
""")
ITEM, LINK = CATALOG.nodes["Item"], CATALOG.edges["Link"]


def merged(base: Rows, theirs: Rows, ours: Rows, decision: Decision = None) -> Merged:
    found = changes(ITEM, base, theirs), changes(ITEM, base, ours)
    return merge_table(ITEM, *found, lambda _conflict: decision, row_of)


def row_of(entity: Any, image: Any) -> Any:
    return table(entity, {image["id"]: image["values"]})


OLD, NEW, OTHER = ({"a": 1.0, "b": text} for text in ("old", "new", "other"))


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "kind"),
    [
        ({}, {"x": NEW}, {"x": OTHER}, ConflictKind.DIVERGENT_INSERT),
        ({"x": OLD}, {"x": NEW}, {"x": OTHER}, ConflictKind.DIVERGENT_UPDATE),
        ({"x": OLD}, {"x": NEW}, {}, ConflictKind.DELETE_VS_UPDATE),
        ({"x": OLD}, {}, {"x": NEW}, ConflictKind.DELETE_VS_UPDATE),
    ],
)
def test_a_conflict_carries_three_images_and_either_side_decides_it(
    base: Rows, theirs: Rows, ours: Rows, kind: ConflictKind
) -> None:
    (found,) = merged(base, theirs, ours).conflicts
    assert (found.kind, found.entity_id, found.table_key) == (kind, "x", "node:Item")
    images = [
        None if image is None else image["data"] for image in (found.base, found.ours, found.theirs)
    ]
    sides = [rows.get("x") for rows in (base, ours, theirs)]
    assert images == [None if row is None else {"id": "x", **row} for row in sides]
    assert found.to_review().keys() == found.to_json().keys() | {"base", "ours", "theirs"}
    assert applied(merged(base, theirs, ours, Side.OURS).change, ours) == ours
    assert applied(merged(base, theirs, ours, Side.THEIRS).change, ours) == theirs


def test_values_somebody_decided_on_replace_both_sides() -> None:
    decided = {"id": "x", "values": {"a": 7.0, "b": "both"}}
    for ours in ({"x": OTHER}, {}):
        found = merged({"x": OLD}, {"x": NEW}, ours, decided)
        assert found.conflicts == []
        assert applied(found.change, ours) == {"x": decided["values"]}


def test_decided_values_keep_their_id() -> None:
    with pytest.raises(BadRequestError, match="a resolution of Item 'x' must keep its id"):
        merged({}, {"x": NEW}, {"x": OTHER}, {"id": "y", "values": NEW})


def test_equal_changes_are_taken_once_and_zeros_differ_by_sign() -> None:
    assert merged({"x": OLD}, {"x": NEW}, {"x": NEW}).conflicts == []
    plus, minus = ({"a": value, "b": None} for value in (0.0, -0.0))
    assert len(merged({}, {"x": plus}, {"x": minus}).conflicts) == 1


def test_a_side_without_changes_leaves_everything_to_the_other() -> None:
    theirs = changes(ITEM, {"x": OLD}, {"y": NEW})
    none = no_changes(theirs.new.schema)
    found = merge_table(ITEM, theirs, none, lambda _conflict: None, row_of)
    assert rows_in(found.change.added) == {"y": NEW}
    assert found.change.deleted == ["x"]


def test_of_a_base_that_is_not_known_an_image_shows_nothing() -> None:
    base, theirs, ours = {"x": OLD}, {"x": NEW}, {"x": OTHER}
    found = changes(ITEM, base, theirs), changes(ITEM, base, ours)
    unknown: tuple[frozenset[str] | None, ...] = (None, frozenset({"b"}))
    images = [
        merge_table(ITEM, *found, lambda _c: None, row_of, {"x": names}).conflicts[0].base
        for names in unknown
    ]
    assert images == [None, {"type": "Item", "data": {"id": "x", "a": 1.0}}]


# ---- property by property -----------------------------------------------------------------


def update(base: Any, ours: Any, theirs: Any, **ends: str) -> Conflict:
    return Conflict(
        table_key="edge:Link",
        entity_id="x",
        kind=ConflictKind.DIVERGENT_UPDATE,
        message="",
        **{
            name: {"edge": "Link", **ends, "data": data}
            for name, data in (("base", base), ("ours", ours), ("theirs", theirs))
        },
    )


def data_of(decision: Decision) -> Any:
    return None if decision is None or isinstance(decision, Side) else decision["data"]


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "joined"),
    [
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2}),
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 2, "b": 2}, {"a": 2, "b": 2}),
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 3, "b": 1}, None),
        ({"a": None}, {"a": 0.0}, {"a": -0.0}, None),
        # What the base does not tell counts as changed by both.
        ({"b": 1}, {"a": 2, "b": 1}, {"a": 3, "b": 1}, None),
        ({"b": 1}, {"a": 2, "b": 1}, {"a": 2, "b": 4}, {"a": 2, "b": 4}),
    ],
)
def test_updates_of_different_properties_are_joined(
    base: Any, ours: Any, theirs: Any, joined: Any
) -> None:
    assert data_of(by_property(update(base, ours, theirs))) == joined


def test_ends_count_as_properties() -> None:
    one = update({"v": 1}, {"v": 1}, {"v": 2}, **{"from": "a", "to": "b"})
    assert by_property(one) == {"edge": "Link", "from": "a", "to": "b", "data": {"v": 2}}


def test_other_conflicts_are_not_joined() -> None:
    for kind in (ConflictKind.DIVERGENT_INSERT, ConflictKind.DELETE_VS_UPDATE):
        conflict = Conflict(table_key="node:Item", entity_id="x", kind=kind, message="")
        assert by_property(conflict) is None
