"""Rows as they come in: frames turned into columns of a type, and ids completed.

A load in one process and the workers of a parallel one go through these functions, so both give
the same verdicts in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import AcceptedSchema, EdgeType, Entity, NodeType
from omnigraph.rows.arrow_columns import cast_column, text_column
from omnigraph.rows.keys import key_ids, ulid_column
from omnigraph.rows.problems import Problem, Problems
from omnigraph.rows.table_schema import rows_schema
from omnigraph.wording import or_meant

NewIds = Callable[[int], tuple[str, int]]


def frame_rows(
    entity: Entity,
    frame: pa.Table,
    *,
    from_col: str,
    to_col: str,
    lines: Sequence[int],
    problems: Problems,
) -> pa.Table | None:
    """Return a frame as rows of a type, None when its columns or values do not fit.

    Columns are properties and `id`; for an edge type two more name the ends.
    """
    before = problems.count
    check_columns(entity, frame.column_names, from_col=from_col, to_col=to_col, problems=problems)
    if problems.count > before:
        return None
    names = _own_names(entity, frame.column_names, from_col, to_col)
    columns = dict(zip(names, frame.columns, strict=True))
    schema = rows_schema(entity)
    arrays = [
        _frame_column(entity, field, columns.get(field.name), lines, problems) for field in schema
    ]
    if problems.count > before:
        return None
    return pa.Table.from_arrays(arrays, schema=schema)


def check_columns(
    entity: Entity, given: Sequence[str], *, from_col: str, to_col: str, problems: Problems
) -> None:
    """Report columns that stand twice, and those a type does not have."""
    names = _own_names(entity, given, from_col, to_col)
    known = rows_schema(entity).names
    for name in sorted({name for name in names if names.count(name) > 1}):
        message = f"column '{name}' appears twice"
        problems.add(Problem(message=message, type_name=entity.name, field=name))
    for name in dict.fromkeys(names):
        if name not in known:
            message = f"unknown column '{name}' for '{entity.table_key}'{_meant(name, known)}"
            problems.add(Problem(message=message, type_name=entity.name, field=name))


def _own_names(entity: Entity, names: Sequence[str], from_col: str, to_col: str) -> list[str]:
    """Return columns by the names a type has for them."""
    renamed = {from_col: "src", to_col: "dst"} if isinstance(entity, EdgeType) else {}
    return [renamed.get(name, name) for name in names]


def _meant(name: str, known: Sequence[str]) -> str:
    """Return what may have been meant by the name of a column."""
    if ";" in name or "\t" in name:
        return "; values must be separated by ',', unless a mapping names another delimiter"
    return or_meant(name, known)


def _frame_column(
    entity: Entity,
    field: pa.Field,
    column: pa.ChunkedArray | None,
    lines: Sequence[int],
    problems: Problems,
) -> pa.Array:
    name, size = field.name, len(lines)

    def report(row: int | None, message: str) -> None:
        # What is wrong with a column is wrong with none of its rows alone.
        problems.add(
            Problem(
                message=f"property '{name}': {message}",
                type_name=entity.name,
                field=name,
                line=None if row is None else lines[row],
            )
        )

    if name in ("id", "src", "dst"):
        if column is None:
            if name != "id" and size:
                word = "from" if name == "src" else "to"
                report(None, f"edge {entity.name} needs a column with the '{word}' ids")
            return pa.nulls(size, pa.string())
        ids = column.combine_chunks()
        if name != "id":
            for row in pc.indices_nonzero(pc.is_null(ids)).to_pylist():
                report(row, "endpoint ids must not be null")
        return text_column(ids, report)
    declared = entity.properties[name]
    if column is None:
        default = declared.default
        if default is None:
            return pa.nulls(size, field.type)
        value = list(default) if isinstance(default, tuple) else default
        return pa.array([value] * size, field.type)
    return cast_column(column, declared.type, report)


def complete_ids(
    schema: AcceptedSchema,
    entity: Entity,
    rows: pa.Table,
    lines: Sequence[int],
    new_ids: NewIds,
    problems: Problems,
) -> tuple[pa.Table, pa.Array]:
    """Return rows with all their ids, and a column that tells which of these are new ULIDs."""
    given = rows["id"].combine_chunks()
    generated = pc.is_null(given)
    if isinstance(entity, NodeType) and entity.key:
        ids = _key_column(schema, entity, rows, given, lines, problems)
        generated = pa.array(np.zeros(rows.num_rows, dtype=bool))
    elif given.null_count:
        minted = ulid_column(new_ids(given.null_count), given.null_count)
        if given.null_count == len(given):
            ids = minted
        else:
            ids = pc.replace_with_mask(given, generated, minted.combine_chunks())
    else:
        ids = given
    return rows.set_column(rows.schema.get_field_index("id"), "id", ids), generated


def _key_column(
    schema: AcceptedSchema,
    node: NodeType,
    rows: pa.Table,
    given: pa.Array,
    lines: Sequence[int],
    problems: Problems,
) -> pa.Array:
    order = schema.key_order(node)
    columns = [rows[name].combine_chunks() for name in order]
    for name, column in zip(order, columns, strict=True):
        for row in pc.indices_nonzero(pc.is_null(column)).to_pylist():
            problems.add(
                Problem(
                    message=f"missing required property '{name}'",
                    type_name=node.name,
                    field=name,
                    line=lines[row],
                )
            )
    if any(column.null_count for column in columns):
        # Without its key a row has no id that others could repeat.
        return given
    ids = key_ids(columns, [node.properties[name].type for name in order])
    wrong = pc.fill_null(pc.not_equal(given, ids), False)
    for row in pc.indices_nonzero(wrong).to_pylist():
        problems.add(
            Problem(
                message=f"id '{given[row].as_py()}' does not match the key: expected "
                f"'{ids[row].as_py()}'",
                type_name=node.name,
                field="id",
                line=lines[row],
            )
        )
    return ids


def duplicate_problem(
    entity: Entity, entity_id: str, line: int | None, first: str, *, file: str | None = None
) -> Problem:
    """Return the problem of an id that stood before, at `first`."""
    return Problem(
        message=f"duplicate id '{entity_id}' of {entity.name} (also on {first})",
        type_name=entity.name,
        entity_id=entity_id,
        field="id",
        line=line,
        file=file,
    )
