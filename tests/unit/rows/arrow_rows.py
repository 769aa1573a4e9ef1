"""Rows as plain dictionaries, and as the Arrow tables the engine works on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph.catalog import Catalog, Entity
from omnigraph.lang import compile_schema
from omnigraph.rows.changes import TableChange
from omnigraph.rows.images import RowChanges, row_changes
from omnigraph.rows.table_schema import rows_from_values

Rows = Mapping[str, Mapping[str, Any]]
"""Rows by id, without the id."""


def catalog_of(text: str) -> Catalog:
    return compile_schema(text).catalog


def table(entity: Entity, rows: Rows) -> Any:
    """Return rows as the engine holds them in memory, in the order given."""
    return rows_from_values(entity, [{"id": key, **row} for key, row in rows.items()])


def rows_in(found: Any) -> dict[str, dict[str, Any]]:
    """Return a table as plain rows by id."""
    if found is None:
        return {}
    items = found.to_pylist()
    rows = {item.pop("id"): item for item in items}
    assert len(rows) == len(items), "one id twice"
    return rows


def changes(entity: Entity, before: Rows, after: Rows) -> RowChanges:
    """Return what turns some rows into others."""
    return row_changes(table(entity, before), table(entity, after))


def applied(change: TableChange, rows: Rows) -> dict[str, dict[str, Any]]:
    """Return rows after a change, which has to fit them."""
    added, changed = rows_in(change.added), rows_in(change.changed)
    assert len(set(change.deleted)) == len(change.deleted)
    assert added.keys().isdisjoint(rows)
    assert changed.keys() <= rows.keys()
    assert set(change.deleted) <= rows.keys() - changed.keys()
    found = {key: dict(row) for key, row in rows.items() if key not in set(change.deleted)}
    return {**found, **changed, **added}
