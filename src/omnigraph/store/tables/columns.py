"""Changes the columns of a table: names, types, nullability, new ones, dropped ones.

Lance makes these changes one version each, and none of them can be staged. The caller owns the
slot and has announced the table: if it dies, recovery restores the version it started from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from omnigraph.errors import StorageError
from omnigraph.store.files.counters import count
from omnigraph.store.tables.lance_errors import translated
from omnigraph.store.tables.staging import restore
from omnigraph.store.tables.standing import UNDOABLE, refuse_drift, standing
from omnigraph.store.tables.table import Table, Tables

TEMPORARY = "__new_"
"""Prefix of a column on its way in; no property may be called like that."""

Compute = Callable[[pa.Array], pa.Array]


class ColumnChanges(Struct, frozen=True, kw_only=True):
    """What becomes of a table's columns, in the order it is done.

    `dropped` and the keys of `renamed` are old names, everything else is by new name.
    """

    dropped: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    nullable: tuple[str, ...] = ()
    recomputed: Mapping[str, tuple[pa.Field, object]] = field(default_factory=dict)
    """New field and what takes the place of nulls, which may be None: values are converted."""
    required: tuple[str, ...] = ()
    added: tuple[pa.Field, ...] = ()
    """Fields whose rows are null."""
    filled: Mapping[str, tuple[pa.Field, object]] = field(default_factory=dict)
    """New field and the value every row gets."""

    @property
    def any(self) -> bool:
        """Whether there is anything to do."""
        return any(
            (
                self.dropped,
                self.renamed,
                self.nullable,
                self.recomputed,
                self.required,
                self.added,
                self.filled,
            )
        )


def change_columns(
    tables: Tables, path: str, version: int, changes: ColumnChanges, *, after: Callable[[], None]
) -> Table:
    """Change the columns of a table that is published at a version. Needs the slot.

    `after` is called after every version made. Raises `StorageError` unless exactly the versions
    made here appeared.
    """
    state = standing(tables, path, version)
    refuse_drift(state)
    if state.verdict in UNDOABLE:
        dataset = restore(tables, path, version).dataset
    else:
        dataset = tables.open_latest(path).dataset
    # A handle of its own: these calls move it, and remembered tables are shared.
    first = dataset.version
    work = _Work(dataset, after)
    with translated(f"changing columns of {path}"):
        work.run(changes)
    changed = tables.open_latest(path)
    if changed.version != first + work.steps:
        raise StorageError(f"table {path} moved while its columns were changed", hint="try again")
    return tables.remember(changed)


class _Work:
    def __init__(
        self,
        dataset: Any,  # noqa: ANN401 - the stubs misstate `alter_columns`
        after: Callable[[], None],
    ) -> None:
        self._dataset = dataset
        self._after = after
        self.steps = 0

    def run(self, changes: ColumnChanges) -> None:
        self._drop_indexes((*changes.dropped, *changes.renamed))
        self._drop(changes.dropped)
        self._alter([{"path": old, "name": new} for old, new in changes.renamed.items()])
        self._alter([{"path": name, "nullable": True} for name in changes.nullable])
        self._recompute(changes.recomputed)
        self._alter([{"path": name, "nullable": False} for name in changes.required])
        if changes.added:
            self._step(lambda: self._dataset.add_columns(list(changes.added)))
        if changes.filled:
            made = {
                new.name: (new, "id", _constant(new.type, value))
                for new, value in changes.filled.values()
            }
            self._add_computed(made)

    def _step(self, change: Callable[[], object]) -> None:
        count("data_commits")
        change()
        self.steps += 1
        self._after()

    def _drop_indexes(self, columns: Sequence[str]) -> None:
        """Drop the indexes of columns that go or change: an index keeps its name for ever."""
        for item in self._dataset.describe_indices():
            if set(item.field_names) & set(columns):
                self._step(partial(self._dataset.drop_index, item.name))

    def _drop(self, columns: Sequence[str]) -> None:
        if columns:
            self._step(lambda: self._dataset.drop_columns(list(columns)))

    def _alter(self, alterations: list[dict[str, object]]) -> None:
        if alterations:
            self._step(lambda: self._dataset.alter_columns(*alterations))

    def _recompute(self, recomputed: Mapping[str, tuple[pa.Field, object]]) -> None:
        if not recomputed:
            return
        self._drop_indexes(tuple(recomputed))
        made = {
            name: (
                new.with_name(TEMPORARY + name),
                name,
                partial(converted, kind=new.type, default=default),
            )
            for name, (new, default) in recomputed.items()
        }
        self._add_computed(made)
        self._drop(tuple(recomputed))
        self._alter([{"path": TEMPORARY + name, "name": name} for name in recomputed])

    def _add_computed(self, made: Mapping[str, tuple[pa.Field, str, Compute]]) -> None:
        schema = pa.schema([new for new, _source, _compute in made.values()])

        @lance.batch_udf(output_schema=schema)
        def columns(batch: pa.RecordBatch) -> pa.RecordBatch:
            arrays = [compute(batch[source]) for _new, source, compute in made.values()]
            return pa.record_batch(arrays, schema=schema)

        sources = sorted({source for _new, source, _compute in made.values()})
        self._step(lambda: self._dataset.add_columns(columns, read_columns=sources))


def converted(column: pa.Array, *, kind: pa.DataType, default: object) -> pa.Array:
    """Return a column as another type; a default takes the place of nulls unless it is None."""
    values = column if column.type == kind else pc.cast(column, kind)
    return values if default is None else pc.coalesce(values, pa.scalar(default, kind))


def _constant(kind: pa.DataType, value: object) -> Compute:
    scalar = pa.scalar(value, kind)
    return lambda column: pa.repeat(scalar, len(column))
