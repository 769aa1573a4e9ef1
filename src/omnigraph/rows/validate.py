"""The one evaluator of constraints, run once over the final change set of every write.

It reads the captured base only, and every table it reads is recorded: the publish succeeds only
from that very state, so a verdict cannot be overtaken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import FLOATS, Entity, Property
from omnigraph.compute import python_values
from omnigraph.rows.changes import TableChange, TableChanges
from omnigraph.rows.problems import Problem, Problems, some_rows
from omnigraph.rows.references import check_references
from omnigraph.rows.sizes import check_sizes
from omnigraph.rows.stored import Stored
from omnigraph.store import quoted


def validate(base: Stored, changes: TableChanges, problems: Problems) -> None:
    """Check a change set; every violation goes to `problems`."""
    for change in changes.effective():
        rows = change.rows()
        if rows is not None:
            if change.elsewhere is None:
                # Else the worker that has all columns has checked them.
                check_values(change.entity, rows, problems)
            _check_uniques(base, change, rows, problems)
    check_references(base, changes, problems)


# ---- values -------------------------------------------------------------------------------


def check_values(entity: Entity, rows: pa.Table, problems: Problems) -> None:
    """Check what can be told from each row alone."""
    for declared in entity.properties.values():
        column = rows[declared.name]
        if declared.required and column.null_count:
            bad = some_rows(rows, pc.is_null(column), declared.name)
            _report(problems, entity, bad, declared.name, lambda _v, d=declared: _required(d))
        if declared.type.enum_values:
            _check_enum(entity, declared, rows, problems)
        if declared.type.scalar in FLOATS:
            wrong = _not_finite(column, is_list=declared.type.is_list)
            bad = some_rows(rows, wrong, declared.name)
            _report(problems, entity, bad, declared.name, lambda v, d=declared: _infinite(d, v))
    check_sizes(entity, rows, problems)
    for item in entity.ranges:
        for bound, word, function in (
            (item.low, "min", pc.less),
            (item.high, "max", pc.greater),
        ):
            if bound is None:
                continue
            wrong = pc.fill_null(function(rows[item.property], bound), False)
            bad = some_rows(rows, wrong, item.property)
            sign = "<" if word == "min" else ">"
            _report(
                problems,
                entity,
                bad,
                item.property,
                lambda v, s=sign, w=word, b=bound, p=item.property: (
                    f"@range violation on {entity.name}.{p}: value {v} {s} {w} {b}"
                ),
            )
    for check in entity.checks:
        matches = pc.match_substring_regex(rows[check.property], check.pattern)
        bad = some_rows(rows, pc.fill_null(pc.invert(matches), False), check.property)
        _report(
            problems,
            entity,
            bad,
            check.property,
            lambda v, c=check: (
                f"@check violation on {entity.name}.{c.property}: value '{v}' does not match "
                f"pattern '{c.pattern}'"
            ),
        )


def _not_finite(column: pa.ChunkedArray, *, is_list: bool) -> pa.ChunkedArray:
    """Tell which rows hold a number that is not finite, alone or in a list."""
    if not is_list:
        return pc.fill_null(pc.invert(pc.is_finite(column)), False)
    return pa.chunked_array([_list_not_finite(lists) for lists in column.chunks], pa.bool_())


def _list_not_finite(lists: pa.Array) -> pa.Array:
    wrong = pc.fill_null(pc.invert(pc.is_finite(pc.list_flatten(lists))), False)
    owners = pc.unique(pc.filter(pc.list_parent_indices(lists), wrong))
    return pc.is_in(pa.array(range(len(lists)), pa.int64()), value_set=pc.cast(owners, pa.int64()))


def _required(declared: Property) -> str:
    return f"missing required property '{declared.name}'"


def _infinite(declared: Property, value: object) -> str:
    return f"property '{declared.name}': expected a finite number, got {value}"


def _check_enum(entity: Entity, declared: Property, rows: pa.Table, problems: Problems) -> None:
    allowed = pa.array(declared.type.enum_values, pa.string())
    column = rows[declared.name]
    wrong = pc.and_(pc.is_valid(column), pc.invert(pc.is_in(column, value_set=allowed)))
    listed = ", ".join(declared.type.enum_values)
    _report(
        problems,
        entity,
        some_rows(rows, wrong, declared.name),
        declared.name,
        lambda v: (
            f"invalid enum value '{v}' for {entity.name}.{declared.name} (expected: {listed})"
        ),
    )


def _report(
    problems: Problems, entity: Entity, bad: pa.Table, field: str, text: Callable[..., str]
) -> None:
    if bad.num_rows == 0:
        return
    pairs = zip(bad["id"].to_pylist(), python_values(bad[field]), strict=True)
    for entity_id, value in pairs:
        problems.add(
            Problem(
                message=text(value),
                type_name=entity.name,
                entity_id=entity_id,
                field=field,
                line=problems.line_of(entity.table_key, entity_id),
                table_key=entity.table_key,
            )
        )


# ---- uniqueness ---------------------------------------------------------------------------


def _check_uniques(base: Stored, change: TableChange, rows: pa.Table, problems: Problems) -> None:
    for constraint in change.entity.uniques:
        columns = list(constraint.columns)
        keys = _complete_keys(columns, rows)
        if keys.num_rows == 0:
            continue
        _check_inside(change.entity, columns, keys, problems)
        if not change.replaced and base.row_count(change.entity):
            _check_committed(base, change, columns, keys, problems)


def check_unique(entity: Entity, rows: pa.Table, problems: Problems) -> None:
    """Check rows, alone, against every uniqueness a type asks for."""
    for constraint in entity.uniques:
        columns = list(constraint.columns)
        _check_inside(entity, columns, _complete_keys(columns, rows), problems)


def _complete_keys(columns: list[str], rows: pa.Table) -> pa.Table:
    """Return the key columns and ids of the rows whose key has no null: others are exempt."""
    keys = rows.select([*columns, "id"])
    complete = None
    for name in columns:
        valid = pc.is_valid(keys[name])
        complete = valid if complete is None else pc.and_(complete, valid)
    return keys.filter(complete)


def _check_inside(entity: Entity, columns: list[str], keys: pa.Table, problems: Problems) -> None:
    groups = keys.group_by(columns).aggregate([("id", "count"), ("id", "min"), ("id", "max")])
    repeated = groups.filter(pc.greater(groups["id_count"], 1))
    for row in _dicts(repeated.slice(0, 1000)):
        holders = (row["id_min"], row["id_max"])
        problems.add(_held_twice(entity, columns, row, holders, problems))


def _dicts(rows: pa.Table) -> Iterator[dict[str, Any]]:
    columns = [python_values(column) for column in rows.columns]
    return (dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True))


def _check_committed(
    base: Stored, change: TableChange, columns: list[str], keys: pa.Table, problems: Problems
) -> None:
    held = _committed_keys(base, change.entity, columns, keys)
    gone = pa.array([*change.ids(), *change.deleted], pa.string())
    held = held.filter(pc.invert(pc.is_in(held["id"], value_set=gone)))
    if held.num_rows == 0:
        return
    clashes = keys.join(held.rename_columns([*columns, "held_by"]), keys=columns, join_type="inner")
    for row in _dicts(clashes.slice(0, 1000)):
        holders = (row["held_by"], row["id"])
        problems.add(_held_twice(change.entity, columns, row, holders, problems))


def _committed_keys(base: Stored, entity: Entity, columns: list[str], keys: pa.Table) -> pa.Table:
    """Return committed rows that may share a key, using an index on the first column if any."""
    where: str | None = None
    values = pc.unique(keys[columns[0]])
    if pa.types.is_string(values.type) and len(values) <= 8192:
        where = f"`{columns[0]}` IN ({', '.join(quoted(v) for v in values.to_pylist())})"
    elif pa.types.is_integer(values.type) and len(values) <= 8192:
        where = f"`{columns[0]}` IN ({', '.join(str(v) for v in values.to_pylist())})"
    wanted = pa.schema([keys.schema.field(name) for name in (*columns, "id")])
    return base.scan(entity, wanted.names, where).cast(wanted)


def _held_twice(
    entity: Entity,
    columns: list[str],
    row: dict[str, object],
    holders: tuple[str, str],
    problems: Problems,
) -> Problem:
    values = [str(row[name]) for name in columns]
    line = problems.line_of(entity.table_key, holders[1])
    return unique_problem(entity, columns, values, holders, line)


def unique_problem(
    entity: Entity,
    columns: Sequence[str],
    values: Sequence[str],
    holders: tuple[str, str],
    line: int | None,
    *,
    file: str | None = None,
) -> Problem:
    """Return the problem of two rows that hold the same unique value."""
    first, second = holders
    place = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
    value = values[0] if len(values) == 1 else f"({', '.join(values)})"
    return Problem(
        message=f"@unique violation on {entity.name}.{place}: value '{value}' held by "
        f"'{first}' and '{second}'",
        type_name=entity.name,
        entity_id=second,
        field=columns[0],
        line=line,
        file=file,
        kind="unique_violation",
        table_key=entity.table_key,
    )
