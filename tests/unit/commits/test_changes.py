"""Changes are data: each kind can be pickled, and comes back equal."""

from __future__ import annotations

import pickle
import typing

import pyarrow as pa
import pytest

from omnigraph.commits import BuildIndexes, ChangeSet, TableStep, dropped, registered, renamed
from omnigraph.lang import compile_schema
from omnigraph.rows import RowFile, RowsElsewhere, TableChange
from omnigraph.store import ColumnChanges, IndexSpec, Pin
from omnigraph.store.tables.steps import (
    Adopt,
    ChangeColumns,
    Compact,
    DropLostIndexes,
    GoBack,
    UnstagedStep,
)

CITY = compile_schema("node City { name: String @key  people: I64? }").catalog.nodes["City"]
ROWS = pa.table({"id": ["a"], "name": ["a"], "people": pa.array([1], pa.int64())})
PIN = Pin(
    table_key="node:City",
    incarnation=1,
    path="nodes/1",
    version=3,
    row_count=1,
    transaction_uuid="t",
    seq=7,
)
STEPS: list[UnstagedStep] = [
    Compact(rewrites=("one",), columns=("id",)),
    ChangeColumns(
        changes=ColumnChanges(
            dropped=("a",),
            renamed={"b": "c"},
            recomputed={"d": (pa.field("d", pa.int64()), 0)},
            filled={"e": (pa.field("e", pa.string()), "x")},
        ),
        content=ROWS.schema,
    ),
    GoBack(drop_foreign=True),
    DropLostIndexes(),
    Adopt(),
]


@pytest.mark.parametrize(
    "change",
    [
        TableChange(CITY, added=ROWS),
        TableChange(CITY, changed=ROWS, deleted=["b"]),
        TableChange(CITY, added=ROWS, replaced=True, mapped=True),
        TableChange(
            CITY,
            elsewhere=RowsElsewhere(files=(RowFile(path="f", rows=2, ids="g"),), may_replace=True),
        ),
    ],
)
def test_changes_of_rows_are_data(change: TableChange) -> None:
    changes = ChangeSet({CITY.table_key: change})
    assert _sent(changes) == changes
    assert [item.entity.name for item in changes.effective()] == ["City"]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_changes_without_rows_are_data(step: UnstagedStep) -> None:
    changes = ChangeSet(
        indexes=(
            BuildIndexes(table_key="node:City", specs=(IndexSpec(column="id", kind="BTREE"),)),
        ),
        steps=(TableStep(table_key="node:City", step=step, becomes="node:Town"),),
        entries=(dropped(PIN), *registered(PIN), *renamed(PIN, "node:Town")),
        schema_hash="h",
        alone=True,
    )
    assert _sent(changes) == changes


def _sent(changes: ChangeSet) -> object:
    return pickle.loads(pickle.dumps(changes))  # noqa: S301 - what was just written


def test_every_kind_of_step_is_tried_here() -> None:
    assert {type(step) for step in STEPS} == set(typing.get_args(UnstagedStep))


def test_a_change_without_rows_or_ids_does_nothing() -> None:
    assert TableChange(CITY).is_empty
    assert TableChange(CITY, added=ROWS.slice(0, 0)).is_empty
    assert not TableChange(CITY, replaced=True).is_empty
    assert list(ChangeSet({"node:City": TableChange(CITY)}).effective()) == []
