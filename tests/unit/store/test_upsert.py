"""Rows that replace others keep their row ids, whatever they are mixed with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.store import Table, Tables, commit_staged, locate, primary_key_field, stage_upsert
from omnigraph.store.tables import upsert as upserting

SCHEMA = pa.schema([primary_key_field("id"), pa.field("v", pa.int64())])


def rows(values: dict[str, int]) -> pa.Table:
    return pa.table({"id": list(values), "v": list(values.values())}, schema=SCHEMA)


def put(tables: Tables, table: Table, values: dict[str, int], *deleted: str) -> Table:
    staged = stage_upsert(table, rows(values), {}, deleted=deleted)
    found = commit_staged(tables, staged)
    assert found.count_rows() == staged.rows_after
    return found


def read(table: Table) -> dict[str, tuple[int, int]]:
    found = table.scan(row_id=True)
    ids = found["_rowid"].to_pylist()
    assert len(set(ids)) == len(ids)
    columns = (found["id"].to_pylist(), found["v"].to_pylist(), ids)
    return {name: (value, row) for name, value, row in zip(*columns, strict=True)}


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(locate(tmp_path))


@pytest.mark.parametrize("share", [0, 10**9], ids=["asked for", "scanned"])
@pytest.mark.parametrize("per_file", [2, 1000])
def test_changed_rows_keep_their_row_ids(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, share: int, per_file: int
) -> None:
    monkeypatch.setattr(upserting, "SCAN_SHARE", share)
    monkeypatch.setattr(upserting, "ROWS_PER_FILE_MAX", per_file)
    table = put(tables, tables.create("t", SCHEMA), dict.fromkeys("abcdef", 0))
    before = read(table)
    table = put(tables, table, {"x": 1, "b": 2, "y": 3, "e": 4, "a": 5})
    after = read(table)
    assert {name: value for name, (value, _row) in after.items()} == {
        "a": 5, "b": 2, "c": 0, "d": 0, "e": 4, "f": 0, "x": 1, "y": 3,
    }  # fmt: skip
    assert {name: after[name][1] for name in before} == {n: row for n, (_v, row) in before.items()}


def test_an_index_does_not_answer_for_rows_that_were_rewritten(tables: Tables) -> None:
    table = put(tables, tables.create("t", SCHEMA), {f"k{n}": n for n in range(100)})
    dataset: Any = table.dataset
    dataset.create_scalar_index("v", "BTREE")
    table = put(tables, tables.open_latest("t"), {"k7": 700, "new": 7})
    assert table.scan(where="v = 7")["id"].to_pylist() == ["new"]
    assert table.scan(where="v = 700")["id"].to_pylist() == ["k7"]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 9), min_size=1),
            st.sets(st.sampled_from("abcdefgh")),
        ),
        max_size=6,
    )
)
def test_any_history_of_changes(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[tuple[dict[str, int], set[str]]],
) -> None:
    tables = Tables(locate(tmp_path_factory.mktemp("upsert")))
    table = tables.create("t", SCHEMA)
    model: dict[str, tuple[int, int]] = {}
    for values, removed in history:
        table = put(tables, table, values, *(removed - set(values)))
        found = read(table)
        kept = {n: row for n, (_v, row) in model.items() if n not in removed or n in values}
        expected = {n: v for n, (v, _row) in model.items() if n in kept} | values
        assert {name: value for name, (value, _row) in found.items()} == expected
        assert {name: found[name][1] for name in kept} == kept
        model = found
