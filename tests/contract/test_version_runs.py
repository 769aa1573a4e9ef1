"""Version runs of compacted fragments: joined without losing a change, and read back by Lance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.optimize import Compaction

from omnigraph.store.tables.version_runs import decode_runs, encode_runs, join_runs, shorten

RUNS = st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 2**40)), min_size=1, max_size=80)


@given(RUNS)
def test_the_stored_form_round_trips(runs: list[tuple[int, int]]) -> None:
    assert decode_runs(encode_runs(runs)) == runs


@given(RUNS, st.integers(1, 20))
def test_joined_runs_cover_the_same_rows_and_hide_no_change(
    runs: list[tuple[int, int]], limit: int
) -> None:
    joined = join_runs(runs, limit)
    assert len(joined) <= limit
    assert sum(rows for rows, _ in joined) == sum(rows for rows, _ in runs)
    ends = [0]
    for rows, _ in joined:
        ends.append(ends[-1] + rows)
    start = 0
    for rows, version in runs:
        at = next(i for i in range(len(joined)) if ends[i] <= start < ends[i + 1])
        assert joined[at][1] >= version
        start += rows


@pytest.mark.parametrize("data", [b"\x0a", b"\x08\x01", b"\x0a\x02\x08\x01", b"\x0d\x01\x02\x03"])
def test_an_unknown_form_is_left_alone(data: bytes) -> None:
    assert decode_runs(data) is None


@pytest.fixture
def dataset(tmp_path: Path) -> Any:
    path = str(tmp_path / "t.lance")
    for number in range(40):
        rows = pa.table({"id": [f"r{number:02}"]})
        lance.write_dataset(rows, path, mode="append", enable_stable_row_ids=True)
    return lance.dataset(path)


def test_lance_reads_the_joined_runs(dataset: Any) -> None:
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version", "_rowid"]
    before = dataset.to_table(columns=columns).to_pylist()
    plan = Compaction.plan(dataset, options={"target_rows_per_fragment": 1000})
    results = [shorten(task.execute(dataset)) for task in plan.tasks]
    Compaction.commit(dataset, results)
    after = lance.dataset(dataset.uri).to_table(columns=columns).to_pylist()
    assert len(lance.dataset(dataset.uri).get_fragments()) == 1
    assert len({row["_row_created_at_version"] for row in after}) <= 16
    for old, new in zip(before, after, strict=True):
        assert (new["id"], new["_rowid"]) == (old["id"], old["_rowid"])
        for name in columns[1:3]:
            assert old[name] <= new[name] <= len(before)


def test_an_update_after_the_join_counts_from_then_on(dataset: Any) -> None:
    plan = Compaction.plan(dataset, options={"target_rows_per_fragment": 1000})
    Compaction.commit(dataset, [shorten(task.execute(dataset)) for task in plan.tasks])
    folded = lance.dataset(dataset.uri)
    version = folded.version
    merge = folded.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(pa.table({"id": ["r07", "new"]}))
    now = lance.dataset(dataset.uri)
    name = "_row_last_updated_at_version"
    changed = now.to_table(columns=["id", name], filter=f"{name} > {version}")
    assert sorted(changed["id"].to_pylist()) == ["new", "r07"]
