"""What a load on Spark makes of its sources, before any worker starts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.lang import compile_schema
from omnigraph.limits import SPARK_FOOTERS_MAX
from omnigraph.spark.sources import Cut, plan, run_here

CATALOG = compile_schema("node Person { name: String @key  nick: String? }").catalog


def test_a_piece_knows_what_means_null(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("name,nick\nann,-\nbob,\n", encoding="utf-8")
    rows = og.Rows(data=str(tmp_path / "people.csv"), null="-")
    (piece,), frames = plan({"Person": rows}, CATALOG, str(tmp_path))
    assert (piece.reading.csv.nulls, piece.type_name, frames) == (("-",), "Person", [])


def test_graphml_is_left_to_one_process(tmp_path: Path) -> None:
    (tmp_path / "crew.graphml").write_text("<graphml/>", encoding="utf-8")
    with pytest.raises(og.BadRequestError, match="GraphML is read in one process") as caught:
        plan(str(tmp_path / "crew.graphml"), CATALOG, str(tmp_path))
    assert caught.value.hint == "use engine='local'"


def _write(folder: Path, name: str, rows: int, **options: Any) -> None:
    table = pa.table({"name": [f"{name} {number}" for number in range(rows)]})
    pq.write_table(table, folder / name, **options)


def test_small_files_are_one_piece(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / f"{number:03}.csv").write_text("name\nx\n", encoding="utf-8")
    pieces, _frames = plan({"Person": str(tmp_path)}, CATALOG, str(tmp_path))
    assert [len(piece.parts) for piece in pieces] == [255, 255, 90]
    assert [part.source for piece in pieces for part in piece.parts] == list(range(600))


def test_inputs_of_other_kinds_are_not_put_together(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "c.jsonl", "d.jsonl", "e.csv"):
        (tmp_path / name).write_text("{}" if "json" in name else "name\n", encoding="utf-8")
    rows = [og.Rows(type="Person", data=str(tmp_path / name)) for name in ("a.csv", "b.csv")]
    more = [og.Rows(type="Person", data=str(tmp_path / "e.csv"), null="-")]
    sources: list[Any] = [*rows, str(tmp_path / "c.jsonl"), str(tmp_path / "d.jsonl"), *more]
    pieces, _frames = plan(sources, CATALOG, str(tmp_path))
    names = [[Path(part.path).name for part in piece.parts] for piece in pieces]
    assert names == [["a.csv", "b.csv"], ["c.jsonl", "d.jsonl"], ["e.csv"]]


def test_a_row_group_that_is_too_large_is_cut_by_rows(tmp_path: Path) -> None:
    _write(tmp_path, "a.parquet", 1000, row_group_size=600, compression="none")
    cut = Cut(piece_bytes=100, columns_bytes=4096)
    pieces, _frames = plan({"Person": str(tmp_path / "a.parquet")}, CATALOG, str(tmp_path), cut)
    ranges = [(part.start, part.stop) for piece in pieces for part in piece.parts]
    assert (ranges[0][0], ranges[-1][1]) == (0, 1000)
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    assert 600 in [stop for _start, stop in ranges]
    assert len(ranges) > 3


def test_footers_of_many_files_are_read_by_workers(tmp_path: Path) -> None:
    for number in range(SPARK_FOOTERS_MAX + 1):
        _write(tmp_path, f"{number:02}.parquet", 3)
    asked: list[int] = []

    def run(tasks: int, work: Callable[[int], bytes]) -> list[bytes]:
        asked.append(tasks)
        return run_here(tasks, work)

    cut = Cut(piece_bytes=100)
    pieces, _frames = plan({"Person": str(tmp_path)}, CATALOG, str(tmp_path), cut, run)
    assert len(pieces) == SPARK_FOOTERS_MAX + 1
    assert asked == [5, 0]


def test_a_csv_file_is_cut_where_records_start(tmp_path: Path) -> None:
    text = "name,nick\n" + "".join(f'{n},"a\n{n}"\n' for n in range(200))
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    cut = Cut(piece_bytes=500)
    pieces, _frames = plan({"Person": str(tmp_path / "a.csv")}, CATALOG, str(tmp_path), cut)
    parts = [part for piece in pieces for part in piece.parts]
    assert len(parts) > 3
    assert [part.header for part in parts[:2]] == [(), ("name", "nick")]
    for part in parts[1:]:
        line = text[part.start :].split("\n")[0]
        assert line.split(",")[0].isdigit(), line
        assert line.endswith(',"a'), line
