"""The rows two versions of a table do not share, however they came to differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.store import (
    Table,
    Tables,
    commit_staged,
    fork_table,
    locate,
    primary_key_field,
    stage_delete,
    stage_insert,
    table_delta,
)

SCHEMA = pa.schema([primary_key_field("id"), pa.field("v", pa.int64())])
ROWS = 20_000


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(locate(tmp_path))


@pytest.fixture
def table(tables: Tables) -> Table:
    rows = pa.table({"id": [f"k{n:05d}" for n in range(ROWS)], "v": range(ROWS)}, schema=SCHEMA)
    return commit_staged(tables, stage_insert(tables.create("t", SCHEMA), rows, {}))


def without(tables: Tables, table: Table, places: range) -> Table:
    found = table.scan(columns=["v"], row_address=True)
    keep = np.isin(found["v"].to_numpy(), np.asarray(places))
    return commit_staged(tables, stage_delete(table, found["_rowaddr"].to_numpy()[keep], {}))


@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize("more", [2, 15_000], ids=["few, listed", "many, as bits"])
def test_rows_struck_out_on_either_side(
    tables: Tables, table: Table, more: int, forked: bool
) -> None:
    first = without(tables, table, range(100, 103))
    old = fork_table(tables, first, "dev.1")[0] if forked else first
    new = without(tables, old, range(200, 200 + more))
    found = table_delta(old, new, ["v"], descends=True)
    assert found.after.num_rows == 0
    assert sorted(found.before["v"].to_pylist()) == list(range(200, 200 + more))
    back = table_delta(new, old, ["v"], descends=False)
    assert sorted(back.after["v"].to_pylist()) == list(range(200, 200 + more))
    assert back.before.num_rows == 0


def test_lines_of_versions_that_struck_out_different_rows(tables: Tables, table: Table) -> None:
    theirs = without(tables, fork_table(tables, table, "dev.1")[0], range(9_000))
    ours = without(tables, table, range(8_990, 9_003))
    found = table_delta(ours, theirs, ["v"], descends=False)
    assert sorted(found.before["v"].to_pylist()) == list(range(8_990))
    assert sorted(found.after["v"].to_pylist()) == [9_000, 9_001, 9_002]
