"""How the tables of a state are doing: rows, pieces, files, and what indexes cover. Only reads."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.catalog import Catalog, Entity
from omnigraph.ops.indexing import declared_indexes
from omnigraph.store import Table, Tables
from omnigraph.values.reports import TableHealth as TableHealth


def tables_health(
    catalog: Catalog, opened: Mapping[str, Table], tables: Tables
) -> list[TableHealth]:
    """Look at every table of a state, nodes before edges."""
    return [_health(item, opened[item.table_key], tables) for item in catalog.entities()]


def _health(entity: Entity, table: Table, tables: Tables) -> TableHealth:
    rows_of = {item.fragment_id: int(item.physical_rows) for item in table.fragments()}
    specs = declared_indexes(entity)
    covered = {spec.column: table.index_fragments(spec.name) for spec in specs}
    missing = [column for column, fragments in covered.items() if rows_of and not fragments]
    held = [fragments for fragments in covered.values() if fragments]
    uncovered = {number for number in rows_of if any(number not in fragments for fragments in held)}
    # Folders are listed too on a disk, and hold nothing.
    sizes = [item.size_bytes for item in tables.files.entries(tables.folder(table.path))]
    return TableHealth(
        table_key=entity.table_key,
        rows=table.count_rows(),
        fragments=len(rows_of),
        files=sum(1 for size in sizes if size),
        bytes=sum(sizes),
        indexes=len(specs),
        missing_indexes=tuple(missing),
        uncovered_rows=sum(rows_of[number] for number in uncovered),
    )
