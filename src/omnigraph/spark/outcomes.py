"""Rows that workers computed: left in files, with what ties them to other rows told the driver."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.feather as feather
from msgspec import Struct, field

from omnigraph.catalog import Entity
from omnigraph.rows import Problem, Problems, RowFile, RowsElsewhere, TableChange, rows_schema
from omnigraph.rows.validate import check_values
from omnigraph.spark.engine import Engine
from omnigraph.store import new_file, reaching, readable


class Outcome(Struct, kw_only=True):
    """What a group of entities of one type came to; its rows are in a file, the new ones first."""

    path: str = ""
    added: int = 0
    changed: int = 0
    deleted: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def leave_rows(change: TableChange, scratch: str) -> Outcome:
    """Judge every row alone, in a worker, and leave all of them in a file."""
    outcome = Outcome(deleted=change.deleted)
    rows = change.rows()
    if rows is None:
        return outcome
    problems = Problems()
    check_values(change.entity, rows, problems)
    outcome.problems = problems.items
    outcome.changed = 0 if change.changed is None else change.changed.num_rows
    outcome.added = rows.num_rows - outcome.changed
    outcome.path = os.path.join(scratch, f"{uuid.uuid4().hex}.arrow")
    with new_file(outcome.path) as out:
        feather.write_feather(rows, out, compression="lz4", chunksize=65_536)
    return outcome


def joined_change(engine: Engine, entity: Entity, outcomes: Sequence[Outcome]) -> TableChange:
    """Return what all groups of a type came to, its rows elsewhere."""
    filled = [item for item in outcomes if item.added or item.changed]
    added, changed = _keys(engine, entity, filled)
    change = TableChange(entity, added=added, changed=changed)
    change.deleted = [entity_id for item in outcomes for entity_id in item.deleted]
    if filled or change.deleted:
        files = tuple(RowFile(path=item.path, rows=item.added + item.changed) for item in filled)
        replaces = bool(changed.num_rows or change.deleted)
        change.elsewhere = RowsElsewhere(files=files, may_replace=replaces)
    return change


def _keys(engine: Engine, entity: Entity, filled: Sequence[Outcome]) -> tuple[pa.Table, pa.Table]:
    """Return of the new and of the changed rows what ties them to others."""
    schema = rows_schema(entity)
    unique = {name for rule in entity.uniques for name in rule.columns}
    names = [name for name in schema.names if name in {*entity.implicit_columns, *unique}]
    empty = schema.empty_table().select(names)
    parts: list[tuple[pa.Table, pa.Table]] = [(empty, empty)]
    with reaching(engine.given):
        for item in filled:
            rows = feather.read_table(readable(item.path), columns=names)
            parts.append((rows.slice(0, item.added), rows.slice(item.added)))
    first, second = zip(*parts, strict=True)
    return pa.concat_tables(first), pa.concat_tables(second)
